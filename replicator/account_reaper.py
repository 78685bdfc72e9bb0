# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-account-reaper``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator.reaper import Reaper

NAME = "martlet-account-reaper"


def main(argv: list[str] | None = None) -> int:
    """Run the reaper until a stop signal, or once; return the exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from replicator.job_command import arguments_of, run

    words = "Deletes the objects and containers of the deleted accounts on this host's devices."
    return run(arguments_of(argv, NAME, words, "account-server.conf"), NAME, load_reaper)


def load_reaper(conf_path: Path) -> Reaper:
    """Load the reaper from the conf of the account server.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: a ring is missing.
    :raises ValueError: the log level is invalid.
    :raises OSError: the priority cannot be set.
    """
    from account.database import AccountDatabase
    from replicator.job_setup import load_job
    from replicator.options import ReaperOptions
    from replicator.reaper import Reaper
    from replicator.reaper_requests import ReaperRequests
    from ring.ring import load_rings

    setup, options = load_job(conf_path, "account-reaper", ReaperOptions)
    policies = [policy.index for policy in setup.cluster.policies]
    rings = load_rings(setup.server.swift_dir, policies=policies)
    client = setup.client(options.conn_timeout, options.node_timeout)
    return Reaper(
        options,
        rings.account,
        setup.server.bind_port,
        setup.usable_path,
        lambda path: AccountDatabase(path, setup.check.assert_there),
        ReaperRequests(rings, client),
        policies,
    )


if __name__ == "__main__":
    sys.exit(main())
