# SPDX-License-Identifier: Apache-2.0
"""The open databases of a process: a limited number; the longest unused is closed first."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from storage.database import Database

#: The most file descriptors of one open database: three files of each of three connections.
DESCRIPTORS_EACH = 10

AnyDatabase = TypeVar("AnyDatabase", bound=Database)


class DatabasePool(Generic[AnyDatabase]):
    """A pool with one shared ``Database`` for each path. Safe for concurrent use.

    ``limit`` is the number of unused databases kept open.
    """

    def __init__(self, open_database: Callable[[str], AnyDatabase], limit: int) -> None:
        if limit < 1:
            raise ValueError("the pool must hold at least one database")
        self._open_database = open_database
        self._limit = limit
        self._lock = threading.Lock()  # guards the two below
        self._idle: OrderedDict[str, AnyDatabase] = OrderedDict()
        self._used: dict[str, tuple[AnyDatabase, int]] = {}

    @contextlib.contextmanager
    def use(self, path: str) -> Iterator[AnyDatabase]:
        """Keep the database of a path open inside the ``with`` block."""
        with self._lock:
            database, users = self._used.get(path, (None, 0))
            if database is None:
                database = self._idle.pop(path, None) or self._open_database(path)
            self._used[path] = database, users + 1
        try:
            yield database
        finally:
            self._give_back(path)

    def _give_back(self, path: str) -> None:
        with self._lock:
            database, users = self._used[path]
            if users > 1:
                self._used[path] = database, users - 1
                return
            del self._used[path]
            self._idle[path] = database
            surplus = self._idle.popitem(last=False)[1] if len(self._idle) > self._limit else None
        if surplus is not None:
            surplus.close()

    def close(self) -> None:
        """Close all unused databases."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for database in idle.values():
            database.close()
