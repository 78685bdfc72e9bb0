"""The load during an upgrade: requests that must all succeed."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from api_clients import FAILURES, Check, Clients
from stored import content, upload_in_parts
from swift_api import Answer

_BUCKET, _CONTAINER = "load-versions", "load-objects"
_PART_BYTES = 5 * 2**20
#: Between two requests of a thread: the servers of both releases need the processors more.
_PAUSE_SECONDS = 0.05


class Wrong(Exception):
    """An answer that a client does not expect; the message is a sentence."""


class Load:
    """One thread asks for what is stored, another one writes, reads and deletes new things."""

    def __init__(
        self, clients: Callable[[str], Clients], checks: Sequence[Check], seed: int
    ) -> None:
        """``clients`` makes the clients of a thread."""
        self.findings: list[str] = []
        self.counts: Counter[str] = Counter()
        self._checks = checks
        self._chance = random.Random(seed)
        self._clients = [clients("reader"), clients("writer")]
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        setup = self._clients[1]
        setup.s3.create_bucket(Bucket=_BUCKET)
        setup.s3.put_bucket_versioning(
            Bucket=_BUCKET, VersioningConfiguration={"Status": "Enabled"}
        )
        _must(setup.own.call("PUT", _CONTAINER), 201)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let both threads work until the block ends; this may be done again."""
        self._stop.clear()
        threads = [threading.Thread(target=work) for work in (self._read, self._write)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(120)
                assert not thread.is_alive(), "a client got no answer within 120 s"

    def close(self) -> None:
        for clients in self._clients:
            clients.close()

    def _read(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            check = self._chance.choice(self._checks)
            self.counts["reads of what was stored"] += 1
            if finding := check.finding(self._clients[0]):
                self.findings.append(f"during the load: {finding}")

    def _write(self) -> None:
        kinds = itertools.cycle((_versions, _copy, _container, _static, _versions, _copy, _parts))
        clients = self._clients[1]
        while not self._stop.wait(_PAUSE_SECONDS):
            kind = next(kinds)
            name = f"{kind.__name__.strip('_')}-{next(self._numbers)}"
            self.counts[f"writes: {kind.__name__.strip('_')}"] += 1
            try:
                kind(clients, name)
            except (*FAILURES, Wrong) as error:
                self.findings.append(f"during the load: {name}: {error!r:.300}")


def _versions(clients: Clients, name: str) -> None:
    """Two versions, of which the first one is read by its id and removed."""
    bodies = [content(f"{name} {number}", 6000) for number in range(2)]
    ids = [
        clients.s3.put_object(Bucket=_BUCKET, Key=name, Body=body)["VersionId"] for body in bodies
    ]
    _equal(
        clients.s3.get_object(Bucket=_BUCKET, Key=name, VersionId=ids[0])["Body"].read(), bodies[0]
    )
    clients.s3.delete_object(Bucket=_BUCKET, Key=name, VersionId=ids[0])
    _equal(
        clients.s3.get_object(Bucket=_BUCKET, Key=name, VersionId=ids[1])["Body"].read(), bodies[1]
    )
    clients.s3.list_object_versions(Bucket=_BUCKET, Prefix=name)


def _parts(clients: Clients, name: str) -> None:
    """An upload in parts, read and deleted."""
    pieces = [content(f"{name} 1", _PART_BYTES), content(f"{name} 2", 1000)]
    upload_in_parts(clients, _BUCKET, name, pieces)
    _equal(clients.s3.get_object(Bucket=_BUCKET, Key=name)["Body"].read(), b"".join(pieces))
    clients.s3.delete_object(Bucket=_BUCKET, Key=name)


def _copy(clients: Clients, name: str) -> None:
    """An object, its copy by the server, both read; the first one is deleted."""
    body = content(name, 2_000_000 if name.endswith("0") else 20_000)
    copied = f"{name} copied"
    _must(clients.own.call("PUT", _CONTAINER, name, body=body), 201)
    source = {"X-Copy-From": f"{_CONTAINER}/{name}"}
    _must(clients.own.call("PUT", _CONTAINER, copied, headers=source), 201)
    for one in (name, copied):
        _equal(_must(clients.own.call("GET", _CONTAINER, one), 200).body, body)
    _must(clients.own.call("GET", _CONTAINER, limit=10), 200)
    _must(clients.own.call("DELETE", _CONTAINER, name), 204)


def _container(clients: Clients, name: str) -> None:
    """A container with an object, whose deletion waits for the row of the deleted object."""
    own = f"load-{name}"
    _must(clients.own.call("PUT", own), 201)
    _must(clients.own.call("PUT", own, "object", body=b"x"), 201)
    _must(clients.own.call("GET", own), 200, 204)
    _must(clients.own.call("DELETE", own, "object"), 204)
    _must(clients.own.call("DELETE", own), 204, 409)
    _must(clients.own.call("GET", limit=10), 200)


def _static(clients: Clients, name: str) -> None:
    """A static large object, read and deleted with its segments."""
    pieces = [content(f"{name} {number}", 100_000) for number in range(2)]
    paths = [f"{name}/{number}" for number in range(2)]
    for path, piece in zip(paths, pieces, strict=True):
        _must(clients.own.call("PUT", _CONTAINER, path, body=piece), 201)
    manifest = json.dumps([{"path": f"/{_CONTAINER}/{path}"} for path in paths]).encode()
    asked = {"multipart-manifest": "put"}
    _must(clients.own.call("PUT", _CONTAINER, name, headers=None, body=manifest, **asked), 201)
    _equal(_must(clients.own.call("GET", _CONTAINER, name), 200).body, b"".join(pieces))
    asked = {"multipart-manifest": "delete"}
    answer = clients.own.call("DELETE", _CONTAINER, name, headers=None, body=None, **asked)
    _must(answer, 200)
    if b"Response Status: 200 OK" not in answer.body:
        raise Wrong(f"the large object is not deleted: {answer.body[:200]!r}")


def _must(answer: Answer, *statuses: int) -> Answer:
    if answer.status not in statuses:
        raise Wrong(f"{answer.status} {answer.body[:200]!r}, not {statuses}")
    return answer


def _equal(found: bytes, wanted: bytes) -> None:
    if found != wanted:
        raise Wrong(f"{len(found)} other bytes than the {len(wanted)} that were written")
