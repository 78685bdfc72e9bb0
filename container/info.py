# SPDX-License-Identifier: Apache-2.0
"""The state of a container: what its database knows of it beside the rows of its objects."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace

from container.shard_rows import UNSHARDED, read_sharding
from container.version_tables import version_stat
from martlet.words.timestamp import Timestamp
from storage.metadata import Metadata, parse_metadata

_QUERY = """
SELECT account, container, created_at, put_timestamp, delete_timestamp, status_changed_at,
    object_count, bytes_used, reported_put_timestamp, reported_delete_timestamp,
    reported_object_count, reported_bytes_used, hash, id, storage_policy_index, metadata,
    (SELECT max(object_count) FROM policy_stat), reconciler_sync_point,
    EXISTS (SELECT 1 FROM policy_stat AS other
        WHERE other.storage_policy_index <> container_stat.storage_policy_index), 0
FROM container_stat
"""


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """The state of a container; the fields are the columns of ``container_stat``."""

    account: str
    container: str
    created_at: str
    put_timestamp: str
    delete_timestamp: str
    status_changed_at: str
    object_count: int
    bytes_used: int
    reported_put_timestamp: str
    reported_delete_timestamp: str
    reported_object_count: int
    reported_bytes_used: int
    hash: str
    id: str
    storage_policy_index: int
    raw_metadata: str
    object_count_max: int  # over all policies
    reconciler_sync_point: int
    has_other_policies: bool  # whether there has ever been a row of another policy
    version_count: int  # of names with versions, including delete markers
    read_at: str = field(compare=False)  # when this state was read, by the clock of this host
    #: Of this replica: unsharded, sharding or sharded. The objects in shards are in the counts.
    sharding_state: str = UNSHARDED

    @property
    def is_deleted(self) -> bool:
        """Whether the last DELETE is later than the last PUT and the container is empty."""
        is_later = Timestamp(self.delete_timestamp) > Timestamp(self.put_timestamp)
        return is_later and not self.object_count and not self.version_count

    @property
    def is_empty(self) -> bool:
        """Whether there is no object of any policy and no version."""
        return not self.object_count_max and not self.version_count

    @property
    def is_unreported(self) -> bool:
        """Whether this state differs from the one last reported to the account."""
        return (
            Timestamp(self.put_timestamp) > Timestamp(self.reported_put_timestamp)
            or Timestamp(self.delete_timestamp) > Timestamp(self.reported_delete_timestamp)
            or self.object_count != self.reported_object_count
            or self.bytes_used != self.reported_bytes_used
        )

    @property
    def reported_state(self) -> tuple[str, str, int, int]:
        """The values that a report tells the account."""
        return self.put_timestamp, self.delete_timestamp, self.object_count, self.bytes_used

    @property
    def state_reported_before(self) -> tuple[str, str, int, int]:
        """The same values of the last report that was recorded."""
        return (
            self.reported_put_timestamp,
            self.reported_delete_timestamp,
            self.reported_object_count,
            self.reported_bytes_used,
        )

    def read_after(self, later: Timestamp) -> ContainerInfo:
        """The same state, with a time of reading after another one.

        It must have been read after ``later`` was known; the clock that made ``later`` may be fast.
        """
        at = max(Timestamp(self.read_at), Timestamp.from_ticks(later.ticks + 1))
        return replace(self, read_at=at.internal)

    @property
    def metadata(self) -> Metadata:
        """The metadata with timestamps, including removed values."""
        return parse_metadata(self.raw_metadata)


def read_info(connection: sqlite3.Connection) -> ContainerInfo:
    """Read the state; the objects in versions and in shards are in its counts.

    :raises sqlite3.DatabaseError: there is none.
    """
    read_at = Timestamp.now()
    row = connection.execute(_QUERY).fetchone()
    if row is None:
        error = sqlite3.DatabaseError("container_info is empty")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    info = ContainerInfo(*(*row, read_at.internal))
    count, extra_bytes = version_stat(connection)
    if count or extra_bytes:
        info = replace(info, version_count=count, bytes_used=info.bytes_used + extra_bytes)
    sharding = read_sharding(connection)
    if sharding is None:
        return info
    objects, size = sharding.given_stats()
    return replace(
        info,
        object_count=info.object_count + objects,
        bytes_used=info.bytes_used + size,
        object_count_max=max(0, info.object_count_max) + objects,
        sharding_state=sharding.state,
    )
