# SPDX-License-Identifier: Apache-2.0
"""Calls that may block on a disk: native threads for each disk, and the handling of a hang.

Under eventlet's monkey patch a blocking call would stop every green thread of the process. So it
runs in a native thread. Each disk has its own threads: a disk whose calls do not return blocks only
those. After ``disk_timeout`` its callers get ``DiskStuck``. New callers then get it at once, until
a call returns. While no call of a disk returns, the disk is probed: a long query must not make a
healthy disk look stuck. Time in which this process was halted does not count: the disk had none to
answer.

Threads are not enough if a library holds a lock of the whole process during a call to a disk, as
SQLite does. Such a lock is guarded: while a disk is silent, a thread tries to take it. If that
fails, the process cannot serve any disk, and retires (worker_processes.py).

At the end of the process its threads end first. So the last calls, such as the closing of a
database, are not cut off. No thread comes back to an interpreter that is half torn down. A disk
that hangs delays the end by ``END_SECONDS`` at most.

Without the patch (tests, tools) a call is a plain call.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from martlet.log import get_logger
from martlet.service.worker_processes import retire

if TYPE_CHECKING:
    from martlet.grid.hub_loop import HubWaiter

T = TypeVar("T")
P = ParamSpec("P")

#: Pause between two checks of the running calls, seconds.
WATCH_SECONDS = 0.5
#: A disk of which no call has returned for this time is probed, seconds.
SILENT_SECONDS = 1.0
#: Longest wait for the guarded lock, seconds. It protects work of microseconds.
GUARD_SECONDS = 3.0
#: Longest wait for the running calls at the end of the process, seconds.
END_SECONDS = 5.0

log = get_logger("martlet.disk_calls")


class DiskStuck(Exception):
    """The disk does not answer; the change of the call may still happen later."""


class ProcessStuck(DiskStuck):
    """This process can no longer serve any disk; another process replaces it."""


@dataclass
class Limits:
    """The limits of each disk in a process."""

    threads_per_disk: int = 4
    disk_timeout: float = 10.0


#: The limits of this process; set before the first call.
limits = Limits()

_guarded: Callable[[], object] | None = None


def guard(pass_lock: Callable[[], object]) -> None:
    """Set the function that takes and releases a lock of the whole process, and does no more."""
    global _guarded
    _guarded = pass_lock


def on_disk(disk: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that works on files of a disk; other green threads run in the meantime.

    ``disk`` is the directory of the device. The function must not use objects of green threads:
    locks, sockets, the log. It may call ``on_disk`` itself, which is then a plain call.

    :raises DiskStuck: the disk hangs.
    """
    if not is_green():
        return function(*args, **kwargs)
    result: T = _calls_of_process().run(disk, functools.partial(function, *args, **kwargs))
    return result


def on_disk_later(disk: str, function: Callable[[], object]) -> None:
    """As ``on_disk``, but no request waits for it, and a stuck disk does not refuse it."""
    if is_green():
        _calls_of_process().start(disk, function)
    else:
        function()


def native_lock() -> Any:
    """Return a lock for native threads."""
    if not is_green():
        import threading

        return threading.Lock()
    from eventlet import patcher

    return patcher.original("threading").Lock()


def is_green() -> bool:
    """Whether this process has eventlet's green threads instead of native ones."""
    patcher = sys.modules.get("eventlet.patcher")
    return patcher is not None and bool(patcher.is_monkey_patched("thread"))


class _Call:
    __slots__ = ("error", "function", "is_over", "refusal", "result", "waiter")

    def __init__(self, function: Callable[[], Any], waiter: HubWaiter | None) -> None:
        self.function = function
        self.waiter = waiter  # None: no request waits
        self.refusal: DiskStuck | None = None  # if it was given up
        self.is_over = False
        self.result: Any = None
        self.error: BaseException | None = None

    def make(self) -> None:
        """Make the call, in a native thread."""
        if self.refusal is not None:
            return
        try:
            self.result = self.function()
        except BaseException as error:  # every error is for the caller
            self.error = error


class _Crew:
    """The threads of one disk. All methods but ``_work`` run in green threads."""

    def __init__(self, name: str, most: int, probe: Callable[[], object], process: _Calls) -> None:
        self.name = name
        self.is_stuck = False
        self._most = most
        self._probe_function = probe
        self._process = process
        self._queue: deque[_Call] = deque()
        # Locks of threads that wait for a call. The last one is called first: few threads run.
        self._idle: list[Any] = []
        self._threads = 0
        self._is_ending = False
        self._under_way: set[_Call] = set()
        self._progress = 0.0  # when a call last returned, or the first running one was submitted
        self._probe: _Call | None = None
        self._has_answered = False

    def submit(self, function: Callable[[], Any], waiter: HubWaiter | None) -> _Call:
        call = _Call(function, waiter)
        if not self._under_way:
            self._progress = time.monotonic()
        self._under_way.add(call)
        self._queue.append(call)
        if self._idle:
            self._idle.pop().release()
        else:
            self._hire()
        return call

    def probe(self) -> None:
        """Check whether the disk works, unless a check is under way.

        The probe has a thread of its own: long calls may occupy all others.
        """
        if self._probe in self._under_way:
            return
        probe = self._probe = _Call(self._probe_function, None)
        if not self._under_way:
            self._progress = time.monotonic()
        self._under_way.add(probe)
        self._process.start_thread(f"{self.name} probe", lambda: self._make(probe))

    def _hire(self) -> None:
        # The first call to a disk is a probe. Until it returns, no other call is made: on a disk
        # that hangs already, such a call might hold a lock of the whole process.
        most = self._most if self._has_answered else 0
        while self._threads < min(most, len(self._under_way)):
            self._threads += 1
            self._process.start_thread(f"{self.name} {self._threads}", self._work)

    def _work(self) -> None:
        # No queue.SimpleQueue: each call would wake two of the threads that wait for it.
        bell = self._process.native_lock()
        bell.acquire()
        while True:
            try:
                call = self._queue.popleft()
            except IndexError:
                if self._is_ending:
                    return
                self._await_call(bell)
            else:
                self._make(call)

    def _await_call(self, bell: Any) -> None:
        self._idle.append(bell)
        # What came before the line above may have found no idle thread.
        if self._queue or self._is_ending:
            with contextlib.suppress(ValueError):
                self._idle.remove(bell)
                return
        bell.acquire()

    def _make(self, call: _Call) -> None:
        call.make()
        self._process.hand_back(self, call)

    def take_back(self, call: _Call) -> None:
        """Record that a call has returned."""
        self._progress = time.monotonic()
        self._under_way.discard(call)
        self._has_answered = True
        self._hire()
        if self.is_stuck:
            self.is_stuck = False
            log.error("disk answers again disk=%s", self.name)
        call.is_over = True
        if call.waiter is not None and call.refusal is None:
            call.waiter.wake()

    def silence(self, now: float) -> float:
        """Seconds since a call has returned; 0 if no call is running."""
        return now - self._progress if self._under_way else 0.0

    def excuse(self, seconds: float, now: float) -> None:
        """Leave out time in which no call could be taken back."""
        self._progress = min(now, self._progress + seconds)

    def end(self) -> None:
        """Let the threads end after the calls that are queued."""
        self._is_ending = True
        while self._idle:
            with contextlib.suppress(IndexError):  # a thread took its own lock back
                self._idle.pop().release()

    def give_up(self, error: DiskStuck) -> None:
        """Fail the waiting callers. The calls keep their threads until they return."""
        for call in list(self._under_way):  # a thread that wakes up may make another call
            if call.waiter is not None and call.refusal is None:
                call.refusal = error
                call.waiter.wake()


class _Calls:
    """All calls to disks of one process."""

    def __init__(self) -> None:
        from eventlet import hubs, patcher

        from martlet.grid.hub_loop import HubWaiter

        self.pid = os.getpid()
        # Its thread goes on in the same turn of the hub: each turn is a call of the system, and
        # lets native threads take the interpreter's lock.
        self._new_waiter = functools.partial(HubWaiter, hubs.get_hub())
        self._schedule = hubs.get_hub().schedule_call_global
        self._native = patcher.original("threading")
        self.native_lock = self._native.Lock
        self._is_here = self._native.local()  # has the attribute ``yes`` in threads of a crew
        self._crews: dict[str, _Crew] = {}
        self._guard = _Crew("lock of the process", 1, _guarded, self) if _guarded else None
        self._is_watching = False
        self._watch_due = 0.0
        self._threads: list[Any] = []
        self._done: deque[tuple[_Crew, _Call]] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        hubs.get_hub().add("read", self._bell, self._deliver, _ignore, _ignore)
        atexit.register(self._end)

    def run(self, disk: str, function: Callable[[], Any]) -> Any:
        """Return the result of ``function``, called in one of the disk's threads."""
        if hasattr(self._is_here, "yes"):
            return function()
        crew = self._crew(disk)
        if self._guard and self._guard.is_stuck:
            raise ProcessStuck("another disk holds a lock of this process")
        if crew.is_stuck:
            raise DiskStuck(f"{disk} does not answer")
        waiter = self._new_waiter()
        call = crew.submit(function, waiter)
        self._begin_to_watch()
        while not call.is_over and call.refusal is None:
            waiter.wait(None)
        error = call.refusal or call.error
        if error is not None:
            raise error
        return call.result

    def start(self, disk: str, function: Callable[[], Any]) -> None:
        """Call ``function`` in one of the disk's threads, without waiting for it."""
        if hasattr(self._is_here, "yes"):
            function()
            return
        self._crew(disk).submit(function, None)
        self._begin_to_watch()

    def _crew(self, disk: str) -> _Crew:
        crew = self._crews.get(disk)
        if crew is None:
            probe = functools.partial(_probe, disk)
            crew = self._crews[disk] = _Crew(disk, limits.threads_per_disk, probe, self)
            crew.probe()
        return crew

    def start_thread(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            self._is_here.yes = True
            work()

        thread = self._native.Thread(target=run, name=name, daemon=True)
        self._threads = [old for old in self._threads if old.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _end(self) -> None:
        """Await the threads, at the end of the process."""
        if self.pid != os.getpid():  # a fork, which has none of them
            return
        for crew in self._crews.values():
            crew.end()
        deadline = time.monotonic() + END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def hand_back(self, crew: _Crew, call: _Call) -> None:
        """Queue a returned call, in a native thread. One wake-up delivers all queued calls."""
        self._done.append((crew, call))
        os.eventfd_write(self._bell, 1)

    def _deliver(self, _descriptor: int) -> None:
        os.eventfd_read(self._bell)
        while self._done:
            crew, call = self._done.popleft()
            crew.take_back(call)

    def _begin_to_watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self._watch_soon()

    def _watch_soon(self) -> None:
        self._watch_due = time.monotonic() + WATCH_SECONDS
        self._schedule(WATCH_SECONDS, self._watch)

    def _watch(self) -> None:
        now = time.monotonic()
        late = now - self._watch_due  # by much if the process, or its machine, was halted
        for crew in self._crews.values():
            crew.excuse(late, now)
        if self._guard:
            self._guard.excuse(late, now)
        silent = {crew: crew.silence(now) for crew in self._crews.values()}
        for crew, seconds in silent.items():
            if seconds >= SILENT_SECONDS:
                crew.probe()
            if seconds >= limits.disk_timeout:
                if not crew.is_stuck:
                    crew.is_stuck = True
                    log.error("disk does not answer disk=%s seconds=%.0f", crew.name, seconds)
                crew.give_up(DiskStuck(f"{crew.name} does not answer"))
        if self._guard and not self._guard.is_stuck:
            if max(silent.values()) >= SILENT_SECONDS:
                self._guard.probe()
            if self._guard.silence(now) >= GUARD_SECONDS:
                self._guard.is_stuck = True
                self._leave_to_another()
        self._is_watching = any(silent.values())
        if self._is_watching:
            self._watch_soon()

    def _leave_to_another(self) -> None:
        log.critical(
            "a disk that does not answer holds a lock of this process: the process retires"
        )
        for crew in self._crews.values():
            crew.give_up(ProcessStuck("another disk holds a lock of this process"))
        retire()


def _probe(disk: str) -> None:
    """Write to a disk and flush it. An error counts as an answer, too."""
    with contextlib.suppress(OSError):
        try:
            handle = os.open(disk, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:  # not every file system supports O_TMPFILE
            handle = os.open(disk, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            os.write(handle, b"martlet")
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_calls: _Calls | None = None


def _calls_of_process() -> _Calls:
    global _calls
    if _calls is None or _calls.pid != os.getpid():  # threads do not survive a fork
        _calls = _Calls()
    return _calls


def _ignore(*_arguments: object) -> None:
    """Do nothing; the hub requires a callback."""
