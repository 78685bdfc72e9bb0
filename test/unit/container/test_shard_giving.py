"""A replica gives rows to a shard while others are written: none is lost, hidden or counted twice.

The rows of both databases together are compared with a container that has no shards.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from container.database import ContainerDatabase
from container.record import Record, parse_record
from container.shard_giving import (
    begin_giving,
    drop_given,
    finish_giving,
    read_changes,
    read_part,
    read_stray,
    remove_rows,
)
from container.shard_range import ACTIVE, CREATED, QUOTED_ROOT, SHRINKING, ShardRange
from container.shard_rows import merge_ranges, read_sharding
from container.shard_spans import TAKING, read_spans
from container.version_listing import VersionQuery
from storage.name_listing import ListingQuery, Subdir

EVERYTHING = ListingQuery(10_000)
STAMP = "1700000000.00000"


def new_database(directory: Path, account: str, container: str) -> ContainerDatabase:
    path = directory / "d1/containers/0/abc" / container / f"{container}.db"
    database = ContainerDatabase(str(path))
    database.create(account, container, STAMP, 0, {})
    return database


class Pair:
    """A container with one shard for its middle, and a reference that gets the same writes."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.root = new_database(directory, "a", "c")
        self.shard = new_database(directory, ".shards_a", "c-1")
        self.plain = new_database(directory, "a", "plain")
        self.range = ShardRange(".shards_a/c-1", STAMP, "d", "k", state=CREATED)
        self.root.write(lambda connection: merge_ranges(connection, [self.range]))
        self.time = 0

    def write_some(self, count: int) -> None:
        for _ in range(count):
            rows = [self.new_row() for _ in range(self.chance.randrange(1, 4))]
            self.plain.merge(rows)
            is_redirected = self.chance.random() < 0.8
            merged = self.root.merge_rows(rows, is_redirected)
            for redirect in merged.redirects:
                assert redirect.target.name == self.range.name
                self.shard.merge([rows[place] for place in redirect.places])

    def new_row(self) -> Record:
        self.time += 1
        name = self.chance.choice("abcdefghijklmnop") + self.chance.choice(["", "1"])
        # Some rows are late: they are older than what is there.
        stamp = f"17000{max(1, self.time - self.chance.choice([0, 0, 0, 40])):05d}.00000"
        is_deleted = self.chance.random() < 0.3
        version = stamp if name[0] in "aeg" and self.chance.random() < 0.5 else None
        return parse_record(
            {
                "name": name,
                "created_at": stamp,
                "size": 0 if is_deleted else self.chance.randrange(100),
                "content_type": "application/deleted" if is_deleted else "a/b",
                "etag": "noetag" if is_deleted else f"e{self.time}",
                "deleted": int(is_deleted),
                "storage_policy_index": 0,
                "version_id": version,
            }
        )

    def send(self, items: list[dict[str, object]]) -> None:
        self.shard.merge([parse_record(item) for item in items])

    def steps(self) -> Iterator[str]:
        """The steps of giving the range, each of which may be followed by writes or a crash."""
        span = self.range.lower, self.range.upper
        points = begin_giving(self.root, *span)
        yield "begun"
        for deleted in (0, 1):
            marker, is_last = "", False
            while not is_last:
                items, marker, is_last = read_part(self.root, span, marker, deleted, 4)
                self.send(items)
                yield "a part"
        is_last = False
        while not is_last:
            items, points, is_last = read_changes(self.root, span, points, 3)
            self.send(items)
        yield "changes"
        info = self.shard.info()
        counts = info.object_count, info.bytes_used
        finish_giving(self.root, self.range.lower, points, counts, STAMP)
        yield "given"
        yield from self.clearing()

    def clearing(self) -> Iterator[str]:
        while True:
            items, rowids, version_rowids = read_stray(self.root, 3)
            self.send(items)
            yield "stray rows sent"
            remove_rows(self.root, rowids, version_rowids)
            if not items:
                break
        while drop_given(self.root, 3):
            yield "rows removed"

    def report(self) -> None:
        info = self.shard.info()
        self.time += 1
        counts = info.object_count, info.bytes_used, f"17000{self.time:05d}.00000"
        self.root.merge_shard_stats([self.range.with_stats(*counts)])

    def listed(self, versions: bool) -> list[object]:
        """What a proxy lists of both; stray rows are not there yet."""
        found: list[object] = []
        sharding = self.root.read(read_sharding)
        assert sharding is not None
        for part in sharding.listed():
            database = self.root if part.name == "a/c" else self.shard
            found += [row for row in rows_of(database, versions) if part.covers(row[0])]
        return found


def rows_of(database: ContainerDatabase, versions: bool) -> list[tuple[str, ...]]:
    if versions:
        _, rows = database.list_versions(EVERYTHING, None, VersionQuery())
    else:
        _, rows = database.list_objects(EVERYTHING, None)
    return [row for row in rows if not isinstance(row, Subdir)]


@pytest.mark.parametrize("seed", range(25))
def test_the_whole_is_right_at_every_step(tmp_path: Path, seed: int) -> None:
    pair = Pair(tmp_path, seed)
    pair.write_some(30)
    for _ in range(pair.chance.randrange(3)):  # kills in the middle
        steps = pair.steps()
        for _ in range(pair.chance.randrange(6)):
            next(steps, None)
            pair.write_some(2)
    for _ in pair.steps():
        pair.write_some(1)
    for _ in pair.clearing():
        pass  # rows without a redirect are listed once they are moved
    pair.report()
    for versions in (False, True):
        assert pair.listed(versions) == rows_of(pair.plain, versions)
    whole, plain = pair.root.info(), pair.plain.info()
    assert (whole.object_count, whole.bytes_used) == (plain.object_count, plain.bytes_used)
    left = "SELECT count(*) FROM object WHERE name > 'd' AND name <= 'k'"
    assert pair.root.read(lambda c: c.execute(left).fetchone()) == (0,)
    assert pair.root.audit() == pair.shard.audit() == []


@pytest.mark.parametrize("seed", range(8))
def test_no_listing_lags_behind_redirected_writes(tmp_path: Path, seed: int) -> None:
    """If each sender follows redirects, every listing between two steps shows every write."""
    pair = Pair(tmp_path, seed)
    pair.chance.random = lambda: 0.5  # type: ignore[method-assign]  # all rows are redirected
    pair.write_some(20)
    for step in pair.steps():
        for versions in (False, True):
            assert pair.listed(versions) == rows_of(pair.plain, versions), step
        pair.report()
        whole, plain = pair.root.info(), pair.plain.info()
        assert (whole.object_count, whole.bytes_used) == (plain.object_count, plain.bytes_used)
        pair.write_some(2)


def test_a_part_of_names_with_many_versions_is_small(tmp_path: Path) -> None:
    root = new_database(tmp_path, "a", "c")
    stamps = [f"170000000{number}.00000" for number in range(9)]
    for name in "abc":
        rows = [Record(name, stamp, 1, "a/b", "e", 0, 0, stamp) for stamp in stamps]
        root.merge(rows)
    sizes, marker, is_last = list[int](), "", False
    while not is_last:
        items, marker, is_last = read_part(root, ("", "m"), marker, 0, 5)
        sizes.append(len(items))
    assert [size for size in sizes if size] == [9, 9, 9]


def test_rows_of_a_shrinking_neighbour_count_once_they_are_its_own(tmp_path: Path) -> None:
    acceptor = new_database(tmp_path, ".shards_a", "c-0")
    root = {QUOTED_ROOT: ("a/c", STAMP)}
    acceptor.put_ranges([], STAMP, root, lambda metadata: None)
    own = ShardRange(".shards_a/c-0", STAMP, "", "d", state=ACTIVE)
    donor = ShardRange(".shards_a/c-1", STAMP, "d", "k", state=SHRINKING, state_timestamp=STAMP)
    acceptor.write(lambda connection: merge_ranges(connection, [own]))

    def put(name: str) -> None:
        values = (name, STAMP, 5, "a/b", "e", 0, 0)
        acceptor.merge([Record(*values)])

    put("a")
    acceptor.write(lambda connection: merge_ranges(connection, [donor]))
    assert [span.phase for span in acceptor.read(read_spans).all] == [TAKING]
    put("e")
    put("b")
    assert acceptor.info().object_count == 2
    grown = replace(own, upper="k", timestamp="1700000001.00000")
    acceptor.write(lambda connection: merge_ranges(connection, [donor, grown]))
    assert acceptor.info().object_count == 3
    assert acceptor.info().bytes_used == 15
    acceptor.write(lambda connection: merge_ranges(connection, [donor]))
    assert not acceptor.read(read_spans)
    sharding = acceptor.read(read_sharding)
    assert sharding is not None
    assert sharding.ranges == []
