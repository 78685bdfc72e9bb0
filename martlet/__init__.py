"""The shared words of martlet: timestamps, names and limits, config, logging, HTTP plumbing.

Every other package may import this one; it imports none of them.
"""
