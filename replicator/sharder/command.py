# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-container-sharder``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator.sharder.passes import Sharder

NAME = "martlet-container-sharder"


def main(argv: list[str] | None = None) -> int:
    """Run the sharder until a stop signal, or once; return the exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from replicator.job_command import arguments_of, run

    words = "Splits containers with many objects into shards, and joins small shards again."
    return run(arguments_of(argv, NAME, words, "container-server.conf"), NAME, load_sharder)


def load_sharder(conf_path: Path) -> Sharder:
    """Load the sharder from the conf of the container server.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: there is no ring.
    :raises ValueError: the log level is invalid.
    :raises OSError: the priority cannot be set.
    """
    from container.database import ContainerDatabase
    from replicator.job_setup import load_job
    from replicator.sharder.giving import Giving
    from replicator.sharder.options import SharderOptions
    from replicator.sharder.passes import Sharder
    from replicator.sharder.plan import Plan
    from replicator.sharder.requests import ShardRequests

    setup, options = load_job(conf_path, "container-sharder", SharderOptions)
    ring = setup.ring("container")
    requests = ShardRequests(ring, setup.client(options.conn_timeout, options.node_timeout))
    prefix = setup.cluster.constraints.auto_create_account_prefix
    return Sharder(
        options,
        ring,
        setup.server.bind_port,
        setup.usable_path,
        lambda path: ContainerDatabase(path, setup.check.assert_there),
        Plan(options, requests, prefix),
        Giving(requests, options.cleave_row_batch_size),
    )


if __name__ == "__main__":
    sys.exit(main())
