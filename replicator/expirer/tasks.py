# SPDX-License-Identifier: Apache-2.0
"""The tasks of the queue: what one asks for, to whom it belongs, and what an answer means.

Everything here is pure. A task may be done again, by another process in parallel or after a crash
at any moment. The DELETE has the time of the task as its timestamp, so a later write wins. It names
the X-Delete-At that it expects, so another X-Delete-At wins, too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from martlet.words.expiring import ASYNC_DELETE_TYPE, EXPIRER_CONTAINERS_PER_DIVISOR
from martlet.words.names import split_path
from martlet.words.timestamp import Timestamp
from replicator.expirer.options import Delays

_CLEANS_QUEUE = "X-Backend-Clean-Expiring-Object-Queue"
_SEGMENTS = "+segments"
#: The ids of uploads that the S3 API takes. Clients of Swift's API may give segments other names.
_UPLOAD_ID = re.compile(r"[A-Za-z0-9_.~=-]{1,128}", re.ASCII)
#: How long a task waits for the end of a part's object. A later end of it makes new tasks.
_IN_USE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Task:
    """A row of the queue: the object to delete, and the time from which it may be deleted."""

    name: str  # of the row
    due: Timestamp
    account: str
    container: str
    obj: str
    is_async: bool  # deletes the object whatever its X-Delete-At

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the DELETE."""
        headers = {"X-Timestamp": self.due.normal}
        if not self.is_async:
            headers |= {"X-If-Delete-At": self.due.normal, _CLEANS_QUEUE: "no"}
        return headers


class UploadPart(NamedTuple):
    """A part of an upload of the S3 API.

    :param path: of the part, ``/container/object``.
    :param key: of the object that the upload would become, in ``bucket``.
    """

    account: str
    path: str
    bucket: str
    key: str
    upload_id: str

    @property
    def upload_path(self) -> str:
        """Of the object that began the upload, with the account."""
        return f"/{self.account}{self.path.rpartition('/')[0]}"


def part_of(task: Task) -> UploadPart | None:
    """The part that the object of an asynchronous task is, by its name; None if it is none."""
    key, _, rest = task.obj.rpartition("/")
    key, _, upload_id = key.rpartition("/")
    is_part = key and _UPLOAD_ID.fullmatch(upload_id) and rest.isascii() and rest.isdecimal()
    if not (task.is_async and is_part and task.container.endswith(_SEGMENTS)):
        return None
    path = f"/{task.container}/{task.obj}"
    return UploadPart(task.account, path, task.container.removesuffix(_SEGMENTS), key, upload_id)


class End(Enum):
    """The end of a task in a pass; the value is its name among the figures."""

    DELETED = "deleted"
    GONE = "gone"  # deleted before, or written later
    GIVEN_UP = "given_up"  # not found, or of another time, for longer than reclaim_age
    WAITING = "waiting"  # not found, or of another time: a replica may be behind
    FAILED = "failed"

    @property
    def is_done(self) -> bool:
        """Whether the task leaves the queue."""
        return self in (End.DELETED, End.GONE, End.GIVEN_UP)


def parse_task(row: Mapping[str, Any]) -> Task:
    """Parse a row of the JSON listing of a container of the queue.

    :raises ValueError: it is not a task.
    """
    name = str(row["name"])
    due, dash, path = name.partition("-")
    if not dash:
        raise ValueError(f"{name!r} has no time")
    account, container, obj = split_path("/" + path, 3, 3, True)
    kind = str(row.get("content_type", "")).partition(";")[0].strip()
    is_async = kind == ASYNC_DELETE_TYPE
    return Task(name, Timestamp(due), str(account), str(container), str(obj), is_async)


def is_due(task: Task, now: Timestamp, delays: Delays) -> bool:
    """Whether the object may be deleted; the delays of an operator hold back expired objects."""
    if task.is_async:
        return task.due <= now
    delay = delays.of(task.account, task.container)
    return float(task.due) + delay <= float(now)


def end_of(status: int, task: Task, now: Timestamp, reclaim_age: float) -> End:
    """The end of a task whose DELETE was answered with this status."""
    if status // 100 == 2:
        return End.DELETED
    if status == 409 or (task.is_async and status == 404):
        return End.GONE
    if status in (404, 412) or (task.is_async and status == 403):  # it is locked
        patience = _IN_USE_SECONDS if task.is_async and status == 412 else reclaim_age
        is_old = float(task.due) <= float(now) - patience
        return End.GIVEN_UP if is_old else End.WAITING
    return End.FAILED


def share_of(container: str, name: str, processes: int) -> int:
    """The number of the process, from 0, to which a task belongs; OpenStack Swift's choice."""
    digest = hashlib.md5(f"{container}/{name}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big") % max(1, processes)


def due_containers(names: Iterable[str], now: Timestamp) -> Iterator[str]:
    """Those of the sorted containers of the queue that may have due tasks."""
    for name in names:
        if name.isascii() and name.isdigit() and int(name) <= int(now):
            yield name


def end_marker(now: Timestamp) -> str:
    """The name below which the names of all due tasks and containers are."""
    return f"{int(now) + 1:010d}"


def gets_no_more_tasks(container: str, now: Timestamp, divisor: int) -> bool:
    """Whether all times that belong to a container have passed, so that it may be removed."""
    return int(container) + EXPIRER_CONTAINERS_PER_DIVISOR + divisor < float(now)


def names_of_manifest(body: bytes) -> set[str]:
    """The segments that a manifest of a large object names, each ``/container/object``.

    :raises ValueError: it is no manifest that can be read.
    """
    entries = json.loads(body)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("the manifest is no list of segments")
    return {str(entry["name"]) for entry in entries if "name" in entry}


def removed_row(name: str, now: Timestamp) -> dict[str, Any]:
    """The row that takes a task out of the queue, in the form of an UPDATE."""
    return {
        "name": name,
        "created_at": now.internal,
        "size": 0,
        "content_type": "application/deleted",
        "etag": "noetag",
        "deleted": 1,
        "storage_policy_index": 0,
    }
