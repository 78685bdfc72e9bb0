# SPDX-License-Identifier: Apache-2.0
"""Clients that write, post, delete and list in one container, and check what they read."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field

from swift_api import Account


@dataclass
class Known:
    """The knowledge of a client: whether a name is there, and the time of its last change."""

    is_there: bool = False
    size: int = 0
    began: float = 0.0
    ended: float = 0.0


@dataclass
class Load:
    """Clients of one container. Each name belongs to one writer; listers compare with all."""

    account: Account
    container: str
    seed: int = 1
    names: dict[str, Known] = field(default_factory=dict)
    #: Whether each listing must show all writes that were answered before. On a busy machine, rows
    #: wait longer than object servers let their writers wait. With or without shards, it lags then.
    is_strict: bool = True
    faults: list[str] = field(default_factory=list)
    requests: int = 0
    listings: int = 0

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def fill(self, names: list[str], writers: int = 8) -> None:
        """Put objects, several at a time."""
        parts = [names[number::writers] for number in range(writers)]
        self._run([threading.Thread(target=self._fill, args=(part,)) for part in parts])

    def delete(self, names: list[str]) -> None:
        """Delete objects."""
        account = self.account.again()
        for name in names:
            self._change(account, name, None)
        account.close()

    def settle(self) -> None:
        """Write the objects again of which a failed request leaves the state unknown."""
        failed, self.faults = [n for n, k in self.names.items() if k.ended == float("inf")], []
        self.fill(failed, 1)
        assert self.faults == []

    def start(self, names: list[str], writers: int = 3, listers: int = 1) -> None:
        """Start clients that go on until `stop`."""
        for number in range(writers):
            arguments = names[number::writers], random.Random(self.seed * 100 + number)
            self._threads.append(threading.Thread(target=self._write, args=arguments))
        for number in range(listers):
            chance = random.Random(self.seed * 1000 + number)
            self._threads.append(threading.Thread(target=self._list, args=(chance,)))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the clients."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def expected(self) -> list[str]:
        """The names that are there."""
        return sorted(name for name, known in self.names.items() if known.is_there)

    @property
    def expected_bytes(self) -> int:
        """The sum of their sizes."""
        return sum(known.size for known in self.names.values() if known.is_there)

    @staticmethod
    def _run(threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _fill(self, names: list[str]) -> None:
        account = self.account.again()
        for name in names:
            self._change(account, name, b"x" * (1 + len(name) % 7))
        account.close()

    def _write(self, names: list[str], chance: random.Random) -> None:
        account = self.account.again()
        while not self._stop.is_set():
            name = chance.choice(names)
            known = self.names.get(name)
            # After a failed request it may be gone: then a DELETE or POST is right to say 404.
            is_there = known is not None and known.is_there and known.ended != float("inf")
            if is_there and chance.random() < 0.6:
                if chance.random() < 0.3:
                    self._post(account, name)
                else:
                    self._change(account, name, None)
            else:
                self._change(account, name, b"y" * chance.randrange(1, 9))
        account.close()

    def _change(self, account: Account, name: str, body: bytes | None) -> None:
        known = self.names.setdefault(name, Known())
        known.began, known.ended = time.monotonic(), float("inf")
        method, wanted = ("DELETE", 204) if body is None else ("PUT", 201)
        answer = account.call(method, self.container, name, body=body)
        self.requests += 1
        if answer.status != wanted:
            self.faults.append(f"{method} {name}: {answer.status}")
            return  # its state is not known, so `ended` stays
        known.is_there, known.size = body is not None, len(body or b"")
        known.ended = time.monotonic()

    def _post(self, account: Account, name: str) -> None:
        headers = {"X-Object-Meta-Color": "red", "Content-Type": "text/x-posted"}
        answer = account.call("POST", self.container, name, headers=headers)
        self.requests += 1
        if answer.status != 202:
            self.faults.append(f"POST {name}: {answer.status}")

    def _list(self, chance: random.Random) -> None:
        account = self.account.again()
        while not self._stop.is_set():
            self.check_listing(account, chance.choice((7, 83, 10_000)), chance.random() < 0.5)
        account.close()

    def check_listing(self, account: Account, limit: int, is_reversed: bool) -> None:
        """List all names in pages, and compare those that did not change meanwhile."""
        began = time.monotonic()
        if limit < 50 and len(self.names) > 1000:
            limit *= 20
        found: list[str] = []
        more = {"reverse": "true"} if is_reversed else {}
        while True:
            query: dict[str, str | int] = {"limit": limit, "marker": found[-1] if found else ""}
            answer = account.send("GET", account.url(self.container, **query, **more))
            self.requests += 1
            if answer.status not in (200, 204):
                self.faults.append(f"GET {query}: {answer.status}")
                return
            if not answer.lines:
                break
            found += answer.lines
        self.listings += 1
        if found != sorted(set(found), reverse=is_reversed):
            self.faults.append(f"a listing with limit {limit} is not in order")
        if not self.is_strict:
            return
        names = set(found)
        for name, known in list(self.names.items()):
            # A change that began later shows in `began`, or in `ended` until it is answered.
            if known.is_there != (name in names) and max(known.began, known.ended) < began:
                words = "is missing" if known.is_there else "is listed, but was deleted"
                age = began - known.ended
                self.faults.append(f"{name} {words}, {age:.3f} s after the answer")
