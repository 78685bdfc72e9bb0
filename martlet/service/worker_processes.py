# SPDX-License-Identifier: Apache-2.0
"""The worker processes of a service: forked, and replaced when they die or retire.

A thread that waits for a disk cannot be killed, and its process does not end before it. So a worker
that cannot serve any more tells its parent, and another one replaces it at once on the same socket.
In a reload the parent executes its program again (``martlet.service.reload``). Its old workers
retire when the new ones serve.
"""

from __future__ import annotations

import math
import mmap
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from martlet.log import get_logger, separate_request_lines
from martlet.service.child_process import die_with
from martlet.service.notify import say_ready
from martlet.service.reload import WORD, hold_all_signals, take_signals
from martlet.service.signal_bell import SignalBell

#: Time for a worker to finish its requests after SIGTERM, or when it retires, seconds.
GRACE_SECONDS = 10.0
#: Pause before a dead worker is replaced, seconds.
RESPAWN_SECONDS = 0.2

log = get_logger("martlet.server")


#: The states that a worker reports to its parent: a byte each.
_NOTHING, _WISHES_TO_RETIRE, _SERVES = range(3)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_RELOAD_SIGNALS = (signal.SIGHUP, signal.SIGUSR1)


class _Place(NamedTuple):
    """The number of a worker, and its way to report to its parent."""

    number: int
    parent: int
    words: mmap.mmap  # a byte for each worker

    def say(self, word: int) -> None:
        self.words[self.number] = word
        os.kill(self.parent, WORD)


class ReloadRefused(Exception):
    """The conf cannot be used: a sentence."""


@dataclass
class Renewal:
    """The steps of a reload, and the workers from before it that still serve."""

    check: Callable[[], int]  # starts a process that ends with 0 if the conf is good; OSError
    execute: Callable[[Iterable[int]], None]  # with the process ids of all workers; OSError
    old_workers: list[int]


_place: _Place | None = None  # of this process
_retirement: list[Callable[[], object]] = []
_end: list[Callable[[], object]] = []


def at_retirement(function: Callable[[], object]) -> None:
    """Register a function to call when this worker retires; the last one registered runs first.

    It must release what the next worker needs: the kernel releases nothing before the last thread
    has ended.
    """
    _retirement.append(function)


def at_end(function: Callable[[], object]) -> None:
    """Register a function to call when this worker has served its last request.

    It must end within a few seconds. A worker that is killed does not call it.
    """
    _end.append(function)


def retire() -> None:
    """Ask for a replacement of this worker; it ends after its requests, at once without any."""
    if _place is None:
        log.critical("no other process can replace this one: it must be restarted")
        return
    make_way(GRACE_SECONDS)
    _place.say(_WISHES_TO_RETIRE)
    if not _retirement:
        os._exit(1)


def make_way(seconds: float) -> None:
    """Leave new requests to another worker; the running ones have ``seconds`` to end."""
    separate_request_lines()
    for function in reversed(_retirement):
        function()
    # The kernel's timer: a thread that waits for a disk may block any other thread.
    rest = signal.alarm(math.ceil(seconds))
    if 0 < rest < seconds:  # an earlier call set a shorter time
        signal.alarm(rest)


def make_way_when_told(ring: Callable[[], object]) -> None:
    """Have ``ring`` called, in a signal handler, when the next workers have taken over."""
    signal.signal(WORD, lambda _number, _frame: ring())


def say_serving() -> None:
    """Tell the parent, if there is one, that this worker accepts requests."""
    if _place is not None:
        _place.say(_SERVES)


class _Supervisor:
    def __init__(
        self,
        count: int,
        work: Callable[[int], None],
        renewal: Renewal | None = None,
        new_work: Callable[[], Callable[[int], None]] | None = None,
    ) -> None:
        from eventlet.patcher import original

        # Their green versions need a hub, or wake up a hundred times a second.
        self._wait_now, self._sleep = original("os").waitpid, original("time").sleep
        self._bell = SignalBell()
        self._poll = original("select").poll()
        self._poll.register(self._bell.fileno(), original("select").POLLIN)
        self._work = work
        self._new_work = new_work
        self._parent = os.getpid()
        self._words = mmap.mmap(-1, max(1, count))
        self._workers: dict[int, int] = {}  # number by process id; without those that retired
        self._renewal = renewal
        self._old = set(renewal.old_workers) if renewal else set()  # from before the reload
        self._check: int | None = None  # the process that checks the new conf
        self._is_reload_wanted = False  # again, after the running check
        self._is_stopping = False
        self._is_ready = False  # all workers have served

    def run(self, count: int) -> int:
        signal.signal(WORD, self._hear)
        for number in _RELOAD_SIGNALS:
            signal.signal(number, self._want_reload)
        signal.signal(signal.SIGUSR2, self._wonder)
        for place in range(count):
            self._spawn(place)
        for number in _STOP_SIGNALS:
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # it rings the bell
        take_signals()
        while self._bury_ended() and (self._workers or self._old):
            self._poll.poll()
            self._bell.silence()
        self._bell.remove()
        return 0 if self._is_stopping else 1

    def _bury_ended(self) -> bool:
        """Act on the children that have ended; return whether there are others."""
        while True:
            try:
                pid, status = self._wait_now(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._bury(pid, status)

    def _bury(self, pid: int, status: int) -> None:
        if pid == self._check:
            self._end_check(status)
            return
        if pid in self._old:
            self._old.discard(pid)
            log.info("worker from before the reload ended pid=%d left=%d", pid, len(self._old))
            return
        worker = self._workers.pop(pid, None)
        if worker is None or self._is_stopping:
            return
        log.error("worker died pid=%d status=%d", pid, os.waitstatus_to_exitcode(status))
        # A worker that dies at its start must not occupy the whole machine.
        self._sleep(RESPAWN_SECONDS)
        if not self._is_stopping:
            self._spawn(worker)

    def _spawn(self, number: int) -> None:
        self._words[number] = _NOTHING  # clear the state of the previous worker
        # A signal in between would run a handler of the parent in the child, or find a worker that
        # the parent has not noted yet.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                self._be_worker(number, held)
            self._workers[pid] = number
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def _be_worker(self, number: int, held: Iterable[int]) -> NoReturn:
        """Do the work in this new process; ``held`` are the signals that its parent blocks."""
        global _place
        status = 1
        try:
            die_with(self._parent)
            self._bell.remove()
            # Only the parent reloads. A signal to all processes of a service must not end a worker.
            for signal_number in (*_RELOAD_SIGNALS, signal.SIGUSR2):
                signal.signal(signal_number, signal.SIG_IGN)
            for signal_number in (WORD, signal.SIGCHLD, *_STOP_SIGNALS):
                signal.signal(signal_number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            take_signals()
            _place = _Place(number, self._parent, self._words)
            self._work(number)
            for function in _end:
                function()
            status = 0
        finally:
            separate_request_lines()
            os._exit(status)

    def _hear(self, _number: int, _frame: object) -> None:
        if self._is_stopping:
            return
        for pid, number in list(self._workers.items()):
            if self._words[number] == _WISHES_TO_RETIRE:
                del self._workers[pid]
                log.error("worker retires pid=%d", pid)
                self._spawn(number)
        if not self._workers or any(word != _SERVES for word in self._words[:]):
            return
        if not self._is_ready:
            self._is_ready = True
            say_ready()
        if self._old:
            for pid in self._old:
                _kill(pid, WORD)

    def _want_reload(self, number: int, frame: object) -> None:
        if self._renewal is None and self._new_work is None:
            self._wonder(number, frame)
            return
        if self._is_stopping:
            return
        log.info("reload signal=%s", signal.Signals(number).name)
        if self._new_work is not None:
            self._replace_workers(self._new_work)
            return
        self._is_reload_wanted = True
        if self._check is None:
            self._start_check()

    def _replace_workers(self, new_work: Callable[[], Callable[[int], None]]) -> None:
        """Load the work anew, and give it to new workers; the old ones end at any step."""
        try:
            self._work = new_work()
        except ReloadRefused as error:
            log.error("reload refused, the work goes on with the old conf: %s", error)
            return
        workers, self._workers = self._workers, {}
        for pid, place in workers.items():
            self._old.add(pid)
            _kill(pid, signal.SIGTERM)
            self._spawn(place)

    def _start_check(self) -> None:
        self._is_reload_wanted = False
        assert self._renewal is not None
        try:
            self._check = self._renewal.check()
        except OSError as error:
            log.error("reload refused, the workers go on: %s", error)

    def _end_check(self, status: int) -> None:
        self._check = None
        if self._is_stopping or self._renewal is None:
            return
        if self._is_reload_wanted:  # the conf may have changed since it was read
            self._start_check()
            return
        if status != 0:
            log.error("reload refused, the workers go on with their conf")
            return
        hold_all_signals()  # the new program handles a stop that comes now
        try:
            if not self._is_stopping:
                self._renewal.execute([*self._old, *self._workers])
        except OSError as error:
            log.error("reload refused, the workers go on: %s", error)
        finally:
            take_signals()

    def _wonder(self, number: int, _frame: object) -> None:
        log.warning("signal %s has no meaning here", signal.Signals(number).name)

    def _stop(self, number: int, _frame: object) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        self._is_stopping = True
        for pid in (*self._workers, *self._old, *([self._check] if self._check else [])):
            _kill(pid, signal.SIGTERM)
        # A worker with a thread that waits for a disk does not end: do not wait for it.
        signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(0))
        signal.alarm(int(GRACE_SECONDS) + 1)


def supervise(
    count: int,
    work: Callable[[int], None],
    renewal: Renewal | None = None,
    new_work: Callable[[], Callable[[int], None]] | None = None,
) -> int:
    """Fork ``count`` workers, numbered from 0, and replace those that die, until a stop signal.

    With a ``renewal`` SIGHUP and SIGUSR1 reload the service. With no workers of its own it ends,
    with status 1, when the old workers have ended.

    With ``new_work``, for work that may be killed at any step, these signals replace the workers:
    it reads the conf and returns their work, or raises ReloadRefused.
    """
    return _Supervisor(count, work, renewal, new_work).run(count)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has just ended
