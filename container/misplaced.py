# SPDX-License-Identifier: Apache-2.0
"""The queue of misplaced objects: rows of objects in another policy than their container's.

The queue is a separate account, with names that OpenStack Swift's reconciler can read, too. It has
a container for each hour of the objects' timestamps. The name of an object's row is its policy and
path. The etag is the time of its write. The type says whether it was put or deleted.

A move keeps the time of an object and increases the offset. So each step wins over the version that
it replaces, but not over later writes of clients. The offsets are Swift's: +1 removes the misplaced
copy, +2 the row in the queue, +3 writes or deletes in the right policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from container.record import Record, decode_times
from martlet.words.names import split_path
from martlet.words.timestamp import TICKS_PER_SECOND, Timestamp

QUEUE_ACCOUNT = ".misplaced_objects"
SECONDS_PER_CONTAINER = 3600
PUT_TYPE = "application/x-put"
DELETE_TYPE = "application/x-delete"

_REMOVED, _DONE, _MOVED = 1, 2, 3


class Failed(Exception):
    """A request had an unexpected result; the entry stays in the queue."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the queue: ``written_at`` is of the misplaced row, ``queued_at`` of the entry."""

    name: str
    policy_index: int
    account: str
    container: str
    obj: str
    is_deletion: bool
    written_at: Timestamp
    queued_at: Timestamp

    def removed_at(self, source: Timestamp) -> Timestamp:
        """The timestamp for deleting the misplaced copy, which has the time ``source``."""
        return later(max(source, self.written_at), _REMOVED)

    @property
    def deleted_at(self) -> Timestamp:
        """The timestamp for deleting the object in the right policy, for a misplaced deletion."""
        return later(self.written_at, _MOVED)

    def moved_at(self, source: Timestamp) -> Timestamp:
        """The timestamp for writing the object, of the time ``source``, in the right policy."""
        return later(max(source, self.written_at), _MOVED)

    @property
    def done_at(self) -> Timestamp:
        """The timestamp for removing the entry from the queue."""
        return later(max(self.written_at, self.queued_at), _DONE)


class Step(Enum):
    """The next step for an entry."""

    COPY = "copy the object to the right policy"
    DELETE = "delete the object in the right policy"
    REMOVE = "remove the misplaced copy"
    GIVE_UP = "the misplaced object is not found and its entry is dropped"
    WAIT = "the misplaced object is not found at present"


def next_step(
    entry: Entry, source_status: int, source: Timestamp, now: Timestamp, reclaim_age: float
) -> Step:
    """Choose the step for an object that is older or missing in the right policy.

    :param source_status: of a GET in the wrong policy; ``source`` is the time in that answer.
    :param reclaim_age: seconds after which tombstones are removed.
    """
    if source_status // 100 == 2 and source >= entry.written_at:
        return Step.COPY
    if source_status == 404 and entry.is_deletion:
        return Step.DELETE
    age_seconds = float(now) - float(entry.written_at)
    return Step.GIVE_UP if age_seconds > reclaim_age else Step.WAIT


def later(time: Timestamp, offset: int) -> Timestamp:
    """The same time with a greater offset."""
    return Timestamp(time, offset=offset)


def queue_container(time: Timestamp) -> str:
    """The container of the queue for an object of that time."""
    seconds = time.ticks // TICKS_PER_SECOND
    return str(seconds // SECONDS_PER_CONTAINER * SECONDS_PER_CONTAINER)


def queue_row(
    account: str, container: str, record: Record, queued_at: Timestamp | None = None
) -> tuple[str, dict[str, Any]]:
    """The container of the queue, and the row for it in the format of an ``UPDATE``.

    :param queued_at: the time of the entry; by default that of the row. An entry of that time which
        was removed from the queue does not come back.
    """
    return queue_container(decode_times(record.created_at).data), {
        "name": f"{record.storage_policy_index}:/{account}/{container}/{record.name}",
        "created_at": record.created_at if queued_at is None else queued_at.internal,
        "size": 0,
        "content_type": DELETE_TYPE if record.deleted else PUT_TYPE,
        "etag": record.created_at,
        "storage_policy_index": 0,
    }


def parse_entry(row: Mapping[str, Any]) -> Entry:
    """Parse a row of the JSON listing of a container of the queue.

    :raises ValueError: it is not an entry.
    """
    name = row["name"]
    policy, colon, path = name.partition(":")
    if not (colon and policy.isascii() and policy.isdigit()):
        raise ValueError(f"{name!r} names no policy")
    account, container, obj = split_path(path, 3, 3, True)
    if row["content_type"] not in (PUT_TYPE, DELETE_TYPE):
        raise ValueError(f"{name!r} has the type {row['content_type']!r}")
    moment = datetime.fromisoformat(row["last_modified"]).replace(tzinfo=UTC)
    ticks = int(moment.timestamp()) * TICKS_PER_SECOND + moment.microsecond // 10
    return Entry(
        name,
        int(policy),
        str(account),
        str(container),
        str(obj),
        row["content_type"] == DELETE_TYPE,
        decode_times(row["hash"]).data,
        Timestamp.from_ticks(ticks),
    )
