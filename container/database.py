# SPDX-License-Identifier: Apache-2.0
"""A container's database: its objects, its own state, and changes of both (container-db.md)."""

from __future__ import annotations

import itertools
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from container.info import ContainerInfo, read_info
from container.listing_scope import ANY_NAMES, Scope
from container.merge import merge_rows
from container.merges import Merge, Merged, merge_together
from container.misplaced_rows import forget_queued
from container.policy_choice import Claim, chooses
from container.record import Record
from container.replica_rows import (
    OBJECTS,
    VERSIONS,
    delete_tombstones,
    find_tombstones,
    read_rows,
    without_forgotten,
)
from container.schema import COUNTING_TRIGGERS, STAT_VIEW, TABLES, TRIGGERS
from container.shard_range import ShardRange, parse_range
from container.shard_rows import (
    UNSHARDED,
    merge_stats,
    read_ranges,
    read_sharding,
    write_empty_stats,
)
from container.shard_rows import merge_ranges as merge_shard_ranges
from container.version_listing import VersionQuery, list_versions
from container.version_tables import has_versions, version_stat
from martlet.words.timestamp import Timestamp
from storage.audit import hash_of_rows
from storage.database import Transaction
from storage.database_files import device_path_of
from storage.metadata import Metadata, dump_metadata, merge_metadata, parse_metadata
from storage.name_listing import ListingQuery, Range, Row, Subdir, list_names
from storage.replica import Stat
from storage.replicated_database import ReplicatedDatabase, Rows, without_count

#: Checks a set of metadata against its limits; raises to refuse the write.
CheckMetadata = Callable[[Metadata], None]

_SET_REPORTED = """
UPDATE container_info SET reported_put_timestamp = ?1, reported_delete_timestamp = ?2,
    reported_object_count = ?3, reported_bytes_used = ?4
WHERE reported_put_timestamp = ?5 AND reported_delete_timestamp = ?6
    AND reported_object_count = ?7 AND reported_bytes_used = ?8
"""
_SCHEMA = TABLES + TRIGGERS + STAT_VIEW
_OBJECTS = """
SELECT name, created_at, size, content_type, etag, '' FROM object
WHERE deleted = 0 AND storage_policy_index = ?
"""
_OBJECTS_OF_VERSIONS = """
SELECT name, created_at, size, content_type, etag,
    coalesce((SELECT current FROM version_name AS n WHERE n.name = object.name), '')
FROM object WHERE deleted = 0 AND storage_policy_index = ?
"""


class PolicyConflict(Exception):
    """The container exists with another storage policy, of index ``policy_index``."""

    def __init__(self, policy_index: int) -> None:
        super().__init__(f"the container has storage policy {policy_index}")
        self.policy_index = policy_index


class ContainerDatabase(ReplicatedDatabase):
    """The database of one container."""

    streams: ClassVar[tuple[str, ...]] = (OBJECTS, VERSIONS)
    stat_table: ClassVar[str] = "container_info"

    required_tables: ClassVar[frozenset[str]] = frozenset(
        {"object", "container_info", "policy_stat"}
    )

    def prepare_writer(self, connection: sqlite3.Connection) -> None:
        """Replace the triggers of an OpenStack Swift database by ours: same names, same effect."""
        query = "SELECT sql FROM sqlite_master WHERE name = 'object_insert_policy_stat'"
        found = connection.execute(query).fetchone()
        if found is not None and found[0] in COUNTING_TRIGGERS:
            return
        drop = "DROP TRIGGER IF EXISTS object_insert_policy_stat;"
        drop += "DROP TRIGGER IF EXISTS object_delete_policy_stat;"
        connection.executescript(f"BEGIN IMMEDIATE;{drop}{COUNTING_TRIGGERS}COMMIT")

    def create(
        self,
        account: str,
        container: str,
        put_timestamp: str,
        storage_policy_index: int,
        metadata: Metadata,
    ) -> ContainerInfo:
        """Create the file, durably, with its metadata; return its state.

        :raises DatabaseExists: another process created it first.
        """

        def fill(connection: sqlite3.Connection) -> ContainerInfo:
            database_id = f"{uuid.uuid4()}-{os.path.basename(device_path_of(self.path))}"
            connection.execute(
                "INSERT INTO container_info (account, container, created_at, id, put_timestamp,"
                " status_changed_at, storage_policy_index, metadata)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    account,
                    container,
                    Timestamp.now().normal,
                    database_id,
                    put_timestamp,
                    put_timestamp,
                    storage_policy_index,
                    dump_metadata(metadata),
                ),
            )
            connection.execute(
                "INSERT INTO policy_stat (storage_policy_index) VALUES (?)",
                (storage_policy_index,),
            )
            return read_info(connection)

        return self.build(_SCHEMA, fill)

    def info(self) -> ContainerInfo:
        """The state of the container.

        :raises DatabaseError: as for every read.
        """
        return self.read(read_info)

    def list_objects(
        self, query: ListingQuery, policy_index: int | None, scope: Scope = ANY_NAMES
    ) -> tuple[ContainerInfo, Sequence[Row | Subdir]]:
        """The state and a listing, from one transaction.

        Rows are (name, created_at, size, content_type, etag, version id); the version id is empty
        for a name without versions. ``policy_index`` None means the container's own policy.

        :raises NamesGivenAway: rows of the scope are in shards.
        """

        def run(connection: sqlite3.Connection) -> tuple[ContainerInfo, Sequence[Row | Subdir]]:
            info = read_info(connection)
            policy = info.storage_policy_index if policy_index is None else policy_index
            select = _OBJECTS_OF_VERSIONS if has_versions(connection) else _OBJECTS

            def fetch(names: Range) -> Iterator[Row]:
                conditions, arguments = names.conditions()
                return connection.execute(select + conditions, (policy, *arguments))

            return info, list_names(query, fetch) if scope.admits(connection, info) else []

        return self.read(run)

    def list_versions(
        self,
        query: ListingQuery,
        policy_index: int | None,
        wanted: VersionQuery,
        scope: Scope = ANY_NAMES,
    ) -> tuple[ContainerInfo, Sequence[Row | Subdir]]:
        """The state and the rows of `version_listing.list_versions`, from one transaction.

        :raises NamesGivenAway: rows of the scope are in shards.
        """

        def run(connection: sqlite3.Connection) -> tuple[ContainerInfo, Sequence[Row | Subdir]]:
            info = read_info(connection)
            policy = info.storage_policy_index if policy_index is None else policy_index
            if not scope.admits(connection, info):
                return info, []
            return info, list_versions(connection, query, policy, wanted)

        return self.read(run)

    def merge(self, records: Sequence[Record]) -> bool:
        """Merge rows that are newer than the stored ones: all or none, durably.

        Returns True if one of them, or of those merged at the same time, has another policy than
        the container.
        """
        return self.merge_rows(records, is_redirected=False).is_misplaced

    def merge_rows(self, records: Sequence[Record], is_redirected: bool) -> Merged:
        """Merge rows as ``merge`` does.

        :param is_redirected: not those whose names were given to shards.
        """
        merged = self.write(Merge(records, is_redirected))
        return merged if isinstance(merged, Merged) else Merged(merged)

    def run(self, connection: sqlite3.Connection, transactions: Sequence[Transaction]) -> list[Any]:
        """Run transactions; merges in a row become one, whose cost they share."""
        results: list[Any] = []
        for kind, group in itertools.groupby(transactions, type):
            if kind is Merge:
                results += merge_together(connection, cast("list[Merge]", list(group)))
            else:
                results += [transaction(connection) for transaction in group]
        return results

    def put(
        self,
        timestamp: Timestamp,
        requested_policy: int | None,
        new_policy: int,
        updates: Metadata,
        check: CheckMetadata,
    ) -> tuple[bool, ContainerInfo]:
        """Update an existing database; return whether a deleted container came back, and its state.

        A PUT older than the deletion changes nothing: the state shows a deleted container. One that
        has shards keeps the policy, which is theirs.

        :raises PolicyConflict: an existing container has another policy than the requested one, or
            a deleted one with shards.
        """

        def run(connection: sqlite3.Connection) -> tuple[bool, ContainerInfo]:
            info = read_info(connection)
            was_deleted = info.is_deleted
            if was_deleted and timestamp <= Timestamp(info.delete_timestamp):
                return False, info
            sharding = read_sharding(connection)
            if was_deleted and (sharding is None or not sharding.ranges):
                _set_policy(connection, new_policy, timestamp.internal)
            elif requested_policy not in (None, info.storage_policy_index):
                raise PolicyConflict(info.storage_policy_index)
            _set_put_timestamp(connection, timestamp.internal)
            if was_deleted:
                _set_status_changed_at(connection, timestamp.internal)
            _update_metadata(connection, updates, check)
            return was_deleted, read_info(connection)

        return self.write(run)

    def put_ranges(
        self,
        ranges: Sequence[ShardRange],
        put_timestamp: str,
        updates: Metadata,
        check: CheckMetadata,
    ) -> None:
        """Merge shard ranges and metadata.

        A shard becomes a container with a put timestamp, as others do.
        """

        def run(connection: sqlite3.Connection) -> None:
            if updates:
                _set_put_timestamp(connection, put_timestamp)
            _update_metadata(connection, updates, check)
            merge_shard_ranges(connection, ranges)

        self.write(run)

    def merge_shard_stats(self, ranges: Sequence[ShardRange]) -> Timestamp | None:
        """Merge the statistics of known shard ranges; return as ``merge_stats``."""
        return self.write(lambda connection: merge_stats(connection, ranges))

    def post(self, put_timestamp: str | None, updates: Metadata, check: CheckMetadata) -> bool:
        """Update metadata, and the put timestamp if given; return False if deleted."""

        def run(connection: sqlite3.Connection) -> bool:
            if read_info(connection).is_deleted:
                return False
            if put_timestamp is not None:
                _set_put_timestamp(connection, put_timestamp)
            _update_metadata(connection, updates, check)
            return True

        return self.write(run)

    def delete(
        self, timestamp: str, shards_empty: str | None = None
    ) -> tuple[ContainerInfo, ContainerInfo]:
        """Mark the container deleted if it is empty; return the states before and after.

        :param shards_empty: ``unknown``: a container with shards is not deleted; ``true``: what its
            shards have reported so far is out of date; None: it is not.
        """

        def run(connection: sqlite3.Connection) -> tuple[ContainerInfo, ContainerInfo]:
            if shards_empty == "true":
                write_empty_stats(connection, Timestamp(timestamp).normal)
            before = read_info(connection)
            if before.sharding_state != UNSHARDED and shards_empty == "unknown":
                return before, before
            if not before.is_empty:
                return before, before
            cleared: Metadata = {name: ("", timestamp) for name in before.metadata}
            _update_metadata(connection, cleared, lambda metadata: None)
            connection.execute(
                "UPDATE container_info SET delete_timestamp = ?1, status = 'DELETED',"
                " status_changed_at = ?1 WHERE delete_timestamp < ?1",
                (timestamp,),
            )
            return before, read_info(connection)

        return self.write(run)

    def set_reported(self, info: ContainerInfo) -> bool:
        """Record that the account knows the state ``info``.

        Returns False if another report was recorded since ``info`` was read. The account may have
        got the two in any order, so the container then counts as not reported.
        """

        def run(connection: sqlite3.Connection) -> bool:
            values = (*info.reported_state, *info.state_reported_before)
            if connection.execute(_SET_REPORTED, values).rowcount:
                return True
            if read_info(connection).state_reported_before == info.reported_state:
                return True
            connection.execute("UPDATE container_info SET reported_object_count = -1")
            return False

        return self.write(run)

    def unreported(self, told: ContainerInfo | None) -> ContainerInfo | None:
        """The state, if it must be reported; what the account knows already is recorded here.

        :param told: a state that the account has accepted during the request that made it.
        """

        def look(connection: sqlite3.Connection) -> ContainerInfo | None:
            info = read_info(connection)
            # A container created only by an object's row has no totals to report yet.
            return info if info.is_unreported and Timestamp(info.put_timestamp) else None

        def record(connection: sqlite3.Connection) -> ContainerInfo | None:
            info = look(connection)
            if info is None or told is None or told.reported_state != info.reported_state:
                return info
            connection.execute(_SET_REPORTED, (*info.reported_state, *info.state_reported_before))
            return None

        return self.read(look) if told is None else self.write(record)

    def read_stat(self, connection: sqlite3.Connection) -> Stat:
        """The facts that replicas merge."""
        info = read_info(connection)
        stamps = info.created_at, info.put_timestamp, info.delete_timestamp, info.status_changed_at
        created_at, put, delete, changed_at = (Timestamp(stamp).internal for stamp in stamps)
        return Stat(
            created_at,
            put,
            delete,
            changed_at,
            info.metadata,
            storage_policy_index=info.storage_policy_index,
            count=max(0, info.object_count),
        )

    def read_totals(self, connection: sqlite3.Connection) -> tuple[int, ...]:
        """The objects and bytes of all policies, the versions and their bytes."""
        query = (
            "SELECT coalesce(sum(object_count), 0), coalesce(sum(bytes_used), 0) FROM policy_stat"
        )
        return (*connection.execute(query).fetchone(), *version_stat(connection))

    def merged_stat(self, own: Stat, other: Stat, has_policy: bool) -> Stat:
        """The facts after a merge; `policy_choice` decides on the policy."""
        policy, changed_at = own.storage_policy_index, own.status_changed_at
        if has_policy and chooses(_claim(own), _claim(other)):
            policy, changed_at = other.storage_policy_index, other.status_changed_at
        merged = Stat(
            min(own.created_at, other.created_at),
            max(own.put_timestamp, other.put_timestamp),
            max(own.delete_timestamp, other.delete_timestamp),
            changed_at,
            merge_metadata(own.metadata, other.metadata) or own.metadata,
            storage_policy_index=policy,
            count=own.count,
        )
        if _claim(own).is_deleted != _claim(merged).is_deleted:
            changed_at = max(own.status_changed_at, other.status_changed_at)
            return replace(merged, status_changed_at=changed_at)
        return merged

    def write_stat(self, connection: sqlite3.Connection, before: Stat, after: Stat) -> None:
        """Store merged facts. With a new policy, all rows may be misplaced."""
        if after.storage_policy_index != before.storage_policy_index:
            _set_policy(connection, after.storage_policy_index, after.status_changed_at)
            forget_queued(connection)
        facts = without_count(after)
        connection.execute(
            "UPDATE container_info SET created_at = ?, put_timestamp = ?, delete_timestamp = ?,"
            " status_changed_at = ?, metadata = ?",
            (
                facts.created_at,
                facts.put_timestamp,
                facts.delete_timestamp,
                facts.status_changed_at,
                dump_metadata(facts.metadata),
            ),
        )

    def read_rows(
        self, connection: sqlite3.Connection, stream: str, point: int, limit: int, is_ours: bool
    ) -> Rows:
        """The next rows of a stream after a point."""
        return read_rows(connection, stream, point, limit, is_ours)

    def merge_items(
        self, connection: sqlite3.Connection, items: Sequence[Any], before: str
    ) -> bool:
        """Merge checked rows; return True if one of them has another policy than the container."""
        rows = without_forgotten(connection, items, before)
        return bool(rows) and merge_rows(connection, rows)

    def find_tombstones(
        self, connection: sqlite3.Connection, points: Mapping[str, int], before: str
    ) -> list[int]:
        """The ROWIDs of tombstones of objects up to the point of their stream.

        A shard keeps them until all replicas of its root have given it their rows: an old row must
        find the tombstone that deletes it.
        """
        sharding = read_sharding(connection)
        if sharding is not None and sharding.is_being_filled:
            return []
        return find_tombstones(connection, points[OBJECTS], before)

    def delete_tombstones(self, connection: sqlite3.Connection, rowids: Sequence[int]) -> None:
        """Delete rows; each may be gone already."""
        delete_tombstones(connection, rowids)

    def is_forgettable(self, connection: sqlite3.Connection, before: str) -> bool:
        """Whether the container was deleted before a timestamp, and is empty."""
        info = read_info(connection)
        delete = Timestamp(info.delete_timestamp)
        is_old = Timestamp(info.put_timestamp) < delete < Timestamp(before)
        sharding = read_sharding(connection)
        return is_old and info.is_empty and not (sharding is not None and sharding.ranges)

    def find_faults(self, connection: sqlite3.Connection) -> list[str]:
        """Compare the hash with the rows."""
        found = hash_of_rows(connection, "SELECT name, created_at FROM object")
        return [] if found == read_info(connection).hash else ["the hash is not that of the rows"]

    def shard_items(self) -> list[dict[str, Any]]:
        """The shard ranges, for a peer."""
        return [found.as_dict() for found in self.read(read_ranges)]

    def merge_shard_items(self, items: Sequence[Any]) -> bool:
        """Merge the shard ranges of a peer; return whether one has changed.

        :raises ValueError: one is malformed.
        """
        ranges: list[ShardRange] = [parse_range(item) for item in items]
        if not ranges:
            return False
        return self.write(lambda connection: merge_shard_ranges(connection, ranges))

    def is_reported(self, connection: sqlite3.Connection) -> bool:
        """Whether the account knows the facts."""
        return not read_info(connection).is_unreported


def _claim(stat: Stat) -> Claim:
    return Claim(
        stat.storage_policy_index,
        Timestamp(stat.put_timestamp),
        Timestamp(stat.delete_timestamp),
        Timestamp(stat.status_changed_at),
        stat.count,
    )


def _set_put_timestamp(connection: sqlite3.Connection, timestamp: str) -> None:
    connection.execute(
        "UPDATE container_info SET put_timestamp = ?1 WHERE put_timestamp < ?1", (timestamp,)
    )


def _set_status_changed_at(connection: sqlite3.Connection, timestamp: str) -> None:
    connection.execute(
        "UPDATE container_info SET status_changed_at = ?1 WHERE status_changed_at < ?1",
        (timestamp,),
    )


def _set_policy(connection: sqlite3.Connection, policy_index: int, timestamp: str) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO policy_stat (storage_policy_index) VALUES (?)", (policy_index,)
    )
    connection.execute(
        "UPDATE container_info SET storage_policy_index = ?1,"
        " status_changed_at = max(?2, status_changed_at) WHERE storage_policy_index <> ?1",
        (policy_index, timestamp),
    )


def _update_metadata(
    connection: sqlite3.Connection, updates: Metadata, check: CheckMetadata
) -> None:
    if not updates:
        return
    (text,) = connection.execute("SELECT metadata FROM container_info").fetchone()
    merged = merge_metadata(parse_metadata(text), updates)
    if merged is not None:
        check(merged)
        connection.execute("UPDATE container_info SET metadata = ?", (dump_metadata(merged),))
