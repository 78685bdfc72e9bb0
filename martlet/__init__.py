"""The code that every package uses: timestamps, names and limits, configuration, logging, HTTP.

Every other package may import this one. It imports none of them.
"""
