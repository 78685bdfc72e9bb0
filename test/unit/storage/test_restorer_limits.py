"""A peer that is broken, slow or hostile costs a replica neither its disk nor its threads."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from replicas import PARTITION, Exchange, Replicas
from storage_calls import stamp

from container.app import ContainerServer
from martlet.http.backend_client import BackendError
from martlet.http.response import http_error
from storage.database import Database
from storage.device_check import DeviceCheck
from storage.restorer import RESTORES_AT_ONCE

A = f"/d1/{PARTITION}/AUTH_test"
C = f"{A}/c"
ROW = {"name": "o", "created_at": stamp(5), "size": 2, "content_type": "a/b", "etag": "e"}
PIECE = 1 << 20
FAR_TOO_MUCH = 200


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(ContainerServer, tmp_path)
    yield made
    made.close()


def stream(monkeypatch: pytest.MonkeyPatch, pieces: Iterator[bytes]) -> None:
    """Set the answer to each SNAPSHOT."""
    monkeypatch.setattr(Exchange, "iter_chunks", lambda self: pieces)


def test_an_endless_copy_ends_where_the_reserve_begins(
    containers: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    containers.everywhere([3], "PUT", C, 1)
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < FAR_TOO_MUCH:
            sent += 1
            yield b"x" * PIECE

    def usable_path(check: DeviceCheck, device: str, for_writing: bool) -> str:
        if for_writing and sent > 5:
            raise http_error(507)
        return f"{check._devices}/{device}"

    stream(monkeypatch, endless())
    monkeypatch.setattr(DeviceCheck, "usable_path", usable_path)
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 507
    assert sent == 6
    assert containers.scratch(1) == []


def test_a_copy_that_trickles_is_given_up(
    containers: Replicas, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    containers.everywhere([3], "PUT", C, 1)
    sent = 0

    def trickle() -> Iterator[bytes]:
        nonlocal sent
        while sent < FAR_TOO_MUCH:
            sent += 1
            containers.now += 50
            yield b"x"

    stream(monkeypatch, trickle())
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 503
    assert sent == 2
    assert "sends too slowly" in caplog.text
    assert containers.scratch(1) == []


@pytest.mark.parametrize("count", ["9" * 5000, "-1", "x"])
def test_a_count_that_is_none(
    containers: Replicas, count: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    containers.everywhere([3], "PUT", C, 1)
    plain = Exchange.response

    def response(exchange: Exchange, timeout: float | None = None) -> Exchange:
        exchange.headers["x-container-object-count"] = count
        return plain(exchange)

    monkeypatch.setattr(Exchange, "response", response)
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202


def test_replicas_that_hang_are_waited_for_together(
    containers: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one after the other: a place for restores is taken meanwhile."""
    began = containers.now

    def response(exchange: Exchange, timeout: float | None = None) -> Exchange:
        containers.now += containers.wires.node_timeout if timeout is None else timeout
        raise BackendError(("127.0.0.1", 2), "no answer")

    monkeypatch.setattr(Exchange, "response", response)
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 503
    assert containers.now - began < 1.5 * containers.wires.node_timeout


def test_copies_leave_threads_of_the_device(
    containers: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device whose threads are all taken by what is slow counts as one that hangs."""
    paths = [f"{A}/c{number}" for number in range(RESTORES_AT_ONCE)]
    for path in paths:
        containers.everywhere([2, 3], "PUT", path, 1)
    arrived, go_on = threading.Semaphore(0), threading.Event()

    def waits() -> Iterator[bytes]:
        arrived.release()
        assert go_on.wait(30)
        yield b"x"

    monkeypatch.setattr(Exchange, "iter_chunks", lambda self: waits())
    statuses = []

    def update(path: str) -> None:
        statuses.append(containers.call[1]("UPDATE", path, 5, {}, [ROW]).status)

    threads = [threading.Thread(target=update, args=(path,)) for path in paths]
    try:
        for thread in threads[:2]:
            thread.start()
            assert arrived.acquire(timeout=30)
        for thread in threads[2:]:
            thread.start()
            thread.join(30)
        assert statuses == [503, 503]  # at once
    finally:
        go_on.set()
        for thread in threads:
            thread.join()


def test_a_server_makes_few_copies_of_a_device_at_once(
    containers: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, on the side that is copied from."""
    containers.everywhere([3], "PUT", C, 1)
    arrived, go_on = threading.Semaphore(0), threading.Event()
    plain = Database.copy

    def copy(database: Database) -> str:
        arrived.release()
        assert go_on.wait(30)
        return plain(database)

    monkeypatch.setattr(Database, "copy", copy)
    statuses = []

    def snapshot() -> None:
        statuses.append(containers.call[3]("SNAPSHOT", C).status)

    threads = [threading.Thread(target=snapshot) for _ in range(4)]
    try:
        for thread in threads[:2]:
            thread.start()
            assert arrived.acquire(timeout=30)
        for thread in threads[2:]:
            thread.start()
            thread.join(30)
        assert statuses == [529, 529]
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert statuses == [529, 529, 200, 200]
    assert containers.call[3]("SNAPSHOT", C).status == 200


def test_what_a_crash_left_goes_with_a_later_copy(containers: Replicas) -> None:
    """A copy may be large; a process that was killed leaves it in tmp."""
    containers.everywhere([3], "PUT", C, 1)
    tmp = Path(containers.servers[1].devices) / "d1" / "tmp"
    tmp.mkdir()
    digest = "0123456789abcdef" * 2
    left = [tmp / f"{digest}.{'ab' * 8}{end}" for end in ("", "-wal", "-shm", "-journal")]
    fresh, foreign = tmp / f"{digest}.{'cd' * 8}", tmp / "an-upload"
    for file in (*left, fresh, foreign):
        file.write_bytes(b"x")
    for file in (*left, foreign):
        os.utime(file, (1, 1))
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202
    assert sorted(tmp.iterdir()) == sorted([fresh, foreign])
