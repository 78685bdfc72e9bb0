# SPDX-License-Identifier: Apache-2.0
"""The queue of misplaced objects: rows of objects that lie in another policy than their container.

The queue is an account of its own, with names that OpenStack Swift's reconciler reads too. It has a
container for each hour of the objects' timestamps; an object's row there says in its name where the
object lies, in its etag when it was written, and in its type whether it was put or deleted.

Moving an object keeps its time and adds to the offset, so that each step outranks what it replaces
and nothing that a client writes later. The offsets are Swift's: +1 removes the misplaced copy, +2
the row in the queue, +3 writes or deletes where the object belongs.
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


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the queue. ``written_at`` is of the misplaced row, ``queued_at`` of the entry."""

    name: str
    policy_index: int
    account: str
    container: str
    obj: str
    is_deletion: bool
    written_at: Timestamp
    queued_at: Timestamp

    def removed_at(self, source: Timestamp) -> Timestamp:
        """When the misplaced copy, of the time ``source``, is deleted."""
        return later(max(source, self.written_at), _REMOVED)

    @property
    def deleted_at(self) -> Timestamp:
        """When the object is deleted where it belongs, if that is what was misplaced."""
        return later(self.written_at, _MOVED)

    def moved_at(self, source: Timestamp) -> Timestamp:
        """When the object, of the time ``source``, is written where it belongs."""
        return later(max(source, self.written_at), _MOVED)

    @property
    def done_at(self) -> Timestamp:
        """When the entry is removed from the queue."""
        return later(max(self.written_at, self.queued_at), _DONE)


class Step(Enum):
    """What is to be done next for an entry."""

    COPY = "copy it to where it belongs"
    DELETE = "delete it where it belongs"
    REMOVE = "remove the misplaced copy"
    GIVE_UP = "what is queued is nowhere to be found any more"
    WAIT = "what is queued is not to be found now"


def next_step(
    entry: Entry, source_status: int, source: Timestamp, now: Timestamp, reclaim_age: float
) -> Step:
    """What to do about an object that is older or missing where it belongs.

    :param source_status: of a GET where it is misplaced; ``source`` is the time in that answer.
    :param reclaim_age: seconds after which tombstones are forgotten.
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


def queue_row(account: str, container: str, record: Record) -> tuple[str, dict[str, Any]]:
    """The container of the queue and the row in it, as an ``UPDATE`` carries it."""
    return queue_container(decode_times(record.created_at).data), {
        "name": f"{record.storage_policy_index}:/{account}/{container}/{record.name}",
        "created_at": record.created_at,
        "size": 0,
        "content_type": DELETE_TYPE if record.deleted else PUT_TYPE,
        "etag": record.created_at,
        "storage_policy_index": 0,
    }


def parse_entry(row: Mapping[str, Any]) -> Entry:
    """An entry of a JSON listing of a container of the queue.

    :raises ValueError: it is no entry.
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
