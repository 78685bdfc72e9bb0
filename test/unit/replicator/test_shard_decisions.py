"""The sharder and the servers that it asks: replicas that are away, late, or of another opinion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from container.database import ContainerDatabase
from container.record import Record
from container.shard_range import (
    ACTIVE,
    CREATED,
    QUOTED_PARENT,
    QUOTED_ROOT,
    SHARDED,
    SHRINKING,
    ShardRange,
)
from container.shard_rows import merge_ranges, read_sharding
from container.shard_spans import read_spans
from replicator.sharder import requests
from replicator.sharder.figures import SharderFigures
from replicator.sharder.giving import Giving
from replicator.sharder.options import SharderOptions
from replicator.sharder.plan import Plan
from replicator.sharder.requests import Answer, ShardError, ShardRequests

ROOT = "a", "c"
LATER = "1700000009.00000"
STAMP = "1700000000.00000"
SHARD = ShardRange(".shards_a/c-0", STAMP, "", "m", 0, 0, STAMP, 0, ACTIVE, STAMP)
OTHER = replace(SHARD, name=".shards_a/c-1", lower="m", upper="")
GONE = Answer(503, {}, b"")


def listing(*ranges: ShardRange) -> Answer:
    return Answer(200, {}, json.dumps([item.as_dict() for item in ranges]).encode())


def counting(count: int, status: int = 204) -> Answer:
    headers = {"x-container-object-count": str(count), "x-container-bytes-used": "0"}
    return Answer(status, headers, b"")


class Servers(ShardRequests):
    """Replicas whose answers are given by method and container."""

    def __init__(self, answers: Mapping[tuple[str, str], list[Answer]]) -> None:
        super().__init__(cast(Any, Mock()), cast(Any, Mock()))
        self.answers = answers
        self.asked: list[tuple[str, str]] = []

    def _ask(self, method: str, names: tuple[str, str], *_: object) -> list[Answer]:
        self.asked.append((method, names[1]))
        return self.answers[method, names[1]]


@pytest.fixture
def database(tmp_path: Path) -> ContainerDatabase:
    made = ContainerDatabase(str(tmp_path / "d1/containers/0/abc/x/x.db"))
    made.create(*ROOT, STAMP, 0, {})
    made.put_ranges([], STAMP, {"X-Container-Sysmeta-Sharding": ("True", STAMP)}, lambda m: None)
    made.merge([Record(name, STAMP, 1, "a/b", "e", 0, 0) for name in "abcdefgh"])
    return made


def plan_of(servers: ShardRequests, **options: Any) -> Plan:
    sizes = {"shard_container_threshold": 8, "rows_per_shard": 4, "minimum_shard_size": 2}
    return Plan(SharderOptions(**{**sizes, **options}), servers, ".")


def test_ranges_are_merged_from_most_replicas() -> None:
    """One replica alone may have missed the last change."""
    grown = replace(SHARD, upper="", timestamp=LATER)
    for answers in ([listing(SHARD), listing(grown), GONE], [GONE, listing(grown), listing(SHARD)]):
        servers = Servers({("GET", "c"): answers})
        assert servers.ranges_of(ROOT) == [grown]
        with pytest.raises(ShardError):
            servers.ranges_of(ROOT, needs_all=True)
    with pytest.raises(ShardError):
        Servers({("GET", "c"): [listing(SHARD), GONE, GONE]}).ranges_of(ROOT)


def test_a_range_is_given_only_if_all_replicas_of_its_shard_take_it(
    database: ContainerDatabase,
) -> None:
    """Listings from a replica without the rows would miss them."""
    target = replace(SHARD, state=CREATED)
    database.write(lambda connection: merge_ranges(connection, [target]))
    taken, figures = Answer(202, {}, b""), SharderFigures()
    servers = Servers({("HEAD", "c-0"): [counting(0), counting(0), counting(0, 404)]})
    with pytest.raises(ShardError, match="needs all"):
        Giving(servers, 3).give(database, target, False, figures)
    assert not database.read(read_spans)  # no row is sent twice while a replica is away
    servers.answers = {
        ("HEAD", "c-0"): [counting(8)] * 3,
        ("UPDATE", "c-0"): [taken, GONE, taken],
    }
    with pytest.raises(ShardError, match="202,503,202"):
        Giving(servers, 3).give(database, target, False, figures)
    assert not database.read(read_spans).given()
    servers.answers = {("HEAD", "c-0"): [counting(8)] * 3, ("UPDATE", "c-0"): [taken] * 3}
    Giving(servers, 3).give(database, target, False, figures)
    assert database.read(read_spans).given() == [("", "m")]


def test_rows_that_came_late_need_most_replicas() -> None:
    taken = Answer(202, {}, b"")
    item = {"name": "a", "storage_policy_index": 0}
    Servers({("UPDATE", "c-0"): [taken, GONE, taken]}).send_rows(SHARD.path, [item])
    with pytest.raises(ShardError):
        Servers({("UPDATE", "c-0"): [taken, GONE, GONE]}).send_rows(SHARD.path, [item])


def test_many_versions_of_a_name_go_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "ROWS_MAX", 2)
    servers = Servers({("UPDATE", "c-0"): [Answer(202, {}, b"")] * 3})
    servers.send_rows(SHARD.path, [{"name": "a", "storage_policy_index": 0}] * 5)
    assert len(servers.asked) == 3


def test_a_container_is_divided_into_two_shards_at_least(database: ContainerDatabase) -> None:
    info = database.info()
    servers = Servers({("GET", "c"): [listing()] * 3})
    large = plan_of(servers, rows_per_shard=9)
    assert not large.is_to_be_sharded(info, None)
    # Most of the objects that are counted are gone since.
    large.find(database, replace(info, object_count=100), SharderFigures())
    assert database.read(read_sharding) is None
    plan = plan_of(servers)
    assert plan.is_to_be_sharded(info, None)
    plan.find(database, info, SharderFigures())
    sharding = database.read(read_sharding)
    assert sharding is not None
    assert [(r.lower, r.upper) for r in sharding.ranges] == [("", "d"), ("d", "")]


def test_ranges_that_another_replica_knows_are_taken(database: ContainerDatabase) -> None:
    servers = Servers({("GET", "c"): [listing(), listing(SHARD, OTHER), listing()]})
    plan_of(servers).find(database, database.info(), SharderFigures())
    sharding = database.read(read_sharding)
    assert sharding is not None
    assert [item.name for item in sharding.ranges] == [SHARD.name, OTHER.name]


def test_a_shard_is_divided_once_its_root_is_its_parent(database: ContainerDatabase) -> None:
    """Else its own shards would be ranges of a container that no one asks any more."""
    plan, info = plan_of(Servers({})), database.info()

    def with_parent(parent: str) -> Any:
        metadata = {QUOTED_ROOT: ["a/r", STAMP], QUOTED_PARENT: [parent, STAMP]}
        return replace(info, raw_metadata=json.dumps(metadata))

    assert not plan.is_to_be_sharded(with_parent(".shards_a/r-0"), None)
    assert plan.is_to_be_sharded(with_parent(""), None)


def test_old_reports_do_not_let_a_shard_shrink(database: ContainerDatabase) -> None:
    own = ShardRange("a/c", STAMP, state=SHARDED, state_timestamp=STAMP)
    ranges = [own, replace(SHARD, object_count=1), replace(OTHER, object_count=3)]
    database.write(lambda connection: merge_ranges(connection, ranges))
    sharding, info = database.read(read_sharding), database.info()
    assert sharding is not None
    done = [Answer(202, {}, b"")] * 3
    answers = {
        **{("GET", name): [listing()] * 3 for name in ("c-0", "c-1")},
        **{("PUT", name): done for name in ("c-0", "c-1")},
        ("HEAD", "c-0"): [counting(1)] * 3,
        ("HEAD", "c-1"): [counting(3), counting(6), GONE],
    }
    servers, figures = Servers(answers), SharderFigures()
    plan = plan_of(servers, shrink_threshold=2, expansion_limit=6)
    plan.shrink(database, info, sharding, figures)
    assert figures.shrinking == 0
    servers.answers = {**answers, ("HEAD", "c-1"): [counting(3)] * 3}
    plan.shrink(database, info, sharding, figures)
    assert figures.shrinking == 1
    found = database.read(read_sharding)
    assert found is not None
    assert [item.state for item in found.ranges] == [SHRINKING, ACTIVE]
    puts = [name for method, name in servers.asked if method == "PUT"]
    assert puts == ["c-1", "c-0"]  # the neighbour first
