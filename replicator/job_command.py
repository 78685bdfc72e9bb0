# SPDX-License-Identifier: Apache-2.0
"""The command line of the auditors, the reaper and the sharder, and their runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

from martlet.log import get_logger
from replicator.job_arguments import add_devices, job_parser, parse_job


class JobFigures(Protocol):
    """The figures of a pass."""

    def as_dict(self) -> dict[str, int | float]:
        """The figures by name."""

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether something failed."""


class DatabaseJob(Protocol):
    """A job that goes through the databases of this host in passes."""

    interval: float

    def run_once(self, devices: Collection[str] = ()) -> JobFigures:
        """Run one pass, over all devices or some."""


def arguments_of(argv: list[str] | None, name: str, description: str, conf_name: str) -> Any:
    """Parse the command line; end the program on a usage error."""
    conf = f"/etc/martlet/{conf_name}"
    parser = job_parser(
        name,
        description,
        f"examples:\n  {name} {conf}\n      runs until it is stopped, with a pass in every "
        f"interval\n  {name} {conf} --once --device d1,d2 --json\n      runs one pass over two "
        "devices, and prints its figures as JSON",
        "the server's configuration file",
    )
    add_devices(parser)
    return parse_job(parser, argv, "devices")


def run(arguments: Any, name: str, load: Callable[[Path], DatabaseJob]) -> int:
    """Run a job until a stop signal, or once; return the exit status.

    The standard library is patched already.
    """
    from martlet.conf.options import ConfigError
    from ring.errors import RingError

    try:
        job = load(arguments.conf)
    except (ConfigError, RingError, ValueError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    if not arguments.once:
        from storage.reloadable_job import run_until_stopped

        return run_until_stopped(
            job, lambda: load(arguments.conf), lambda loaded: _run_forever(loaded, name)
        )
    figures = job.run_once(arguments.devices)
    if arguments.json:
        print(json.dumps(figures.as_dict()))
    return 1 if figures.is_to_be_repeated else 0


def _run_forever(job: DatabaseJob, name: str) -> None:
    log = get_logger(name)
    while True:
        started = time.monotonic()
        try:
            job.run_once()
        except Exception:
            log.exception("pass failed")
        time.sleep(max(1.0, job.interval - (time.monotonic() - started)))
