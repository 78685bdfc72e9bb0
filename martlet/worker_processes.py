# SPDX-License-Identifier: Apache-2.0
"""The worker processes of a service: forked, replaced when they die, and when they give up.

A thread that waits for a disk cannot be killed, and its process does not end before it. So a worker
that is of no more use says so, and its place is taken at once by another one on the same socket.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from martlet.log import get_logger

#: How long a worker may take to finish its requests after SIGTERM, or when it retires, seconds.
GRACE_SECONDS = 10.0
#: How long the place of a dead worker stays empty, seconds.
RESPAWN_SECONDS = 0.2

log = get_logger("martlet.server")


class _Place(NamedTuple):
    """Where a worker stands among those of its parent."""

    number: int
    parent: int
    retired: mmap.mmap  # a byte for each worker: 1 if it wants to be replaced


_place: _Place | None = None  # of this process
_retirement: list[Callable[[], object]] = []


def at_retirement(function: Callable[[], object]) -> None:
    """Have a function called when this worker retires; the last one named comes first.

    What the next worker needs must be given back here: the kernel takes back nothing before the
    last thread has ended.
    """
    _retirement.append(function)


def retire() -> None:
    """Have this worker replaced now; it ends when its requests have, or at once without any."""
    if _place is None:
        log.critical("no other process can take the place of this one: it must be restarted")
        return
    for function in reversed(_retirement):
        function()
    _place.retired[_place.number] = 1
    os.kill(_place.parent, signal.SIGUSR1)
    if not _retirement:
        os._exit(1)


class _Supervisor:
    def __init__(self, count: int, work: Callable[[int], None]) -> None:
        from eventlet.patcher import original

        # The green ones wake up a hundred times a second.
        self._wait, self._sleep = original("os").wait, original("time").sleep
        self._work = work
        self._parent = os.getpid()
        self._retired = mmap.mmap(-1, count)
        self._workers: dict[int, int] = {}  # number by process id; without those that retired
        self._is_stopping = False

    def run(self, count: int) -> int:
        signal.signal(signal.SIGUSR1, self._replace_retired)
        for number in range(count):
            self._spawn(number)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while self._workers:
            try:
                pid, status = self._wait()
            except ChildProcessError:
                break
            worker = self._workers.pop(pid, None)
            if worker is None or self._is_stopping:
                continue
            log.error("worker died pid=%d status=%d", pid, os.waitstatus_to_exitcode(status))
            # One that dies at its start must not take the machine with it.
            self._sleep(RESPAWN_SECONDS)
            if not self._is_stopping:
                self._spawn(worker)
        return 0

    def _spawn(self, number: int) -> None:
        self._retired[number] = 0  # a wish of the last one, which may have died of itself
        pid = os.fork()
        if pid == 0:
            _die_with(self._parent)
            for signal_number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
                signal.signal(signal_number, signal.SIG_DFL)
            global _place
            _place = _Place(number, self._parent, self._retired)
            status = 1
            try:
                self._work(number)
                status = 0
            finally:
                os._exit(status)
        self._workers[pid] = number

    def _replace_retired(self, _number: int, _frame: object) -> None:
        for pid, number in list(self._workers.items()):
            if self._retired[number] and not self._is_stopping:
                del self._workers[pid]
                log.error("worker retires pid=%d", pid)
                self._spawn(number)

    def _stop(self, _number: int, _frame: object) -> None:
        self._is_stopping = True
        for pid in self._workers:
            _kill(pid)
        # A worker with a thread that waits for a disk does not end, and is not waited for.
        signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(0))
        signal.alarm(int(GRACE_SECONDS) + 1)


def supervise(count: int, work: Callable[[int], None]) -> int:
    """Fork ``count`` workers, numbered from 0, and replace those that die, until told to stop."""
    return _Supervisor(count, work).run(count)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has just ended by itself


def _die_with(parent: int) -> None:
    """Ask the kernel to end this worker when its parent dies, even by kill -9."""
    import ctypes

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
