# SPDX-License-Identifier: Apache-2.0
"""The modules of the jobs, loaded once in the process that they are forks of."""

from __future__ import annotations

import importlib

from martlet.service.green import patch_standard_library

#: The modules that the jobs import when they start, or one that imports them.
_MODULES = (
    "account.database",
    "container.database",
    "replicator.auditor",
    "replicator.auditor_command",
    "replicator.command",
    "replicator.expirer.passes",
    "replicator.expirer.queue",
    "replicator.job_command",
    "replicator.job_setup",
    "replicator.passes",
    "replicator.reaper",
    "replicator.replication",
    "replicator.sharder.giving",
    "replicator.sharder.passes",
    "replicator.sharder.plan",
    "replicator.sharder.requests",
    "storage.reloadable_job",
)


def load_modules() -> None:
    """Load all that the jobs import when they start; the hub of eventlet does not start."""
    patch_standard_library()
    for name in _MODULES:
        importlib.import_module(name)
