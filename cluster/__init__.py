# SPDX-License-Identifier: Apache-2.0
"""The ``martlet`` command: starts, watches and stops a whole cluster on one machine.

The package handles processes, ports, rings and confs; it serves no requests. ``layout`` describes a
cluster, ``confs`` and ``rings`` write its files for the services, and ``processes`` runs them.
"""
