"""Clients that write, read and delete continuously and know each object's possible states."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from swift_api import Account, Answer

CONTAINERS = 4
NAMES_OF_CLIENT = 12
_SIZES = (0, 1, 100, 4096, 4096, 4096, 70_000, 300_000, 1_200_000)
_META = "x-object-meta-attack"
#: Those of the answers 503 to a POST that could as well be 404. They are counted twice.
POST_OF_DELETED = "POST 503 of a deleted object"
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class State:
    """The state of an object after the PUT and the last POST of these numbers; 0 for none."""

    put: int = 0
    post: int = 0


ABSENT = State()


@dataclass
class Object:
    """One object, which only one client changes."""

    container: str
    name: str
    #: Its possible states: one, unless the outcome of a request is unknown.
    may_be: set[State] = field(default_factory=lambda: {ABSENT})
    #: The numbers of all PUTs and POSTs that were sent, in any order and to any replica.
    sent: set[int] = field(default_factory=lambda: {0})

    def body(self, put: int) -> bytes:
        """Return the body of a PUT, unique to that PUT."""
        seed = hashlib.sha256(f"{self.container}/{self.name}/{put}".encode()).digest()
        size = _SIZES[seed[0] % len(_SIZES)]
        return b"%d:" % put + (seed * (size // len(seed) + 1))[:size]

    def after(self, answer: Answer | None, change: Callable[[State], State]) -> None:
        """Record the answer to a change; None if there was no answer."""
        changed = {change(state) for state in self.may_be}
        if answer is not None and answer.status < 300:
            self.may_be = changed
        elif answer is None or answer.status >= 500:
            self.may_be |= changed


@dataclass
class Verdicts:
    """The clients' answers by kind, and a description of each wrong one."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    #: Reads with an older state than a later read of all replicas.
    outdated: list[tuple[float, str]] = field(default_factory=list)


class CheckedClients:
    """Threads, each with its own objects, until the block ends."""

    def __init__(self, accounts: Sequence[Account], seed: int) -> None:
        """
        :param accounts: one for each client: views of the same account.
        """
        self.verdicts = Verdicts()
        self._stop = threading.Event()
        self._accounts = accounts
        count = len(accounts)
        for number in range(CONTAINERS):
            answer = self._accounts[0].call("PUT", f"attack-{number}")
            assert answer.status in (201, 202), answer
        self._chances = [random.Random(f"{seed}.{number}") for number in range(count)]
        self.objects = [
            [
                Object(f"attack-{number % CONTAINERS}", f"client-{client}-{number}")
                for number in range(NAMES_OF_CLIENT)
            ]
            for client in range(count)
        ]
        self._puts = [itertools.count(1) for _ in range(count)]

    @property
    def account_name(self) -> str:
        return self._accounts[0].path.rpartition("/")[2]

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Let all clients work until the block ends; this may be done again."""
        self._stop.clear()
        threads = [
            threading.Thread(target=self._work, args=(number,))
            for number in range(len(self._accounts))
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(120)
                assert not thread.is_alive(), "a client got no answer within 120 s"

    def check_all(self) -> None:
        """Read each object from all replicas and check its state, which is known from then on."""
        account = self._accounts[0]
        for mine in self.objects:
            for item in mine:
                state = self._read(account, item, newest=True)
                if state is None or state not in item.may_be:
                    self._violation(item, f"is {state} at the end, may be {item.may_be}")
                else:
                    item.may_be = {state}
                self.verdicts.counts["checked at the end"] += 1

    def close(self) -> None:
        for account in self._accounts:
            account.close()

    def _work(self, number: int) -> None:
        account, chance = self._accounts[number], self._chances[number]
        while not self._stop.is_set():
            item = chance.choice(self.objects[number])
            kind = chance.choices(("PUT", "POST", "DELETE", "GET"), (4, 1, 1, 4))[0]
            put = next(self._puts[number])
            if kind == "GET":
                self._check_read(account, item)
            else:
                self._change(account, item, kind, put)

    def _change(self, account: Account, item: Object, kind: str, number: int) -> None:
        body = item.body(number) if kind == "PUT" else b""
        headers = {_META: str(number)} if kind == "POST" else {}
        item.sent.add(number)
        answer = self._ask(account, kind, item, headers, body)
        if kind == "POST" and answer and answer.status == 503 and item.may_be == {ABSENT}:
            self.verdicts.counts[POST_OF_DELETED] += 1
        if kind == "PUT":
            item.after(answer, lambda _: State(number))
        else:
            # Without some of its replicas, 404 may come from the majority and a success from one.
            known = None if answer is not None and answer.status == 404 else answer
            if kind == "DELETE":
                item.after(known, lambda _: ABSENT)
            else:
                item.after(known, lambda old: State(old.put, number) if old.put else old)
        if answer is not None and answer.status == 404 and ABSENT not in item.may_be:
            self.verdicts.counts[f"{kind} 404 of an object that is there"] += 1

    def _check_read(self, account: Account, item: Object) -> None:
        at = time.monotonic()
        state = self._read(account, item)
        if state is None or state in item.may_be:
            return
        self.verdicts.counts["outdated reads"] += 1
        if self._read(account, item, newest=True) in item.may_be:
            self.verdicts.outdated.append((at, f"{item.container}/{item.name}: {state}"))

    def _read(self, account: Account, item: Object, newest: bool = False) -> State | None:
        """Return the state that a GET shows; None if it was refused."""
        headers = {"X-Newest": "true"} if newest else {}
        answer = self._ask(account, "GET", item, headers, None)
        if answer is None or answer.status not in (200, 404):
            return None
        if answer.status == 404:
            return ABSENT
        number = answer.body.partition(b":")[0]
        state = State(int(number) if number.isdigit() else -1, int(answer.headers.get(_META, "0")))
        if not {state.put, state.post} <= item.sent or answer.body != item.body(state.put):
            self._violation(item, f"{len(answer.body)} bytes, {state}: never stored in it")
            return None
        if answer.headers["etag"] != hashlib.md5(answer.body).hexdigest():
            self._violation(item, f"{state} has the ETag {answer.headers['etag']}")
        return state

    def _ask(
        self,
        account: Account,
        method: str,
        item: Object,
        headers: dict[str, str],
        body: bytes | None,
    ) -> Answer | None:
        try:
            answer = account.call(method, item.container, item.name, headers=headers, body=body)
        except (OSError, http.client.HTTPException) as error:
            self.verdicts.counts[f"{method} {type(error).__name__}"] += 1
            self._stop.wait(_PAUSE_SECONDS)  # the proxy may be down
            return None
        self.verdicts.counts[f"{method} {answer.status}"] += 1
        if answer.status not in (200, 201, 202, 204, 404, 503, 507):
            self._violation(item, f"{method}: {answer.status} {answer.body[:100]!r}")
        return answer

    def _violation(self, item: Object, what: str) -> None:
        self.verdicts.violations.append(f"{item.container}/{item.name}: {what}")
