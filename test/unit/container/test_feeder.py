"""Misplaced rows come into the queue: once, all of them, and none that is in its place."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from storage_calls import Caller, stamp

from container.app import ContainerServer
from container.database import ContainerDatabase
from container.feeder import RETRY_SECONDS, Feeder
from container.misplaced import QUEUE_ACCOUNT, parse_entry, queue_container
from container.reporter import Reporter
from martlet.http.backend_client import BackendError
from martlet.words.timestamp import Timestamp
from storage.errors import DeviceFailed

C = "/d1/0/AUTH_test/c"
HOUR = queue_container(Timestamp(stamp(0)))
QUEUE = f"/d2/9/{QUEUE_ACCOUNT}/{HOUR}"


class ContainerServers:
    """Leads the feeder's requests to the server itself, under the ports of two devices."""

    def __init__(self, call: Caller) -> None:
        self._call = call
        self.requests: list[str] = []
        self.dead: set[int] = set()

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str], body: bytes
    ) -> "Exchange":
        self.requests.append(path)
        if address[1] in self.dead:
            raise BackendError(address, "refused")
        return Exchange(self._call(method, path, None, headers, body).status)


class Exchange:
    """An answer that is there; also the exchange."""

    def __init__(self, status: int) -> None:
        self.status = status

    def response(self) -> "Exchange":
        return self

    def close(self) -> None:
        pass

    abort = close


class Ring:
    """Two replicas of every container, on the two devices."""

    def get_nodes(self, account: str, container: str) -> tuple[int, list[dict[str, Any]]]:
        return 9, [{"ip": "::1", "port": port, "device": f"d{port}"} for port in (1, 2)]


@pytest.fixture
def servers(call: Caller) -> ContainerServers:
    return ContainerServers(call)


@pytest.fixture
def feeder(server: ContainerServer, servers: ContainerServers) -> Feeder:
    server.feeder = Feeder(server.pool, servers, Ring)  # type: ignore[arg-type]
    server.reporter.swept_too = server.feeder.look_at
    return server.feeder


def row(name: str, seconds: float, policy: int, **values: Any) -> dict[str, Any]:
    default = {"size": 5, "content_type": "a/b", "etag": "e", "deleted": 0}
    return {
        **default,
        "name": name,
        "created_at": stamp(seconds),
        "storage_policy_index": policy,
        **values,
    }


def queued(call: Caller, path: str = QUEUE) -> list[tuple[str, bool, str]]:
    answer = call("GET", f"{path}?format=json")
    if answer.status == 404:
        return []
    entries = [parse_entry(item) for item in answer.json()]
    return [(entry.name, entry.is_deletion, entry.written_at.internal) for entry in entries]


def test_a_misplaced_row_is_queued_and_no_other(
    call: Caller, feeder: Feeder, servers: ContainerServers
) -> None:
    call("PUT", C, 1)
    call(
        "UPDATE", C, 2, body=[row("right", 2, 0), row("wrong", 3, 1), row("gone", 4, 1, deleted=1)]
    )
    feeder.feed_marked()
    wanted = [("1:/AUTH_test/c/gone", True, stamp(4)), ("1:/AUTH_test/c/wrong", False, stamp(3))]
    assert queued(call) == queued(call, QUEUE.replace("d2", "d1")) == wanted
    head = call("HEAD", C)
    assert head.headers["X-Container-Object-Count"] == "1"
    assert [item["name"] for item in call("GET", f"{C}?format=json").json()] == ["right"]
    servers.requests.clear()
    call("UPDATE", C, 5, body=[row("right", 5, 0), row("wrong", 2, 1)])  # nothing new is misplaced
    feeder.feed_marked()
    assert servers.requests == []


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_misplaced_version_whose_row_was_replaced_is_queued(
    call: Caller, feeder: Feeder, servers: ContainerServers, deleted: int
) -> None:
    """The null version was replaced or removed in the right policy, whichever row comes first."""
    call("PUT", C, 1)
    for name, is_late in (("late", True), ("o", False)):
        version = row(name, 4, 0, version_id=stamp(4))
        misplaced = row(name, 2, 1, version_id="null")
        last = row(name, 3, 0, version_id="null", deleted=deleted)
        call("UPDATE", C, 5, body=[version, last if is_late else misplaced])
        call("UPDATE", C, 5, body=[misplaced if is_late else last])
    feeder.feed_marked()
    assert [name for name, _, _ in queued(call)] == ["1:/AUTH_test/c/late", "1:/AUTH_test/c/o"]
    servers.requests.clear()
    feeder.feed_marked()
    assert servers.requests == []


def test_a_version_that_was_moved_is_not_queued_again(
    call: Caller, feeder: Feeder, servers: ContainerServers
) -> None:
    call("PUT", C, 1)
    null = row("o", 2, 1, version_id="null")
    call("UPDATE", C, 5, body=[row("o", 4, 0, version_id=stamp(4)), null])
    feeder.feed_marked()
    servers.requests.clear()
    moved = null | {"storage_policy_index": 0, "created_at": f"{stamp(2)}_0000000000000002"}
    call("UPDATE", C, 5, body=[moved])
    call("UPDATE", C, 5, body=[null])
    feeder.feed_marked()
    assert servers.requests == []


def test_rows_of_single_requests_too(call: Caller, feeder: Feeder) -> None:
    call("PUT", C, 1, {"X-Backend-Storage-Policy-Index": "1"})
    headers = {"X-Size": "1", "X-Content-Type": "a/b", "X-Etag": "e"}
    assert call("PUT", f"{C}/o", 2, headers).status == 201
    assert call("DELETE", f"{C}/p", 3).status == 204
    feeder.feed_marked()
    assert queued(call) == [
        ("0:/AUTH_test/c/o", False, stamp(2)),
        ("0:/AUTH_test/c/p", True, stamp(3)),
    ]


def test_the_hours_of_the_objects_have_containers_of_their_own(
    call: Caller, feeder: Feeder
) -> None:
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[row("one", 2, 1), row("two", 2 + 7200, 1)])
    feeder.feed_marked()
    later = QUEUE.replace(HOUR, str(int(HOUR) + 7200))
    assert [name for name, _, _ in queued(call)] == ["1:/AUTH_test/c/one"]
    assert [name for name, _, _ in queued(call, later)] == ["1:/AUTH_test/c/two"]


def test_what_the_queue_did_not_take_is_sent_again_after_a_while(
    call: Caller, feeder: Feeder, servers: ContainerServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[row("wrong", 3, 1)])
    servers.dead = {2}
    feeder.feed_marked()
    assert len(queued(call, QUEUE.replace("d2", "d1"))) == 1
    servers.dead = set()
    servers.requests.clear()
    feeder.feed_marked()
    assert servers.requests == []
    later = time.monotonic() + RETRY_SECONDS
    monkeypatch.setattr("container.feeder.time.monotonic", lambda: later)
    feeder.feed_marked()
    assert len(queued(call)) == 1
    servers.requests.clear()
    feeder.feed_marked()
    assert servers.requests == []


def test_a_sweep_finds_what_a_crash_left(
    call: Caller, server: ContainerServer, feeder: Feeder, servers: ContainerServers
) -> None:
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[row("wrong", 3, 1)])
    later = Feeder(server.pool, servers, Ring)  # type: ignore[arg-type]
    later.feed_marked()
    assert servers.requests == []
    server.reporter.swept_too = later.look_at
    sweeper: Reporter = server.reporter
    sweeper.sweep()
    later.feed_marked()
    assert len(queued(call)) == 1
    servers.requests.clear()
    sweeper.sweep()
    later.feed_marked()
    assert servers.requests == []


def test_many_rows_go_in_several_requests(
    call: Caller, feeder: Feeder, servers: ContainerServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("container.feeder.ROWS_AT_ONCE", 3)
    call("PUT", C, 1)
    rows = [row(f"o{number}", 3, number % 2) for number in range(14)]
    call("UPDATE", C, 2, body=rows)
    feeder.feed_marked()
    assert len(queued(call)) == 7
    assert len(servers.requests) == 2 * 3


def test_a_full_disk_is_one_line_and_tried_again(
    call: Caller,
    feeder: Feeder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 1000.0
    monkeypatch.setattr("container.feeder.time.monotonic", lambda: now)
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[row("o", 2, 1)])

    def fail(database: ContainerDatabase, *point: object) -> None:
        raise DeviceFailed(database.path, "database or disk is full")

    with monkeypatch.context() as full:
        full.setattr("container.feeder.set_queued", fail)
        feeder.feed_marked()
    (record,) = caplog.records
    assert "to be repeated" in record.message
    assert record.exc_info is None
    now += RETRY_SECONDS + 1
    feeder.feed_marked()
    assert feeder._marked == set()
    assert len(queued(call)) == 1


def versions_of(call: Caller, name: str, policy: int) -> Any:
    headers = {"X-Backend-Record-Type": "version", "X-Backend-Storage-Policy-Index": str(policy)}
    answer = call("GET", f"{C}?name={name}", None, headers)
    assert answer.status == 200
    return answer.json()


def version(name: str, seconds: float, policy: int, **values: Any) -> dict[str, Any]:
    return row(name, seconds, policy, version_id=stamp(seconds), **values)


def test_an_old_version_in_another_policy_is_queued(call: Caller, feeder: Feeder) -> None:
    """The current version is in its place: no row of the object table is misplaced."""
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[version("o", 9, 0)])
    old = [version("o", 3, 1), version("o", 5, 1), version("o", 4, 1, deleted=1), row("p", 2, 0)]
    call("UPDATE", C, 2, body=old)
    feeder.feed_marked()
    assert queued(call) == [("1:/AUTH_test/c/o", False, stamp(5))]
    (entry,) = call("GET", f"{QUEUE}?format=json").json()
    done = {"X-Timestamp": parse_entry(entry).done_at.internal}
    assert call("DELETE", f"{QUEUE}/{entry['name']}", None, done).status == 204
    assert queued(call, QUEUE.replace("d2", "d1")) != queued(call) == []
    call("UPDATE", C, 2, body=[version("o", 3.5, 1)])  # one that comes late
    feeder.feed_marked()
    assert queued(call) == [("1:/AUTH_test/c/o", False, stamp(3.5))]


def test_after_a_crash_a_sweep_finds_old_versions(
    call: Caller, server: ContainerServer, feeder: Feeder, servers: ContainerServers
) -> None:
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[version("o", 9, 0)])
    call("UPDATE", C, 2, body=[version("o", 3, 1)])
    later = Feeder(server.pool, servers, Ring)  # type: ignore[arg-type]
    server.reporter.swept_too = later.look_at
    sweeper: Reporter = server.reporter
    sweeper.sweep()
    later.feed_marked()
    assert queued(call) == [("1:/AUTH_test/c/o", False, stamp(3))]


def test_a_sweep_finds_the_versions_of_an_earlier_release_once(
    call: Caller,
    server: ContainerServer,
    feeder: Feeder,
    servers: ContainerServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It did not note the policies of versions, and its databases have no table for them."""
    monkeypatch.setattr("container.feeder.ROWS_AT_ONCE", 2)
    call("PUT", C, 1)
    rows = [version(f"o{number}", 9, 0) for number in range(5)]
    rows += [version(f"o{number}", 3, 1) for number in range(5)]  # current ones are in place
    call("UPDATE", C, 2, body=rows)
    call("PUT", f"{C}2", 1)
    call("UPDATE", f"{C}2", 2, body=rows[:5])
    paths = list(Path(server.devices).rglob("*.db"))
    for path in paths:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM policy_stat WHERE storage_policy_index = 1")
    feeder._marked.clear()
    sweeper: Reporter = server.reporter
    sweeper.sweep()
    assert feeder._marked == {str(path) for path in paths}
    feeder.feed_marked()
    assert [name for name, _, _ in queued(call)] == [f"1:/AUTH_test/c/o{n}" for n in range(5)]
    # The container with all rows in place is not looked at again, the other one by each sweep.
    sweeper.sweep()
    assert len(feeder._marked) == 1
    servers.requests.clear()
    feeder.feed_marked()
    assert servers.requests == []


def test_rows_of_versions_that_were_moved_are_in_place(call: Caller, feeder: Feeder) -> None:
    """The same row in the container's policy counts, whichever comes first."""
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[version("o", 9, 0)])
    rows = [version("o", 3, 1), version("o", 4, 1, deleted=1), row("o", 2, 1, version_id="null")]
    call("UPDATE", C, 2, body=rows)
    kept = versions_of(call, "o", 1)
    assert [item["version_id"] for item in kept] == [stamp(3), stamp(4), "null"]
    assert versions_of(call, "other", 1) is None
    moved = [item | {"storage_policy_index": 0} for item in kept]
    for body in (moved[:1], rows, moved):
        assert call("UPDATE", C, 2, body=body).status == 202
    call("UPDATE", C, 2, body=rows)
    assert versions_of(call, "o", 1) == []
    assert len(versions_of(call, "o", 0)) == 4
    listed = call("GET", f"{C}?format=json&versions").json()
    assert [item["version_id"] for item in listed] == [stamp(9), stamp(3), stamp(2)]


def noted(server: ContainerServer) -> list[tuple[str, int]]:
    """The names and policies of replaced versions that the database of the container notes."""
    for path in Path(server.devices).rglob("*.db"):
        with closing(sqlite3.connect(path)) as connection:
            (container,) = connection.execute("SELECT container FROM container_info").fetchone()
            if container == "c":
                query = "SELECT name, storage_policy_index FROM version_replaced ORDER BY name"
                return connection.execute(query).fetchall()
    raise AssertionError("no database")


def test_what_was_replaced_in_the_own_policy_is_not_noted_for_ever(
    call: Caller, feeder: Feeder, server: ContainerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of names of which all rows are in place: they bring the name into the queue as well."""
    monkeypatch.setattr("container.feeder.ROWS_AT_ONCE", 2)
    call("PUT", C, 1)
    for name in ("moved", "o", "stays"):
        rows = [version(name, second, 0) for second in (2, 3, 4)]
        call("UPDATE", C, 5, body=[*rows, row(name, 5, 0, version_id="null")])
        call("UPDATE", C, 6, body=[row(name, 6, 1, version_id="null")])
    feeder.feed_marked()
    server.reporter.sweep()
    assert noted(server) == [("moved", 0), ("o", 0), ("stays", 0)]
    for name in ("moved", "o"):
        moved = {"created_at": f"{stamp(6)}_0000000000000002", "version_id": "null"}
        call("UPDATE", C, 7, body=[row(name, 6, 0, **moved)])
    server.reporter.sweep()
    assert noted(server) == [("stays", 0)]
