# SPDX-License-Identifier: Apache-2.0
"""Several threads that share one piece of work, while the caller looks on.

Made of the standard library alone, as `fanout` is: under eventlet's monkey patch the threads are
green.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator


def run_crew(
    work: Callable[[], bool], size: int, look_seconds: float
) -> Generator[None, None, None]:
    """Call ``work`` again and again in ``size`` threads, until it has said False in each of them.

    Yields every ``look_seconds`` until then. An error of ``work`` ends all and is raised here. When
    the iterator is closed before its end, no further call is begun and those under way are waited
    for.
    """
    crew = _Crew(work, size)
    try:
        while not crew.is_done.wait(look_seconds):
            yield
    finally:
        crew.stop()
    if crew.error is not None:
        raise crew.error


class _Crew:
    def __init__(self, work: Callable[[], bool], size: int) -> None:
        self.error: BaseException | None = None
        self.is_done = threading.Event()
        self._work = work
        self._lock = threading.Lock()
        self._running = size
        self._is_stopped = False
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(size)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing new, and wait for what is under way."""
        self._is_stopped = True
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            while not self._is_stopped and self._work():
                pass
        except BaseException as error:  # it belongs to the caller, whatever it is
            self._is_stopped = True
            self.error = self.error or error
        with self._lock:
            self._running -= 1
            if not self._running:
                self.is_done.set()
