# SPDX-License-Identifier: Apache-2.0
"""The processes of a cluster: started, watched, restarted when they die, stopped together.

A service that is a program of this package is a fork of the supervisor, which has loaded its
modules. So they start with less processor time, and share their code in memory.

No process outlives the supervisor: when it dies, the kernel sends SIGKILL to each of its children.
The Python services request the same for their workers. Signals are blocked and received with
``sigtimedwait``, so that one wait covers a stop, a dead child and a timeout.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster import logs
from cluster.errors import ClusterError, Stopped
from cluster.services import BACKGROUND_STOP_SECONDS, Service
from martlet.service.child_process import exit_words, start_child
from martlet.service.forked_child import ForkedChild, Main, fork_child
from martlet.service.programs import find_main, preload

STOP_SECONDS = 10.0
#: The part of ``STOP_SECONDS`` in which the background jobs alone end.
BACKGROUND_SECONDS = BACKGROUND_STOP_SECONDS + 1.0
#: The part of ``STOP_SECONDS`` in which then the front service alone finishes its requests.
FRONT_STOP_SECONDS = 4.0
RESTART_SECONDS_MIN = 0.1
RESTART_SECONDS_MAX = 10.0
#: A service that ran this long is restarted with the shortest wait when it dies.
STEADY_SECONDS = 10.0

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Report = Callable[[str], None]


@dataclass
class Child:
    """One service and its present process."""

    service: Service
    log_path: Path
    pid_path: Path
    main: Main | None = None  # of a program of this package: then the process is a fork
    process: subprocess.Popen[bytes] | ForkedChild | None = None
    started: float = 0.0
    restart_at: float = 0.0
    wait_seconds: float = RESTART_SECONDS_MIN

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def end(self) -> str:
        """The end of its process, in words."""
        assert self.process is not None
        assert self.process.returncode is not None
        return exit_words(self.process.returncode)


@dataclass
class Supervisor:
    """The supervisor of the services; use it in the main thread of a single-threaded process.

    If it may have Python services, that process has called ``patch_standard_library``.
    """

    services: Sequence[Service]
    logs: Path
    run: Path
    report: Report
    inherited: tuple[int, ...] = ()
    children: list[Child] = field(default_factory=list)
    _watched: set[int] = field(default_factory=set)
    _mask: set[int] = field(default_factory=set)
    _unbound: set[Path] = field(default_factory=set)  # logs whose failed rotation was reported

    def __post_init__(self) -> None:
        # Under nohup, or in the background of a script, some signals are ignored: keep them so.
        stops = (s for s in _STOP_SIGNALS if signal.getsignal(s) != signal.SIG_IGN)
        self._watched = {*stops, signal.SIGCHLD}
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._watched))
        for service in self.services:
            log_path, pid_path = self.logs / f"{service.name}.log", self.run / f"{service.name}.pid"
            main = find_main(service.command[0])
            self.children.append(Child(service, log_path, pid_path, main))

    def start(self, is_background: bool = False) -> None:
        """Start all services, or all background jobs; on return none is ready yet.

        :raises ClusterError: a program cannot be started.
        """
        starting = [c for c in self.children if c.service.is_background == is_background]
        for main in {child.main for child in starting if child.main is not None}:
            preload(main)
        for child in starting:
            try:
                self._spawn(child)
            except OSError as error:
                raise ClusterError(f"cannot start {child.service.name}: {error}") from None

    def wait(self, seconds: float) -> list[Child]:
        """Sleep until a child dies or the time is over; return the children that died.

        :raises Stopped: SIGINT, SIGTERM or SIGHUP came.
        """
        found = signal.sigtimedwait(self._watched, max(seconds, 0.0))
        # After a suspension that was longer than the wait, Python returns any number (Ctrl-Z, fg).
        if found is not None and found.si_signo in self._watched - {signal.SIGCHLD}:
            raise Stopped(signal.Signals(found.si_signo).name)
        return [c for c in self.children if c.process is not None and not c.is_running]

    def watch(self) -> None:
        """Keep every service running, until ``Stopped`` is raised."""
        while True:
            due = [child.restart_at for child in self.children if child.process is None]
            pause = min(due) - time.monotonic() if due else logs.LOOK_SECONDS
            for dead in self.wait(min(pause, logs.LOOK_SECONDS)):
                self._plan_restart(dead)
            self._bound_logs()
            for child in self.children:
                if child.process is None and child.restart_at <= time.monotonic():
                    self._restart(child)

    def _bound_logs(self) -> None:
        for child in self.children:
            try:
                logs.bound_log(child.log_path)
            except OSError as error:
                if child.log_path not in self._unbound:
                    self.report(f"{child.log_path} cannot be rotated: {error}")
                    self._unbound.add(child.log_path)

    def stop(self) -> None:
        """End every process: background jobs first, then the front service with its requests.

        A process that has not ended after ``STOP_SECONDS`` is killed.
        """
        deadline = time.monotonic() + STOP_SECONDS
        background = [child for child in self.children if child.service.is_background]
        self._terminate(background, min(deadline, time.monotonic() + BACKGROUND_SECONDS))
        front = [child for child in self.children if child.service.is_front]
        self._terminate(front, min(deadline, time.monotonic() + FRONT_STOP_SECONDS))
        self._terminate(self.children, deadline)
        for child in self.children:
            if child.process is not None and child.is_running:
                self.report(f"{child.service.name} did not stop in time and is killed")
                child.process.kill()
            if child.process is not None:
                child.process.wait()
            child.pid_path.unlink(missing_ok=True)

    def _terminate(self, children: Iterable[Child], deadline: float) -> None:
        running = [child for child in children if child.process is not None and child.is_running]
        for child in running:
            assert child.process is not None
            child.process.terminate()
        while any(child.is_running for child in running):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            # Any signal ends the wait early; a second Ctrl-C does not change the stop.
            signal.sigtimedwait(self._watched, left)

    def _spawn(self, child: Child) -> None:
        with logs.open_log(child.log_path) as log:
            command = child.service.command
            if child.main is None:
                child.process = start_child(command, self._mask, self.inherited, log)
            else:
                child.process = fork_child(
                    child.main, command, self._mask, self.inherited, log, own_group=False
                )
        child.started = time.monotonic()
        _write_pid(child.pid_path, child.process.pid)

    def _plan_restart(self, child: Child) -> None:
        now = time.monotonic()
        if now - child.started >= STEADY_SECONDS:
            child.wait_seconds = RESTART_SECONDS_MIN
        wait = child.wait_seconds
        self.report(f"{child.service.name} {child.end}; restart in {wait:.1f} s ({child.log_path})")
        child.process = None
        child.restart_at = now + wait
        child.wait_seconds = min(wait * 2, RESTART_SECONDS_MAX)

    def _restart(self, child: Child) -> None:
        try:
            self._spawn(child)
        except OSError as error:
            self.report(f"{child.service.name} cannot be started: {error}")
            child.restart_at = time.monotonic() + child.wait_seconds
            child.wait_seconds = min(child.wait_seconds * 2, RESTART_SECONDS_MAX)


def _write_pid(path: Path, pid: int) -> None:
    """Replace the file atomically: a reader finds the old process or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(f"{pid}\n")
    temporary.rename(path)
