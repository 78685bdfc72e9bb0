"""Replicas of a container come to the same state, whatever they missed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from replicating import PARTITION, Replicas
from storage_calls import stamp

from container.app import ContainerServer
from martlet.words.timestamp import Timestamp

# The hash decides on the path, so the partition in it is free.
C = f"/d1/{PARTITION}/AUTH_test/c"
ROWS = "SELECT name, created_at, size, content_type, etag, deleted, storage_policy_index"
DAY = 86400.0


def row(name: str, time: float, **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "created_at": stamp(time),
        "size": 2,
        "content_type": "a/b",
        "etag": "e",
        **values,
    }


def gone(name: str, time: float) -> dict[str, Any]:
    return row(name, time, size=0, content_type="application/deleted", etag="noetag", deleted=1)


def rows_of(replicas: Replicas, number: int) -> list[Any]:
    return replicas.query(number, f"{ROWS} FROM object ORDER BY name, storage_policy_index")


def listing(replicas: Replicas, number: int) -> list[str]:
    return [e["name"] for e in replicas.call[number]("GET", f"{C}?format=json").json()]


def assert_equal(replicas: Replicas, numbers: tuple[int, ...] = (1, 2, 3)) -> None:
    first, *others = numbers
    facts = (
        "SELECT account, container, put_timestamp, delete_timestamp, status_changed_at, hash,"
        " metadata, storage_policy_index FROM container_info"
    )

    def facts_of(number: int) -> list[Any]:
        ((account, container, *times, hashed, metadata, policy),) = replicas.query(number, facts)
        stamps = [Timestamp(time) for time in times]
        return [account, container, stamps, hashed, json.loads(metadata), policy]

    for other in others:
        assert rows_of(replicas, other) == rows_of(replicas, first)
        assert facts_of(other) == facts_of(first)


def test_rows_that_a_replica_missed(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row("a", 2), row("b", 2)])
    containers.everywhere([1, 2], "UPDATE", C, 3, {}, [gone("a", 3), row("c", 3)])
    containers.everywhere([3], "UPDATE", C, 4, {}, [row("d", 4)])
    assert listing(containers, 3) == ["a", "b", "d"]
    figures = containers.replicate(1)
    assert (figures.sent, figures.failures) == (1, 0)
    containers.settle()
    for number in (1, 2, 3):
        assert listing(containers, number) == ["b", "c", "d"]
    assert_equal(containers)


def test_equal_replicas_exchange_one_request_and_no_rows(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row("a", 2)])
    containers.settle()
    containers.wires.seen.clear()
    containers.start_replicator(1)
    figures = containers.replicate(1)
    assert containers.wires.seen == [(2, "sync"), (3, "sync")]
    assert (figures.same, figures.rows) == (2, 0)


def test_facts_that_a_replica_missed(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1, {"X-Container-Meta-Color": "red"})
    containers.everywhere([1], "POST", C, 3, {"X-Container-Meta-Color": "blue"})
    containers.everywhere([2], "POST", C, 2, {"X-Container-Meta-Form": "round"})
    containers.everywhere([3], "POST", C, 4, {"X-Remove-Container-Meta-Color": "x"})
    containers.replicate(1)
    containers.settle()
    assert_equal(containers)
    head = containers.call[2]("HEAD", C)
    assert "X-Container-Meta-Color" not in head.headers
    assert head.headers["X-Container-Meta-Form"] == "round"
    assert head.headers["X-PUT-Timestamp"] == stamp(4)


@pytest.mark.parametrize("teller", [1, 3])
def test_a_deleted_container_stays_deleted(containers: Replicas, teller: int) -> None:
    """Also if the replica that missed the deletion is the first to replicate."""
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    assert containers.everywhere([1, 2], "DELETE", C, 3) == [204, 204]
    containers.replicate(teller)
    containers.settle()
    for number in (1, 2, 3):
        head = containers.call[number]("HEAD", C)
        assert (head.status, head.headers["X-Backend-DELETE-Timestamp"]) == (404, stamp(3))
    assert_equal(containers)


def test_a_container_made_again_lives(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2], "DELETE", C, 3)
    containers.everywhere([2], "PUT", C, 5)
    containers.settle()
    assert containers.everywhere([1, 2, 3], "HEAD", C) == [204] * 3
    assert_equal(containers)


def test_a_wiped_device_gets_the_whole_database(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1, {"X-Container-Read": ".r:*"})
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row(f"o{n}", 2) for n in range(30)])
    containers.settle()
    shutil.rmtree(Path(containers.servers[2].devices) / "d1" / "containers")
    assert containers.call[2]("HEAD", C).status == 404
    figures = containers.replicate(1)
    assert (figures.copied, figures.sent, figures.failures) == (1, 0, 0)
    assert containers.call[2]("HEAD", C).headers["X-Container-Read"] == ".r:*"
    assert_equal(containers)
    ids = {containers.query(number, "SELECT id FROM container_info")[0] for number in (1, 2, 3)}
    assert len(ids) == 3
    assert [containers.scratch(number) for number in (1, 2)] == [[], []]
    path = containers.database(2)
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_peer_that_gets_the_container_meanwhile_gets_the_rows(containers: Replicas) -> None:
    """A write reaches the peer after its 404 and before the copy."""
    containers.everywhere([1, 2], "PUT", C, 1)
    containers.everywhere([1, 2], "UPDATE", C, 2, {}, [row("a", 2), row("b", 2)])

    def put(peer: int, operation: str) -> None:
        if (peer, operation) == (3, "copy") and containers.call[3]("HEAD", C).status == 404:
            containers.everywhere([3], "PUT", C, 1)
            containers.everywhere([3], "UPDATE", C, 3, {}, [row("c", 3)])

    containers.wires.before = put
    figures = containers.replicate(1)
    assert (figures.copied, figures.sent, figures.failures) == (0, 1, 0)
    assert listing(containers, 3) == ["a", "b", "c"]
    containers.settle()
    assert_equal(containers)


def test_a_peer_that_refuses_copies_is_a_failure(containers: Replicas) -> None:
    """Its database comes and goes: the pass does not wait for it."""
    containers.everywhere([1, 2], "PUT", C, 1)

    def flicker(peer: int, operation: str) -> None:
        if (peer, operation) == (3, "copy"):
            containers.everywhere([3], "PUT", C, 1)
        elif (peer, operation) == (3, "sync"):
            shutil.rmtree(Path(containers.servers[3].devices) / "d1" / "containers", True)

    containers.wires.before = flicker
    assert containers.replicate(1).failures == 1
    assert containers.wires.seen.count((3, "copy")) == 1


def test_a_hand_off_is_moved_to_all_primaries(containers: Replicas) -> None:
    containers.everywhere([1, 4], "PUT", C, 1)
    containers.everywhere([4], "UPDATE", C, 2, {}, [row("a", 2)])
    containers.wires.cut = {3}
    figures = containers.replicate(4)
    assert (figures.failures, figures.moved) == (1, 0)
    assert listing(containers, 4) == ["a"]  # it stays until all primaries have it
    containers.wires.cut = set()
    figures = containers.replicate(4)
    assert figures.moved + containers.replicate(4).moved == 1
    assert containers.database(4) is None
    assert containers.scratch(4) == []
    assert not (Path(containers.servers[4].devices) / "d1/containers" / str(PARTITION)).exists()
    containers.settle()
    assert [listing(containers, number) for number in (1, 2, 3)] == [["a"]] * 3
    assert containers.call[4]("HEAD", C).status == 404
    assert containers.call[4]("PUT", C, 9).status == 201  # nothing is left of the old one


def test_a_ring_change_moves_a_database(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row("a", 2)])
    containers.settle()
    containers.ring.primaries = (4, 2, 3)
    containers.settle()
    assert containers.database(1) is None
    assert listing(containers, 4) == ["a"]
    assert_equal(containers, (2, 3, 4))


def test_a_row_written_during_the_move_is_not_lost(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3, 4], "PUT", C, 1)
    containers.settle(1, 2, 3)
    call = containers.call[3]

    def write_meanwhile(*arguments: Any) -> Any:
        containers.call[3] = call
        assert containers.call[4]("UPDATE", C, 2, {}, [row("late", 2)]).status == 202
        return call(*arguments)

    containers.call[3] = write_meanwhile  # type: ignore[assignment]
    assert containers.replicate(4).moved == 0
    assert listing(containers, 4) == ["late"]
    containers.settle()
    assert containers.database(4) is None
    assert [listing(containers, number) for number in (1, 2, 3)] == [["late"]] * 3


def set_reported(replicas: Replicas, *numbers: int) -> None:
    """Act as if the account had accepted the container's state."""
    for number in numbers:
        with replicas.servers[number].pool.use(str(replicas.database(number))) as opened:
            opened.set_reported(opened.info())


def test_deleted_databases_are_removed_when_all_primaries_know(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2], "DELETE", C, 3)
    set_reported(containers, 1, 2)
    containers.now += 30 * DAY
    containers.wires.cut = {3}
    assert containers.replicate(1).removed == 0
    assert containers.call[1]("HEAD", C).headers["X-Backend-DELETE-Timestamp"] == stamp(3)
    containers.wires.cut = set()
    assert containers.replicate(1).removed + containers.replicate(1).removed == 1
    assert containers.database(1) is None
    assert containers.replicate(2).removed == 1
    assert containers.replicate(3).removed == 0  # not before the account knows, but ...
    assert [containers.database(number) for number in (1, 2)] == [None, None]  # ... no way back
    set_reported(containers, 3)
    assert containers.replicate(3).removed == 1


def test_a_container_that_is_not_old_enough_stays(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2, 3], "DELETE", C, 3)
    set_reported(containers, 1, 2, 3)
    containers.now += 5 * DAY
    containers.settle()
    assert containers.replicate(1).removed == 0
    shutil.rmtree(Path(containers.servers[2].devices) / "d1" / "containers")
    containers.start_replicator(1)
    assert containers.replicate(1).copied == 1  # its deletion must be known there, too


def test_tombstones_are_forgotten_when_all_have_them(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row("a", 2), row("b", 2)])
    containers.everywhere([1, 2], "UPDATE", C, 3, {}, [gone("a", 3)])
    containers.now += 30 * DAY
    recent = gone("new", containers.now - 1795223500 - DAY)
    containers.everywhere([1, 2], "UPDATE", C, 3, {}, [recent])
    containers.wires.cut = {3}
    assert containers.replicate(1).forgotten == 0
    assert [r[0] for r in rows_of(containers, 1)] == ["a", "b", "new"]
    containers.wires.cut = set()
    assert containers.replicate(1).forgotten == 1
    assert [r[0] for r in rows_of(containers, 1)] == ["b", "new"]
    assert [r[0] for r in rows_of(containers, 3)] == ["a", "b", "new"]
    containers.settle()
    containers.settle()
    for number in (1, 2, 3):
        assert listing(containers, number) == ["b"]
        assert [r[0] for r in rows_of(containers, number)] == ["b", "new"]
        info = containers.call[number]("HEAD", C)
        assert info.headers["X-Container-Object-Count"] == "1"
        assert info.headers["X-Container-Bytes-Used"] == "2"


def test_more_rows_than_a_pass_may_send(tmp_path: Path) -> None:
    replicas = Replicas(ContainerServer, tmp_path, per_diff=10, max_diffs=3)
    replicas.everywhere([1, 2, 3], "PUT", C, 1)
    replicas.everywhere([1], "UPDATE", C, 2, {}, [row(f"o{n:03}", 2) for n in range(95)])
    figures = [replicas.replicate(1) for _ in range(4)]
    assert [f.partly for f in figures] == [2, 2, 2, 0]
    assert [f.rows for f in figures] == [60, 60, 60, 10]
    assert_equal(replicas)
    replicas.close()
