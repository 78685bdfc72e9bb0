# SPDX-License-Identifier: Apache-2.0
"""Handlers of requests by name, and the bounded pool of (green) threads that runs them."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping

from martlet.grid.connection import GridConnection
from martlet.grid.errors import Code
from martlet.grid.events import Requested, StreamOpened
from martlet.grid.loop import Loop, Waiter, process_loop
from martlet.grid.stream import GridStream
from martlet.http.backend_client import BackendError
from martlet.log import get_logger

#: Threads that wait for the next request; more of them end after their work.
_IDLE_MAX = 64

log = get_logger("martlet.grid")


class HandlerError(Exception):
    """A handler ends its request with this code; the reason is for the peer's log."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class GridCall:
    """A request or the opening of a stream, as its handler sees it.

    ``deadline_at`` is a time.monotonic(), or infinite; ``is_resent`` says that the request may have
    been executed before.
    """

    __slots__ = ("connection", "deadline_at", "is_cancelled", "is_resent", "name", "payload")

    def __init__(self, connection: GridConnection, event: Requested | StreamOpened) -> None:
        self.connection = connection
        self.name = event.name
        self.payload = event.payload
        self.deadline_at = event.deadline_at
        self.is_resent = event.is_resent
        #: Whether the peer no longer waits for the answer.
        self.is_cancelled = False

    @property
    def seconds_left(self) -> float | None:
        """The time until the deadline; None without one."""
        if self.deadline_at == math.inf:
            return None
        return max(0.0, self.deadline_at - time.monotonic())


#: Returns the payload of the answer.
Handler = Callable[[GridCall], bytes]
#: Reads and writes the stream; its return ends the stream.
StreamHandler = Callable[[GridCall, GridStream], None]

_Job = Callable[[], None]


class Handlers:
    """The responder of all connections of a process.

    A handler may raise `HandlerError`; another exception is logged and answered with *failed*. A
    request that was cancelled before its turn is not begun.

    :param threads_max: handlers that run at the same time; more requests wait. One connection gets
        no more threads than it leaves free, so handlers that hang for one peer do not stop others.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        stream_handlers: Mapping[str, StreamHandler] | None = None,
        threads_max: int = 1024,
        loop: Loop | None = None,
    ) -> None:
        self._handlers = handlers
        self._stream_handlers = stream_handlers or {}
        self._threads_max = threads_max
        self._given_loop = loop
        self._calls: dict[tuple[GridConnection, int], GridCall] = {}
        self._jobs: deque[tuple[GridConnection, _Job]] = deque()
        # Jobs that have a thread or will get one at once, and those that wait for others to end.
        self._running: Counter[GridConnection] = Counter()
        self._running_count = 0
        self._waiting: dict[GridConnection, deque[_Job]] = {}
        self._idle: list[Waiter] = []
        self._threads = 0
        #: Requests and streams that came, of known names.
        self.requests = 0

    @property
    def _loop(self) -> Loop:
        # The process may have been forked since this object was made.
        return self._given_loop or process_loop()

    def begin(self, connection: GridConnection, event: Requested) -> None:
        """Run the handler of a request."""
        handler = self._handlers.get(event.name)
        number = event.number
        if handler is None:
            connection.fail(number, Code.UNKNOWN_NAME, f"no handler of {event.name!r}")
            return
        self.requests += 1
        call = GridCall(connection, event)
        self._calls[connection, number] = call
        self._run(connection, lambda: self._answer(handler, call, number))

    def begin_stream(
        self, connection: GridConnection, event: StreamOpened, stream: GridStream
    ) -> None:
        """Run the handler of a stream."""
        handler = self._stream_handlers.get(event.name)
        if handler is None:
            stream.abort(Code.UNKNOWN_NAME, f"no handler of {event.name!r}")
            return
        self.requests += 1
        call = GridCall(connection, event)
        self._run(connection, lambda: self._serve(handler, call, stream))

    def cancel(self, connection: GridConnection, number: int) -> None:
        """Tell the handler that the peer no longer waits."""
        call = self._calls.get((connection, number))
        if call is not None:
            call.is_cancelled = True

    def _answer(self, handler: Handler, call: GridCall, number: int) -> None:
        connection = call.connection
        try:
            if call.is_cancelled:
                connection.fail(number, Code.CANCELLED, "cancelled")
            else:
                connection.answer(number, handler(call))
        except HandlerError as error:
            connection.fail(number, error.code, str(error))
        except Exception as error:
            log.exception("event=grid_handler_failed name=%s", call.name)
            connection.fail(number, Code.FAILED, f"the handler failed: {type(error).__name__}")
        except BaseException:
            connection.fail(number, Code.FAILED, "the handler was stopped")
            raise
        finally:
            del self._calls[connection, number]

    def _serve(self, handler: StreamHandler, call: GridCall, stream: GridStream) -> None:
        try:
            handler(call, stream)
            stream.end()
        except HandlerError as error:
            stream.abort(error.code, str(error))
        except BackendError:
            stream.abort(Code.CANCELLED, "the handler gave up")  # usually the peer is gone
        except Exception as error:
            log.exception("event=grid_handler_failed name=%s", call.name)
            stream.abort(Code.FAILED, f"the handler failed: {type(error).__name__}")
        except BaseException:
            stream.abort(Code.FAILED, "the handler was stopped")
            raise

    # --- the pool ---------------------------------------------------------------------------------

    def _run(self, connection: GridConnection, job: _Job) -> None:
        if connection in self._waiting or not self._has_thread_for(connection):
            self._waiting.setdefault(connection, deque()).append(job)
        else:
            self._start(connection, job)

    def _has_thread_for(self, connection: GridConnection) -> bool:
        return self._running[connection] < self._threads_max - self._running_count

    def _start(self, connection: GridConnection, job: _Job) -> None:
        self._running[connection] += 1
        self._running_count += 1
        self._jobs.append((connection, job))
        if self._idle:
            self._idle.pop().wake()
        elif self._threads < self._threads_max:
            self._threads += 1
            self._loop.spawn(self._work)

    def _on_end(self, connection: GridConnection) -> None:
        """A job has ended: others may begin."""
        self._running_count -= 1
        self._running[connection] -= 1
        if not self._running[connection]:
            del self._running[connection]
        for waiting in list(self._waiting):
            jobs = self._waiting[waiting]
            while jobs and self._has_thread_for(waiting):
                self._start(waiting, jobs.popleft())
            if not jobs:
                del self._waiting[waiting]

    def _work(self) -> None:
        loop = self._loop
        waiter = loop.waiter()
        try:
            while True:
                with loop.lock:
                    job = self._jobs.popleft() if self._jobs else None
                    if job is None:
                        if len(self._idle) >= _IDLE_MAX:
                            return
                        self._idle.append(waiter)
                if job is None:
                    waiter.wait(None)
                else:
                    self._work_on(*job)
        finally:
            with loop.lock:
                self._threads -= 1

    def _work_on(self, connection: GridConnection, job: _Job) -> None:
        try:
            job()
        finally:
            with self._loop.lock:
                self._on_end(connection)
