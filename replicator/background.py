# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-background``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from martlet.conf.options import ConfigError
from martlet.log import FORMATS, setup_logging
from martlet.service.process_lock import LockHeld, ProcessLock, lock_holder
from replicator.jobs import JOB_KINDS, Job, jobs_to_run, read_jobs
from replicator.status_file import STATUS_NAME, read_status
from replicator.supervisor import Supervisor

NAME = "martlet-background"
LOCK_NAME = "background.lock"
RUN_DEFAULT = Path("/run/martlet")
STOP_SECONDS_DEFAULT = 10.0
# A supervisor whose parent was killed, and that ends now, has so long.
_LAST_SECONDS = 5.0

_DESCRIPTION = """\
Runs the background jobs of a node, each as a process of its own, and restarts one that dies. A job
runs if the conf of its server, in CONF_DIR, has the section with the job's name. That section may
be empty.
"""
_EPILOG = """\
SIGTERM and SIGINT stop all jobs. SIGHUP is sent on to each job, which applies what it can of its
conf. A change of the jobs that run needs a restart.

examples:
  martlet-background /etc/martlet            the jobs of this node, until SIGTERM
  martlet-background --list /etc/martlet     the jobs, and which of them are on
  martlet-background --once /etc/martlet     each job once, then stop
  martlet-background --once --job object-replicator /etc/martlet
                                             one pass of one job

Exit status: 0 stopped by a signal, or all jobs of --once succeeded; 1 the jobs cannot run; 2 the
command line is wrong. With --once: the greatest exit status of a job, 128 and the number of the
signal for a job that was killed.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the background jobs until a stop signal, or once; return the exit status."""
    arguments = _parse(argv)
    try:
        jobs = read_jobs(arguments.conf_dirs)
        if arguments.job:
            jobs = [job for job in jobs if job.kind in arguments.job]
        if arguments.list:
            return _list(jobs, arguments.run, arguments.json)
        return _run(jobs_to_run(jobs), arguments)
    except ConfigError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1


def _parse(argv: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "conf_dirs",
        nargs="+",
        type=Path,
        metavar="CONF_DIR",
        help="directory with the confs of the servers of a node",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-o", "--once", action="store_true", help="run each job once, in turn")
    what.add_argument("--list", action="store_true", help="print the jobs, and run none")
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")
    parser.add_argument(
        "--job",
        action="append",
        choices=[kind.name for kind in JOB_KINDS],
        help="only this job; may be repeated",
    )
    parser.add_argument(
        "--run",
        type=Path,
        default=RUN_DEFAULT,
        metavar="DIR",
        help=f"directory of the lock and of {STATUS_NAME} (default {RUN_DEFAULT})",
    )
    parser.add_argument(
        "--stop-seconds",
        type=float,
        default=STOP_SECONDS_DEFAULT,
        metavar="N",
        help=f"time for the jobs to end before they are killed (default {STOP_SECONDS_DEFAULT:g})",
    )
    parser.add_argument(
        "--log-style", choices=FORMATS, default=FORMATS[0], help="form of the supervisor's own log"
    )
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    arguments = parser.parse_args(argv)
    if arguments.json and not arguments.list:
        parser.error("--json needs --list")
    if not 0 <= arguments.stop_seconds < float("inf"):
        parser.error("--stop-seconds must not be negative")
    return arguments


def _run(jobs: list[Job], arguments: Any) -> int:
    """
    :raises ConfigError: another supervisor runs, or the directory cannot be written.
    """
    setup_logging("INFO", arguments.log_style)
    run: Path = arguments.run
    try:
        run.mkdir(parents=True, exist_ok=True)
        lock = _lock(run / LOCK_NAME)
    except LockHeld as held:
        raise ConfigError(f"process {held.holder} already runs the jobs of {run}") from None
    except OSError as error:
        raise ConfigError(f"cannot write {run / LOCK_NAME}: {error.strerror}") from None
    supervisor = Supervisor(jobs, run / STATUS_NAME, lock.descriptor, arguments.stop_seconds)
    return supervisor.run_once() if arguments.once else supervisor.run()


def _lock(path: Path) -> ProcessLock:
    """Take the lock. A supervisor that is about to end has some seconds to do so.

    :raises LockHeld: another supervisor runs.
    """
    deadline = time.monotonic() + _LAST_SECONDS
    while True:
        try:
            return ProcessLock.acquire(path)
        except LockHeld:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)


def _list(jobs: Sequence[Job], run: Path, as_json: bool) -> int:
    """Print the jobs; return 1 if the program of one that is on is missing."""
    running = read_status(run / STATUS_NAME) if lock_holder(run / LOCK_NAME) else {}
    rows = [_row(job, running.get(job.name, {})) for job in jobs]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'JOB':<24} {'STATE':<12} {'PID':>8}  CONF")
        for row in rows:
            note = f"  ({row['note']})" if row["note"] else ""
            print(
                f"{row['job']:<24} {row['state']:<12} {row['pid'] or '-':>8}  {row['conf']}{note}"
            )
    return 1 if any(job.is_on and job.missing for job in jobs) else 0


def _row(job: Job, now: dict[str, Any]) -> dict[str, Any]:
    state = "off" if not job.is_on else "not there" if job.missing else "not running"
    return {
        "job": job.name,
        "state": now.get("state", state),
        "on": job.is_on,
        "pid": now.get("pid"),
        "restarts": now.get("restarts", 0),
        "conf": str(job.conf),
        "command": list(job.command),
        "note": job.off_because or job.missing,
    }


if __name__ == "__main__":
    sys.exit(main())
