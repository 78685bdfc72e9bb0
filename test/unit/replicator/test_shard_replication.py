"""Replicas of a container with shards agree on its ranges, and send each other no given rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replicating import PARTITION, Replicas
from storage_calls import stamp

from container.app import ContainerServer
from container.database import ContainerDatabase
from container.shard_giving import begin_giving, drop_given, finish_giving, read_changes
from container.shard_range import ACTIVE, CREATED, ShardRange

C = f"/d1/{PARTITION}/AUTH_test/c"
SHARD = ".shards_AUTH_test/c-1"
AS_SHARD = {"X-Backend-Record-Type": "shard"}
DAY = 86400.0


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(ContainerServer, tmp_path, reclaim_age=7 * DAY)
    yield made
    made.close()


def row(name: str, time: float = 3, **values: Any) -> dict[str, Any]:
    whole = {"created_at": stamp(time), "size": 2, "content_type": "a/b", "etag": "e"}
    return {"name": name, **whole, **values}


def range_of(name: str, lower: str, upper: str, state: int, time: float = 2) -> dict[str, Any]:
    now = stamp(time)
    return ShardRange(name, now, lower, upper, 0, 0, now, 0, state, now).as_dict()


def ranges_on(replicas: Replicas, number: int) -> list[Any]:
    return replicas.query(number, "SELECT name, upper, state FROM shard_range ORDER BY name")


def fill(replicas: Replicas) -> None:
    assert replicas.everywhere([1, 2, 3], "PUT", C, 1) == [201] * 3
    rows = [row(name) for name in "abcdef"]
    assert replicas.everywhere([1, 2, 3], "UPDATE", C, 3, {}, rows) == [202] * 3


def test_ranges_come_to_all_replicas(replicas: Replicas) -> None:
    fill(replicas)
    body = [range_of(SHARD, "", "c", CREATED)]
    assert replicas.call[1]("PUT", C, 2, AS_SHARD, body).status == 202
    body = [range_of(SHARD, "", "d", ACTIVE, 3)]
    assert replicas.call[3]("PUT", C, 3, AS_SHARD, body).status == 202
    replicas.settle()
    for number in (1, 2, 3):
        assert ranges_on(replicas, number) == [(SHARD, "d", ACTIVE)]


def test_rows_that_one_replica_has_given_are_not_sent_back(replicas: Replicas) -> None:
    fill(replicas)
    body = [range_of(SHARD, "", "c", CREATED)]
    assert replicas.call[1]("PUT", C, 2, AS_SHARD, body).status == 202
    replicas.settle()
    path = replicas.database(1)
    database = ContainerDatabase(str(path))
    points = begin_giving(database, "", "c")
    _, points, _ = read_changes(database, ("", "c"), points, 100)
    finish_giving(database, "", points, (3, 6), stamp(4))
    assert drop_given(database, 100) == 3
    database.close()
    names = "SELECT name FROM object ORDER BY name"
    for _ in range(2):
        for number in (1, 2, 3):
            figures = replicas.replicate(number)
            assert (figures.rows, figures.failures) == (0, 0)
    assert replicas.query(1, names) == [("d",), ("e",), ("f",)]
    assert len(replicas.query(2, names)) == 6
    # A row that another replica gets later comes here as well, and waits to be moved.
    assert replicas.call[2]("UPDATE", C, 5, {}, [row("b", 5)]).status == 202
    replicas.settle()
    assert replicas.query(1, names) == [("b",), ("d",), ("e",), ("f",)]
    head = replicas.call[1]("HEAD", C).headers
    assert head["X-Container-Object-Count"] == "6"


def test_a_new_replica_lists_active_ranges_from_their_shards(replicas: Replicas) -> None:
    """Rows of them do not come to it by replication: the others have none."""
    assert replicas.everywhere([1, 2], "PUT", C, 1) == [201] * 2
    body = [range_of(SHARD, "", "c", ACTIVE), range_of(f"{SHARD}2", "c", "", CREATED)]
    assert replicas.call[1]("PUT", C, 2, AS_SHARD, body).status == 202
    assert replicas.call[3]("PUT", C, 1).status == 201
    rows = [row("a", 4), row("x", 4)]
    assert replicas.call[3]("UPDATE", C, 4, {}, rows).status == 202
    replicas.settle()
    headers = {"X-Backend-Record-Type": "auto"}
    entries = replicas.call[3]("GET", C, headers=headers).json()
    assert [(e["name"], e["lower"], e["upper"]) for e in entries] == [
        (SHARD, "", "c"),
        ("AUTH_test/c", "c", ""),
    ]
    # Its own row of the range waits to be moved, and does not count.
    assert replicas.call[3]("HEAD", C).headers["X-Container-Object-Count"] == "1"


@pytest.mark.parametrize(("state", "left"), [(CREATED, 1), (ACTIVE, 0)])
def test_a_shard_keeps_tombstones_until_all_rows_are_in_it(
    replicas: Replicas, state: int, left: int
) -> None:
    """A replica of its root may still send the row that the tombstone deletes."""
    fill(replicas)
    gone = row("a", 4, deleted=1, size=0)
    assert replicas.everywhere([1, 2, 3], "UPDATE", C, 4, {}, [gone]) == [202] * 3
    own = [range_of("AUTH_test/c", "", "", state)]
    assert replicas.everywhere([1, 2, 3], "PUT", C, 2, AS_SHARD, own) == [202] * 3
    replicas.settle()
    replicas.now += 8 * DAY
    for number in (1, 2, 3):
        replicas.start_replicator(number)
    replicas.settle()
    tombstones = "SELECT count(*) FROM object WHERE deleted = 1"
    for number in (1, 2, 3):
        assert replicas.query(number, tombstones) == [(left,)]
