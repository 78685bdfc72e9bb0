# SPDX-License-Identifier: Apache-2.0
"""The command line of the replicators, and their start from a conf."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator.job_arguments import add_devices, job_parser, parse_job

if TYPE_CHECKING:
    from replicator.passes import Passes
    from storage.replicated_database import ReplicatedDatabase

OpenDatabase = Callable[[str, Callable[[str], None]], "ReplicatedDatabase"]

_EXAMPLES = """\
examples:
  {name} /etc/martlet/{kind}-server.conf
      runs until it is stopped, with a pass in every interval
  {name} /etc/martlet/{kind}-server.conf --once
      runs one pass over all databases, and ends with 1 if something is to be repeated
  {name} /etc/martlet/{kind}-server.conf --once --device d1,d2 --json
      runs one pass over two devices, and prints its figures as JSON
  {name} /etc/martlet/{kind}-server.conf --once --partitions 17,4711
      runs one pass over two partitions
"""


def arguments_of(argv: list[str] | None, kind: str) -> Any:
    """Parse the command line; end the program on a usage error."""
    name = f"martlet-{kind}-replicator"
    parser = job_parser(
        name,
        f"Brings the replicas of {kind} databases on this host's devices and on other servers to "
        "the same state.",
        _EXAMPLES.format(name=name, kind=kind),
        f"the {kind} server's configuration file",
    )
    add_devices(parser)
    parser.add_argument(
        *("-p", "--partition", "--partitions"),
        dest="partitions",
        type=_numbers,
        default=frozenset(),
        metavar="NUMBERS",
        help="only these partitions, separated by commas; with --once",
    )
    return parse_job(parser, argv, "devices", "partitions")


def _numbers(text: str) -> frozenset[int]:
    words = [word for word in text.split(",") if word]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise argparse.ArgumentTypeError("partitions are numbers")
    return frozenset(map(int, words))


def run(argv: list[str] | None, kind: str, open_database: OpenDatabase) -> int:
    """Run a replicator until a stop signal, or once; return the exit status.

    The standard library is patched already.
    """
    from martlet.conf.options import ConfigError
    from replicator.passes import Selection
    from ring.errors import RingError

    arguments = arguments_of(argv, kind)
    try:
        passes = load_passes(arguments.conf, kind, open_database)
    except (ConfigError, RingError, ValueError, OSError) as error:
        print(f"martlet-{kind}-replicator: {error}", file=sys.stderr)
        return 1
    if not arguments.once:
        from storage.reloadable_job import run_until_stopped

        return run_until_stopped(
            passes,
            lambda: load_passes(arguments.conf, kind, open_database),
            lambda loaded: loaded.run_forever(),
        )
    figures = passes.run_once(Selection(arguments.devices, arguments.partitions))
    if arguments.json:
        print(json.dumps(figures.as_dict()))
    return 1 if figures.failures or figures.partly else 0


def load_passes(conf_path: Path, kind: str, open_database: OpenDatabase) -> Passes:
    """Load a replicator from the conf of the server of the same kind, and set its priority.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: there is no ring.
    :raises ValueError: the log level is invalid.
    :raises OSError: the priority cannot be set.
    """
    from martlet.service.disk_calls import limits
    from replicator.job_setup import load_job
    from replicator.options import ReplicatorOptions
    from replicator.passes import Passes
    from replicator.replication import Replication

    setup, options = load_job(conf_path, f"{kind}-replicator", ReplicatorOptions)
    limits.threads_per_disk = min(options.concurrency, limits.threads_per_disk)
    ring = setup.ring(kind)
    client = setup.client(options.conn_timeout, options.node_timeout)
    replication = Replication(
        kind,
        options,
        ring,
        setup.hash_path,
        client,
        lambda path: open_database(path, setup.check.assert_there),
    )
    return Passes(
        kind,
        options,
        ring,
        setup.server.bind_port,
        client,
        replication,
        setup.usable_path,
    )
