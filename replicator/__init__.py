# SPDX-License-Identifier: Apache-2.0
"""Background work: the replication of databases, and the supervisor of a node's background jobs.

The supervisor is ``martlet-background``: ``jobs`` says which jobs a node needs, ``job_process``
keeps one of them running, and ``supervisor`` runs them together.

The jobs ``martlet-account-replicator`` and ``martlet-container-replicator``: ``passes`` goes
through the databases of a host, ``replication`` handles one of them, and ``exchange`` brings one
peer up to date.
"""
