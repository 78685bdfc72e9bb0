# SPDX-License-Identifier: Apache-2.0
"""Background work: the supervisor of a node's background jobs, ``martlet-background``.

``jobs`` says which jobs a node needs, ``job_process`` keeps one of them running, and ``supervisor``
runs them together.
"""
