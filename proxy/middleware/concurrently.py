# SPDX-License-Identifier: Apache-2.0
"""Doing one thing to many items, a few at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def concurrently(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    concurrency: int,
    tick_seconds: float | None = None,
) -> Iterator[tuple[Item, Result] | None]:
    """Each item with what ``function`` made of it, in the order they get done.

    With ``tick_seconds`` None comes whenever nothing got done for so long, so that the caller can
    show a sign of life. A caller that stops early leaves items undone.

    :raises Exception: what ``function`` raised; the items not yet begun are left undone.
    """
    waiting = iter(items)
    lock = threading.Lock()
    stopped = threading.Event()
    done: queue.Queue[tuple[Item, Result] | Exception | None] = queue.Queue()

    def work() -> None:
        try:
            while not stopped.is_set():
                with lock:
                    try:
                        item = next(waiting)
                    except StopIteration:
                        return
                done.put((item, function(item)))
        except Exception as error:
            done.put(error)
        finally:
            done.put(None)

    workers = max(1, concurrency)
    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    try:
        while workers:
            try:
                outcome = done.get(timeout=tick_seconds)
            except queue.Empty:
                yield None
                continue
            if outcome is None:
                workers -= 1
            elif isinstance(outcome, Exception):
                raise outcome
            else:
                yield outcome
    finally:
        stopped.set()
