# SPDX-License-Identifier: Apache-2.0
"""Work in parallel and in the background.

Under eventlet's monkey patch it runs in green threads; without it (tests, tools) in sequence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from martlet.log import get_logger
from martlet.service.disk_calls import is_green

T = TypeVar("T")


def for_each(function: Callable[[T], object], items: Iterable[T], at_once: int) -> None:
    """Call ``function`` for every item, up to ``at_once`` in parallel; return when all have ended.

    The function handles its own errors.
    """
    if not is_green():
        for item in items:
            function(item)
        return
    import eventlet

    pool = eventlet.GreenPool(at_once)
    for item in items:
        pool.spawn_n(function, item)
    pool.waitall()


def repeat_in_background(name: str, task: Callable[[], None], pause_seconds: float) -> None:
    """Run ``task`` forever with a pause after each run; an error is logged and ends that run."""
    log = get_logger("martlet.background")

    def run() -> None:
        while True:
            try:
                task()
            except Exception:
                log.exception("background task failed task=%s", name)
            time.sleep(pause_seconds)

    threading.Thread(target=run, name=name, daemon=True).start()
