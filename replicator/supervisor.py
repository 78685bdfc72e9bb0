# SPDX-License-Identifier: Apache-2.0
"""The supervisor of a node's background jobs: starts, watches, restarts and stops them.

Signals are blocked and received with ``sigtimedwait``, so that one wait covers a stop, a reload, a
dead job and a pause. The process is single-threaded: the kernel ends the jobs when it dies.

A job that is a program of this package is a fork of the supervisor, which has loaded the modules.
Ten jobs then start in the time of one, and share their code in memory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from martlet.log import fields, get_logger
from martlet.service.child_process import exit_words
from martlet.service.notify import say_ready
from martlet.service.programs import find_main
from replicator.job_process import JobProcess, Pauses
from replicator.jobs import Job
from replicator.preload import load_modules
from replicator.status_file import write_status

#: Exit status of a program that a signal ended, as a shell says it: this and the signal's number.
SIGNAL_STATUS = 128
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = get_logger("martlet.background")


class Supervisor:
    """The jobs of a node; use it in the main thread of a single-threaded process."""

    def __init__(
        self,
        jobs: Sequence[Job],
        status_path: Path,
        lock: int,
        stop_seconds: float,
        pauses: Pauses | None = None,
    ) -> None:
        # Under nohup, or in the background of a script, some signals are ignored: keep them so.
        handled = (*_STOP_SIGNALS, signal.SIGHUP)
        heard = (s for s in handled if signal.getsignal(s) != signal.SIG_IGN)
        self._watched: set[int] = {*heard, signal.SIGCHLD}
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._watched))
        self._inherited = (lock,)
        self._status_path = status_path
        self._stop_seconds = stop_seconds
        self._jobs = [
            JobProcess(job, pauses or Pauses(), main=find_main(job.command[0])) for job in jobs
        ]
        if any(job.main is not None for job in self._jobs):
            load_modules()
        self._state = "running"

    def run(self) -> int:
        """Run all jobs until a stop signal; return the exit status."""
        try:
            for job in self._jobs:
                job.start(self._mask, self._inherited)
            self._write_status()
            say_ready()
            while True:
                if self._wait(self._pause()) in _STOP_SIGNALS:
                    break
                changed = [job.look(self._mask, self._inherited) for job in self._jobs]
                if any(changed):
                    self._write_status()
        finally:
            self._stop(self._jobs)
        return 0

    def run_once(self) -> int:
        """Run each job once, one after the other; return the worst exit status."""
        worst = 0
        try:
            for job in self._jobs:
                status = self._one_pass(job)
                self._write_status()
                if status is None:
                    return SIGNAL_STATUS + signal.SIGTERM
                worst = max(worst, status if status >= 0 else SIGNAL_STATUS - status)
        finally:
            self._stop(self._jobs)
        return worst

    def _one_pass(self, job: JobProcess) -> int | None:
        """Run one job to its end; return its exit status, or None after a stop signal."""
        job.job = job.job.once()
        job.start(self._mask, self._inherited)
        self._write_status()
        if job.process is None:
            return 1
        while (status := job.reap()) is None:
            if self._wait(None) in _STOP_SIGNALS:
                return None
        job.ended(status)
        log.info("job ended %s", fields(job=job.job.name, exit=exit_words(status)))
        return status

    def _wait(self, seconds: float | None) -> int | None:
        """Sleep until a signal comes or the time is over; return the signal. Jobs get a reload."""
        if seconds is None:
            found: int | None = signal.sigwaitinfo(self._watched).si_signo
        else:
            event = signal.sigtimedwait(self._watched, max(seconds, 0.0))
            found = event.si_signo if event else None
        if found == signal.SIGHUP:
            log.info("reload")
            for job in self._jobs:
                job.signal(signal.SIGHUP)
        return found

    def _pause(self) -> float | None:
        due = [job.due for job in self._jobs if job.due is not None]
        return min(due) - time.monotonic() if due else None

    def _stop(self, jobs: Sequence[JobProcess]) -> None:
        """Tell all jobs to end, the last one first; kill those that have not ended in time."""
        if any(job.process is not None for job in jobs):
            log.info("stopping")
            self._state = "stopping"
            self._write_status()
        deadline = time.monotonic() + self._stop_seconds
        for job in reversed(jobs):
            job.signal(signal.SIGTERM)
        while self._any_runs(jobs) and (left := deadline - time.monotonic()) > 0:
            signal.sigtimedwait(self._watched, left)  # a second stop signal changes nothing
        for job in jobs:
            if job.process is not None:
                log.warning("job did not stop in time and is killed %s", fields(job=job.job.name))
                job.kill_group()
                job.ended(job.process.wait())
                job.process = None
        for job in jobs:  # one may have waited for its restart
            job.state, job.due = "stopped", None
        self._state = "stopped"
        self._write_status()

    def _any_runs(self, jobs: Sequence[JobProcess]) -> bool:
        for job in jobs:
            status = job.reap()
            if status is not None:
                job.ended(status)
        return any(job.process is not None for job in jobs)

    def _write_status(self) -> None:
        """Write the status file; a full disk must not stop the jobs."""
        try:
            write_status(self._status_path, self._state, [job.report() for job in self._jobs])
        except OSError as error:
            log.error("status cannot be written %s", fields(path=self._status_path, error=error))
