# SPDX-License-Identifier: Apache-2.0
"""An account's database: its containers, its own state, and changes of both (account-db.md)."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from account.replica_rows import (
    Report,
    delete_tombstones,
    find_tombstones,
    merge_report,
    merge_rows,
    read_rows,
)
from account.schema import REPORT_TABLE, TABLES, TRIGGERS
from martlet.words.timestamp import Timestamp
from storage.audit import hash_of_rows
from storage.database_files import device_path_of
from storage.metadata import Metadata, dump_metadata, merge_metadata, parse_metadata
from storage.name_listing import ListingQuery, Range, Row, Subdir, list_names
from storage.replica import Stat
from storage.replicated_database import ReplicatedDatabase, Rows, without_count

#: Checks a set of metadata against its limits; raises to refuse the write.
CheckMetadata = Callable[[Metadata], None]

_INFO_QUERY = """
SELECT account, created_at, put_timestamp, delete_timestamp, container_count, object_count,
    bytes_used, hash, id, status, metadata
FROM account_stat
"""
_SCHEMA = TABLES + TRIGGERS + REPORT_TABLE
_HASHED_ROWS = """
SELECT name, put_timestamp || '-' || delete_timestamp || '-' || object_count || '-' || bytes_used
FROM container
"""


@dataclass(frozen=True, slots=True)
class PolicyStat:
    """The totals of an account in one storage policy."""

    storage_policy_index: int
    container_count: int
    object_count: int
    bytes_used: int


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """The state of an account; the fields are columns of ``account_stat``."""

    account: str
    created_at: str
    put_timestamp: str
    delete_timestamp: str
    container_count: int
    object_count: int
    bytes_used: int
    hash: str
    id: str
    status: str
    raw_metadata: str
    policies: tuple[PolicyStat, ...]

    @property
    def is_marked_deleted(self) -> bool:
        """Whether a DELETE came after the last PUT, even if the account is not empty."""
        is_later = Timestamp(self.delete_timestamp) > Timestamp(self.put_timestamp)
        return self.status == "DELETED" or is_later

    @property
    def is_deleted(self) -> bool:
        """Whether the account has status DELETED, or had a later DELETE and is empty."""
        is_later = Timestamp(self.delete_timestamp) > Timestamp(self.put_timestamp)
        return self.status == "DELETED" or (is_later and not self.container_count)

    @property
    def totals(self) -> tuple[int, int, int]:
        """The containers, objects and bytes."""
        return self.container_count, self.object_count, self.bytes_used

    @property
    def sums_of_policies(self) -> tuple[int, int, int]:
        """The totals, summed up over the storage policies."""
        return (
            sum(stat.container_count for stat in self.policies),
            sum(stat.object_count for stat in self.policies),
            sum(stat.bytes_used for stat in self.policies),
        )

    @property
    def metadata(self) -> Metadata:
        """The metadata with timestamps, including removed values."""
        return parse_metadata(self.raw_metadata)


class Taken(NamedTuple):
    """The result of a merge of reports."""

    is_merged: bool  # False: the account is deleted
    #: The latest time of stored totals that are later than those of a report, and others.
    later: Timestamp | None


class AccountDatabase(ReplicatedDatabase):
    """The database of one account."""

    streams: ClassVar[tuple[str, ...]] = ("container",)
    stat_table: ClassVar[str] = "account_stat"

    required_tables: ClassVar[frozenset[str]] = frozenset(
        {"container", "account_stat", "policy_stat"}
    )

    def prepare_writer(self, connection: sqlite3.Connection) -> None:
        """Add the table of report times to a database that was made without it."""
        connection.execute(REPORT_TABLE)

    def create(self, account: str, put_timestamp: str, metadata: Metadata) -> None:
        """Create the file, durably, with its metadata.

        :raises DatabaseExists: another process created it first.
        """

        def fill(connection: sqlite3.Connection) -> None:
            database_id = f"{uuid.uuid4()}-{os.path.basename(device_path_of(self.path))}"
            connection.execute(
                "INSERT INTO account_stat (account, created_at, id, put_timestamp,"
                " status_changed_at, container_count, metadata) VALUES (?, ?, ?, ?, ?, 0, ?)",
                (
                    account,
                    Timestamp.now().normal,
                    database_id,
                    put_timestamp,
                    put_timestamp,
                    dump_metadata(metadata),
                ),
            )

        self.build(_SCHEMA, fill)

    def info(self) -> AccountInfo:
        """The state of the account.

        :raises DatabaseError: as for every read.
        """
        return self.read(_info)

    def list_containers(self, query: ListingQuery) -> tuple[AccountInfo, Sequence[Row | Subdir]]:
        """The state and a listing, from one transaction.

        Rows are (name, object_count, bytes_used, put_timestamp, storage_policy_index).
        """

        def run(connection: sqlite3.Connection) -> tuple[AccountInfo, Sequence[Row | Subdir]]:
            def fetch(names: Range) -> Iterator[Row]:
                conditions, arguments = names.conditions()
                return connection.execute(
                    "SELECT name, object_count, bytes_used, put_timestamp, storage_policy_index"
                    " FROM container WHERE deleted = 0" + conditions,
                    arguments,
                )

            info = _info(connection)
            return info, [] if info.is_deleted else list_names(query, fetch)

        return self.read(run)

    def put_containers(self, reports: Sequence[Report], is_override: bool) -> Taken:
        """Merge reports of containers; change nothing if the account is deleted.

        ``is_override`` merges them even then.
        """

        def run(connection: sqlite3.Connection) -> Taken:
            if not is_override and _info(connection).is_deleted:
                return Taken(False, None)
            now = Timestamp.now()
            later = [merge_report(connection, report, now) for report in reports]
            return Taken(True, max(filter(None, later), default=None))

        return self.write(run)

    def put(self, timestamp: str, updates: Metadata, check: CheckMetadata) -> AccountInfo:
        """Update an existing account; change nothing if it is marked deleted."""

        def run(connection: sqlite3.Connection) -> AccountInfo:
            info = _info(connection)
            if info.is_marked_deleted:
                return info
            connection.execute(
                "UPDATE account_stat SET put_timestamp = ?1 WHERE put_timestamp < ?1", (timestamp,)
            )
            _update_metadata(connection, updates, check)
            return _info(connection)

        return self.write(run)

    def post(self, updates: Metadata, check: CheckMetadata) -> AccountInfo:
        """Update metadata unless the account is deleted; return the state from before."""

        def run(connection: sqlite3.Connection) -> AccountInfo:
            info = _info(connection)
            if not info.is_deleted:
                _update_metadata(connection, updates, check)
            return info

        return self.write(run)

    def delete(self, timestamp: str) -> tuple[AccountInfo, AccountInfo]:
        """Mark the account deleted, even if not empty; return the states before and after."""

        def run(connection: sqlite3.Connection) -> tuple[AccountInfo, AccountInfo]:
            before = _info(connection)
            if before.is_deleted:
                return before, before
            cleared: Metadata = {name: ("", timestamp) for name in before.metadata}
            _update_metadata(connection, cleared, lambda metadata: None)
            connection.execute(
                "UPDATE account_stat SET delete_timestamp = ?1, status = 'DELETED',"
                " status_changed_at = ?1 WHERE delete_timestamp < ?1",
                (timestamp,),
            )
            return before, _info(connection)

        return self.write(run)

    def read_stat(self, connection: sqlite3.Connection) -> Stat:
        """The facts that replicas merge."""
        *facts, metadata, status, count = connection.execute(
            "SELECT created_at, put_timestamp, delete_timestamp, status_changed_at, metadata,"
            " status, container_count FROM account_stat"
        ).fetchone()
        created_at, put, delete, changed_at = (Timestamp(stamp).internal for stamp in facts)
        return Stat(
            created_at,
            put,
            delete,
            changed_at,
            parse_metadata(metadata),
            status,
            count=max(0, count),
        )

    def read_totals(self, connection: sqlite3.Connection) -> tuple[int, ...]:
        """The containers, objects and bytes."""
        query = "SELECT container_count, object_count, bytes_used FROM account_stat"
        return tuple(connection.execute(query).fetchone())

    def merged_stat(self, own: Stat, other: Stat, has_policy: bool) -> Stat:
        """The facts after a merge; an account is deleted if its last DELETE is the latest."""
        put = max(own.put_timestamp, other.put_timestamp)
        delete = max(own.delete_timestamp, other.delete_timestamp)
        status = "DELETED" if delete > put else ""
        changed_at = own.status_changed_at
        if status != own.status:
            changed_at = max(changed_at, delete if status else put)
        return Stat(
            min(own.created_at, other.created_at),
            put,
            delete,
            changed_at,
            merge_metadata(own.metadata, other.metadata) or own.metadata,
            status,
            count=own.count,
        )

    def write_stat(self, connection: sqlite3.Connection, before: Stat, after: Stat) -> None:
        """Store merged facts."""
        facts = without_count(after)
        connection.execute(
            "UPDATE account_stat SET created_at = ?, put_timestamp = ?, delete_timestamp = ?,"
            " status_changed_at = ?, metadata = ?, status = ?",
            (
                facts.created_at,
                facts.put_timestamp,
                facts.delete_timestamp,
                facts.status_changed_at,
                dump_metadata(facts.metadata),
                facts.status,
            ),
        )

    def read_rows(
        self, connection: sqlite3.Connection, stream: str, point: int, limit: int, is_ours: bool
    ) -> Rows:
        """The next rows after a point."""
        return read_rows(connection, point, limit)

    def merge_items(
        self, connection: sqlite3.Connection, items: Sequence[Any], before: str
    ) -> bool:
        """Merge checked rows; an account has no misplaced ones."""
        merge_rows(connection, items, before)
        return False

    def find_tombstones(
        self, connection: sqlite3.Connection, points: Mapping[str, int], before: str
    ) -> list[int]:
        """The ROWIDs of deleted containers up to the point of their stream."""
        return find_tombstones(connection, points["container"], before)

    def delete_tombstones(self, connection: sqlite3.Connection, rowids: Sequence[int]) -> None:
        """Delete rows; each may be gone already."""
        delete_tombstones(connection, rowids)

    def is_forgettable(self, connection: sqlite3.Connection, before: str) -> bool:
        """Whether the account was deleted before a timestamp and has no container."""
        info = _info(connection)
        delete = Timestamp(info.delete_timestamp)
        is_old = Timestamp(info.put_timestamp) < delete < Timestamp(before)
        return is_old and not info.container_count

    def find_faults(self, connection: sqlite3.Connection) -> list[str]:
        """Compare the hash with the rows, and the totals with those of the storage policies."""
        info, faults = _info(connection), []
        if hash_of_rows(connection, _HASHED_ROWS) != info.hash:
            faults.append("the hash is not that of the rows")
        if not info.is_deleted and info.sums_of_policies != info.totals:
            faults.append("the totals are not the sums of those of the policies")
        return faults

    def containers_after(self, marker: str, limit: int) -> list[str]:
        """The next names of containers after a marker, also of a deleted account.

        :raises DatabaseError: as for every read.
        """
        query = "SELECT name FROM container WHERE deleted = 0 AND name > ? ORDER BY name LIMIT ?"
        return self.read(lambda c: [name for (name,) in c.execute(query, (marker, limit))])


def _info(connection: sqlite3.Connection) -> AccountInfo:
    row = connection.execute(_INFO_QUERY).fetchone()
    if row is None:
        error = sqlite3.DatabaseError("account_stat is empty")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    stats = connection.execute(
        "SELECT storage_policy_index, container_count, object_count, bytes_used FROM policy_stat"
    )
    policies = tuple(PolicyStat(*stat) for stat in stats)
    return AccountInfo(*(*row, policies))


def _update_metadata(
    connection: sqlite3.Connection, updates: Metadata, check: CheckMetadata
) -> None:
    if not updates:
        return
    (text,) = connection.execute("SELECT metadata FROM account_stat").fetchone()
    merged = merge_metadata(parse_metadata(text), updates)
    if merged is not None:
        check(merged)
        connection.execute("UPDATE account_stat SET metadata = ?", (dump_metadata(merged),))
