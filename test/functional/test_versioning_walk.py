"""A random walk of requests on one versioned object, compared with a model of the guarantees."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from running_cluster import await_true
from swift_api import Account

from martlet.words.timestamp import Timestamp

STEPS = 120
NULL = "null"


@dataclass
class Model:
    """The expected state. Ids are timestamps, so they have the order of the writes."""

    is_enabled: bool = False
    versions: dict[str, bytes | None] = field(default_factory=dict)  # None: a delete marker
    null: bytes | None = None  # while it is current
    null_id: str = ""  # of the null version, from then on
    current: str | None = None  # an id that can be read, NULL, or nothing

    def body(self) -> bytes | None:
        """Return the expected body of a GET; None for 404."""
        if self.current is None:
            return None
        return self.null if self.current == NULL else self.versions[self.current]

    def keep_null(self) -> None:
        """Give the null version an id before the next write."""
        if self.null is not None:
            self.versions[self.null_id], self.null = self.null, None

    def remove(self, version: str, newest: str | None) -> None:
        del self.versions[version]
        if version in (self.current, newest):
            self.current = None

    def latest(self) -> str | None:
        """Return the version that a listing marks as the latest."""
        if self.current is not None:
            return self.current
        newest = max(self.versions, default=None)
        return newest if newest is not None and self.versions[newest] is None else None


class Walk:
    """One object; each step is a request and the matching change of the model."""

    def __init__(self, account: Account, container: str, seed: int) -> None:
        self.account, self.container = account, container
        self.random = random.Random(seed)
        self.model = Model()
        self.count = 0
        self.done: list[str] = []

    def step(self) -> None:
        steps = [self.put, self.put, self.put, self.delete, self.remove, self.restore, self.switch]
        step = self.random.choice([*steps, self.post, self.remove_null])
        self.done.append(step.__name__)
        step()

    def call(self, method: str, version: str = "", body: bytes | None = None) -> tuple[int, str]:
        answer = self.account.send(method, self.path(version), body=body)
        return answer.status, answer.headers.get("x-object-version-id", "")

    def path(self, version: str) -> str:
        path = self.account.url(self.container, "o")
        return f"{path}?version-id={version}" if version else path

    def put(self) -> None:
        self.count += 1
        body = f"{self.count}".encode()
        status, version = self.call("PUT", body=body)
        assert (status, bool(version)) == (201, self.model.is_enabled)
        if version:
            self.model.keep_null()
            self.model.versions[version], self.model.current = body, version
        else:
            head = self.account.call("HEAD", self.container, "o").headers
            self.model.null_id = Timestamp(head["x-timestamp"]).internal
            self.model.null, self.model.current = body, NULL

    def delete(self) -> None:
        expected = 404 if self.model.body() is None else 204
        status, version = self.call("DELETE")
        assert (status, bool(version)) == (expected, self.model.is_enabled)
        if version:
            self.model.keep_null()
            self.model.versions[version] = None
        self.model.null = self.model.current = None

    def remove(self) -> None:
        if version := self.pick(list(self.model.versions)):
            assert self.call("DELETE", version) == (204, version)
            self.model.remove(version, newest=None)

    def remove_null(self) -> None:
        expected = 404 if self.model.body() is None else 204
        assert self.call("DELETE", NULL)[0] == expected
        self.model.null = self.model.current = None

    def restore(self) -> None:
        readable = [version for version, body in self.model.versions.items() if body is not None]
        if version := self.pick(readable):
            assert self.call("PUT", version, b"") == (201, version)
            self.model.keep_null()
            self.model.current = version

    def switch(self) -> None:
        self.model.is_enabled = not self.model.is_enabled
        headers = {"X-Versions-Enabled": str(self.model.is_enabled)}
        assert self.account.call("POST", self.container, headers=headers).status == 204

    def post(self) -> None:
        expected = 404 if self.model.body() is None else 202
        answer = self.account.call(
            "POST", self.container, "o", headers={"X-Object-Meta-N": str(self.count)}
        )
        assert answer.status == expected

    def pick(self, versions: list[str]) -> str | None:
        return self.random.choice(versions) if versions else None

    def check(self) -> None:
        answer = self.account.call("GET", self.container, "o")
        body = self.model.body()
        assert answer.status == (404 if body is None else 200), self.done
        if body is not None:
            assert answer.body == body, self.done
            assert answer.headers.get("x-object-version-id", NULL) == self.model.current
        for version, expected in self.model.versions.items():
            answer = self.account.send("GET", self.path(version))
            assert answer.status == (404 if expected is None else 200), (version, self.done)
            assert expected is None or answer.body == expected
        await_true(self.is_listed, f"the listing of {self.model} after {self.done}")

    def is_listed(self) -> bool:
        model = self.model
        entries = self.account.call("GET", self.container, versions="").json
        found = {(e["version_id"], e["is_latest"]) for e in entries if e["version_id"] != NULL}
        ids = {version for version, _ in found}
        nulls = [e for e in entries if e["version_id"] == NULL]
        plain = self.account.call("GET", self.container).lines
        bytes_used = sum(len(b) for b in [*model.versions.values(), model.null] if b)
        head = self.account.call("HEAD", self.container).headers
        return (
            set(model.versions) == ids
            and {v for v, is_latest in found if is_latest} == {model.latest()} - {NULL, None}
            and len(nulls) == (model.current == NULL)
            and plain == (["o"] if model.body() is not None else [])
            and head["x-container-bytes-used"] == str(bytes_used)
            and head["x-container-object-count"] == str(len(plain))
        )


@pytest.mark.parametrize("seed", [1, 2])
def test_walk(account: Account, container: str, seed: int) -> None:
    walk = Walk(account, container, seed)
    walk.switch()
    for number in range(STEPS):
        walk.step()
        if number % 6 == 0:
            walk.check()
    walk.check()
