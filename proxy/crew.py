# SPDX-License-Identifier: Apache-2.0
"""Several threads do parts of one piece of work, while the caller can do something else.

Under eventlet's monkey patch the threads are green.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


def run_crew(
    work: Callable[[], bool], size: int, look_seconds: float
) -> Generator[None, None, None]:
    """Call ``work`` repeatedly in ``size`` threads, until it has returned False in each of them.

    Yields every ``look_seconds`` until then. The first error of ``work`` stops all threads and is
    raised here. If the iterator is closed before its end, no further call begins, and it waits for
    the calls in progress.
    """
    is_stopped = threading.Event()
    errors: list[BaseException] = []  # the first in time comes first

    def run() -> None:
        try:
            while not is_stopped.is_set() and work():
                pass
        except BaseException as error:  # also the end of a green thread
            errors.append(error)
            is_stopped.set()

    with ThreadPoolExecutor(size) as pool:
        try:
            runs = [pool.submit(run) for _ in range(size)]
            while wait(runs, look_seconds).not_done:
                yield
        finally:
            is_stopped.set()
    if errors:
        raise errors[0]


def for_each(work: Callable[[T], None], items: Sequence[T], at_once: int) -> None:
    """Call ``work`` for every item, up to ``at_once`` in parallel; return when all have ended.

    The first error of ``work`` ends it: no further call begins, and the error is raised here.
    """
    left = iter(items)
    lock = threading.Lock()  # guards the iterator

    def do_next() -> bool:
        with lock:
            try:
                item = next(left)
            except StopIteration:
                return False
        work(item)
        return True

    if items:
        for _ in run_crew(do_next, min(at_once, len(items)), 3600.0):
            pass
