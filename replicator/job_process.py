# SPDX-License-Identifier: Apache-2.0
"""One background job and its process: start, restart with a growing pause, stop.

A job is ``running``, or ``restarting`` after its process died once. It is ``failing`` if the next
process died too, and until one has run for ``steady`` seconds. The log has a line for each change
of this state, not for each restart.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from martlet.log import fields, get_logger
from martlet.service.child_process import exit_words, start_child
from martlet.service.forked_child import ForkedChild, Main, fork_child
from replicator.jobs import Job

log = get_logger("martlet.background")


@dataclass(frozen=True)
class Pauses:
    """The pauses before restarts, seconds: doubled from ``first`` up to ``longest``."""

    first: float = 0.5
    longest: float = 60.0
    steady: float = 10.0  # after a process ran this long, its job is well again


@dataclass
class JobProcess:
    """A job with its present process; ``clock`` counts seconds.

    With a ``main``, the function of the job's program, the process is a fork of this one.
    """

    job: Job
    pauses: Pauses
    clock: Callable[[], float] = time.monotonic
    main: Main | None = None
    process: subprocess.Popen[bytes] | ForkedChild | None = None
    state: str = "stopped"
    started: float | None = None  # Unix time
    restarts: int = 0
    last_exit: dict[str, Any] | None = None
    #: The moment of the next step: a restart, or the end of a bad time. None: there is none.
    due: float | None = None
    _deaths: int = 0  # in a row: none of these processes ran for long

    def start(self, signal_mask: Iterable[int], inherited: tuple[int, ...]) -> None:
        """Start the first process or the next one; a failure counts as its death."""
        if self.state != "stopped":
            self.restarts += 1
        try:
            self.process = self._new_process(signal_mask, inherited)
        except OSError as error:
            self._died(f"cannot be started: {error}", None)
            return
        self.started = time.time()
        self.due = self.clock() + self.pauses.steady
        if self.state == "stopped":
            self.state = "running"
            log.info("job started %s", fields(job=self.job.name, process=self.process.pid))
        elif self.state == "restarting":
            self.state = "running"
            log.info("job restarted %s", fields(job=self.job.name, process=self.process.pid))

    def _new_process(
        self, signal_mask: Iterable[int], inherited: tuple[int, ...]
    ) -> subprocess.Popen[bytes] | ForkedChild:
        """:raises OSError: it cannot be started."""
        if self.main is None:
            return start_child(self.job.command, signal_mask, inherited, own_group=True)
        return fork_child(self.main, self.job.command, signal_mask, inherited)

    def look(self, signal_mask: Iterable[int], inherited: tuple[int, ...]) -> bool:
        """Notice a death, and take the next step if it is due; return whether anything changed."""
        status = self.reap()
        if status is not None:
            self._died(exit_words(status), status)
            return True
        if self.due is None or self.clock() < self.due:
            return False
        if self.process is None:
            self.start(signal_mask, inherited)
            return True
        self.due, self._deaths = None, 0
        if self.state == "failing":
            self.state = "running"
            log.info("job runs again %s", fields(job=self.job.name, restarts=self.restarts))
        return True

    def reap(self) -> int | None:
        """The exit status if the process has just ended; the rest of its group is killed."""
        if self.process is None:
            return None
        pid = self.process.pid
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.kill_group()  # before the wait: until then the number belongs to this group
        status = self.process.wait()
        self.process = None
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if there is one."""
        if self.process is not None:
            os.kill(self.process.pid, number)  # not reaped, so the number is still this one's

    def kill_group(self) -> None:
        """Kill the process and the processes that it started."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except PermissionError:
                pass  # a program that became another user's

    def ended(self, status: int) -> None:
        """Note the end of a process that was told to stop."""
        self.state, self.due = "stopped", None
        self._note_exit(exit_words(status), status)

    def report(self) -> dict[str, Any]:
        """The job in the status file (doc/background.md)."""
        return {
            "job": self.job.name,
            "conf": str(self.job.conf),
            "state": self.state,
            "pid": self.process.pid if self.process else None,
            "started": self.started,
            "restarts": self.restarts,
            "last_exit": self.last_exit,
        }

    def _died(self, words: str, status: int | None) -> None:
        self._note_exit(words, status)
        self._deaths += 1
        pause = min(self.pauses.first * 2 ** min(self._deaths - 1, 30), self.pauses.longest)
        self.due = self.clock() + pause
        named = fields(job=self.job.name, exit=words, pause=f"{pause:g}")
        if self._deaths == 1:
            self.state = "restarting"
            log.warning("job died, restart after a pause %s", named)
        elif self.state != "failing":
            self.state = "failing"
            log.error("job fails again and again, pauses grow %s", named)

    def _note_exit(self, words: str, status: int | None) -> None:
        self.last_exit = {"status": status, "words": words, "time": time.time()}
