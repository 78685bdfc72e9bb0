# SPDX-License-Identifier: Apache-2.0
"""The ``martlet`` command: one whole cluster on one machine, started, watched and stopped.

The folder knows processes, ports, rings and confs; it serves no request itself. ``layout`` says
what a cluster is, ``confs`` and ``rings`` write that down for the services, ``processes`` runs
them.
"""
