# SPDX-License-Identifier: Apache-2.0
"""The method REPLICATE of the account and container server (doc/formats/replicate.md).

The operations of OpenStack Swift's replicators are understood, except that files come in requests,
not by rsync.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.service.disk_calls import on_disk
from storage.database import Database
from storage.database_copy import BadCopy
from storage.database_files import database_path, device_path_of
from storage.database_pool import DatabasePool
from storage.errors import DatabaseExists
from storage.json_body import json_list
from storage.long_work import TooMuchWork, long_work
from storage.replica import (
    NO_ROW,
    BadState,
    answer_of,
    checked_point,
    parse_sync_arguments,
)
from storage.replicated_database import ReplicatedDatabase

#: The media type of a whole database in a request or an answer.
SQLITE = "application/vnd.sqlite3"
#: The largest body of a request that is not a whole database.
BODY_BYTES_MAX = 32 * 1024**2
#: Most databases that one request may ask for.
ASKED_MAX = 10_000

_PIECE_BYTES = 1 << 20
_HASH = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch


class Host(Protocol):
    """The server around the requests."""

    kind: str

    def split(self, req: Request, minsegs: int, maxsegs: int, rest: bool = False) -> list[str]:
        """Split the path."""

    def device_path(self, device: str, for_writing: bool = False) -> str:
        """The directory of a device that can be used."""

    def copy_of(self, database: Database) -> Response:
        """Answer with a copy of a database."""


@dataclass(frozen=True)
class Hooks:
    """The differences between accounts and containers."""

    #: Checks a row of a peer; raises ValueError.
    parse_item: Callable[[Any], Any]
    #: Whether a database of these names belongs to a hash.
    is_of_hash: Callable[[Mapping[str, str], str], bool]
    #: Called with the path of a database that has got news, and whether rows may be misplaced.
    has_changed: Callable[[str, bool], None]


class ReplicateRequests:
    """The handler of REPLICATE."""

    def __init__(self, host: Host, pool: DatabasePool[Any], hooks: Hooks) -> None:
        self._host = host
        self._pool = pool
        self._hooks = hooks
        self._operations: dict[str, Callable[[ReplicatedDatabase, list[Any]], Response]] = {
            "sync": self._sync,
            "merge_items": self._merge_items,
            "merge_syncs": self._merge_syncs,
            "get_copy": lambda database, _arguments: host.copy_of(database),
            "merge_shard_ranges": self._merge_shard_ranges,
            "get_shard_ranges": lambda database, _arguments: _json_response(database.shard_items()),
        }

    def __call__(self, req: Request) -> Response:
        """Answers 200 or 202; 201 for a whole database; 404 without the database; 400, 409, 413."""
        if "/" not in req.path.strip("/"):
            return self._which_are_missing(req)
        device, partition, name = self._host.split(req, 3, 3)
        if _HASH(name) is None:
            raise http_error(400, "The last part of the path must be a hash")
        device_path = self._host.device_path(device, for_writing=True)
        path = database_path(device_path, self._host.kind, partition, name)
        if req.headers.get("content-type") == SQLITE:
            return self._take_copy(req, path, lambda: self._host.device_path(device, True))
        operation, *arguments = _operation_of(req)
        run = self._operations.get(operation) if isinstance(operation, str) else None
        if run is None:
            raise http_error(400, "No such operation")
        with self._pool.use(path) as database:
            try:
                return run(database, arguments)
            except BadState as error:
                raise http_error(400, f"Bad arguments: {error}") from None

    def _sync(self, database: ReplicatedDatabase, arguments: list[Any]) -> Response:
        peer = parse_sync_arguments(arguments, database.streams)
        state, has_changed = database.merge_state(peer)
        if has_changed:
            self._hooks.has_changed(database.path, True)
        return _json_response(answer_of(state))

    def _merge_items(self, database: ReplicatedDatabase, arguments: list[Any]) -> Response:
        if len(arguments) < 2:
            raise BadState("merge_items has rows and a source")
        items, source = arguments[:2]
        stream, point, before = self._place(database, items, arguments[2:])
        if not (source is None or (isinstance(source, str) and source.isprintable())):
            raise BadState("the source must be an id")
        try:
            rows = [self._hooks.parse_item(item) for item in items]
        except ValueError as error:
            raise BadState(str(error)) from None
        is_misplaced = database.take_rows(stream, rows, source, point, before)
        self._hooks.has_changed(database.path, is_misplaced)
        return _accepted()

    @staticmethod
    def _place(database: ReplicatedDatabase, items: Any, more: list[Any]) -> tuple[str, int, str]:
        """The stream of rows, the point after them, and the time of forgotten tombstones.

        OpenStack Swift sends none of them: its point is that of the last row.
        """
        if not isinstance(items, list):
            raise BadState("the rows must be a list")
        place = more[0] if more else {}
        if not isinstance(place, dict):
            raise BadState("bad place")
        stream = place.get("stream", database.streams[0])
        last = items[-1].get("ROWID", NO_ROW) if items and isinstance(items[-1], dict) else NO_ROW
        point = place.get("point", last)
        before = place.get("before", "")
        if stream not in database.streams or type(before) is not str:
            raise BadState("bad stream or before")
        return stream, checked_point(point), before

    @staticmethod
    def _merge_syncs(database: ReplicatedDatabase, arguments: list[Any]) -> Response:
        points = {}
        if not arguments or not isinstance(arguments[0], list):
            raise BadState("the points must be a list")
        for entry in arguments[0]:
            try:
                name, point = entry["remote_id"], entry["sync_point"]
            except (TypeError, KeyError):
                raise BadState("a point needs remote_id and sync_point") from None
            if not isinstance(name, str) or not name.isprintable():
                raise BadState("bad remote_id")
            points[name] = checked_point(point)
        if points:
            database.merge_points(points)
        return _accepted()

    def _merge_shard_ranges(self, database: ReplicatedDatabase, arguments: list[Any]) -> Response:
        if not arguments or not isinstance(arguments[0], list):
            raise BadState("the shard ranges must be a list")
        try:
            has_changed = database.merge_shard_items(arguments[0])
        except ValueError as error:
            raise BadState(str(error)) from None
        if has_changed:
            self._hooks.has_changed(database.path, False)
        return _accepted()

    def _take_copy(self, req: Request, path: str, assert_room: Callable[[], object]) -> Response:
        """Make the database of the copy in the body; 409 if there is one, 529 if busy."""
        name = os.path.basename(path)[:-3]
        with self._pool.use(path) as database:
            try:
                with long_work(device_path_of(path)):
                    database.adopt_replica(
                        _pieces(req, assert_room),
                        lambda names: self._hooks.is_of_hash(names, name),
                    )
            except TooMuchWork:
                raise http_error(529) from None
            except DatabaseExists:
                raise http_error(409, "The database exists") from None
            except BadCopy as error:
                raise http_error(400, f"Bad copy: {error}") from None
        self._hooks.has_changed(path, True)
        return _empty(201)

    def _which_are_missing(self, req: Request) -> Response:
        """Answer which databases of a list of [partition, hash] do not exist on a device."""
        (device,) = req.split_path(1, 1)
        device_path = self._host.device_path(str(device))
        operation, *arguments = _operation_of(req)
        asked = arguments[0] if operation == "missing" and arguments else None
        if not isinstance(asked, list) or len(asked) > ASKED_MAX:
            raise http_error(400, f"Only missing, with a list of at most {ASKED_MAX}")
        paths = {}
        for entry in asked:
            if not _is_place(entry):
                raise http_error(400, "Not a partition and a hash")
            paths[entry[1]] = database_path(device_path, self._host.kind, str(entry[0]), entry[1])
        return _json_response(on_disk(device_path, _missing, paths))


def _is_place(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 2:
        return False
    partition, name = entry
    is_partition = type(partition) is int and 0 <= partition < 2**32
    return is_partition and isinstance(name, str) and _HASH(name) is not None


def _missing(paths: dict[str, str]) -> list[str]:
    return [name for name, path in paths.items() if not os.path.exists(path)]


def _operation_of(req: Request) -> list[Any]:
    """The operation and its arguments, from a JSON list in the body.

    :raises HTTPException: 400 if the body is no such list, 413 if it is too large.
    """
    found = json_list(req, BODY_BYTES_MAX)
    if not found:
        raise http_error(400, "The body must be a list that begins with an operation")
    return found


def _pieces(req: Request, assert_room: Callable[[], object]) -> Iterator[bytes]:
    """The body piece by piece; each needs space on the device.

    :raises HTTPException: 400 if the body ends too early, 411 without a length, 507 without space.
    """
    left = req.content_length
    if left is None:
        raise http_error(411)
    while left:
        piece = req.body_file.read(min(left, _PIECE_BYTES))
        if not piece:
            raise http_error(400, "The body is shorter than its Content-Length")
        left -= len(piece)
        assert_room()
        yield piece


def _json_response(value: Any) -> Response:
    body = json.dumps(value).encode()
    response = Response(200, {"Content-Type": "application/json"}, body)
    response.headers["Content-Length"] = str(len(body))
    return response


def _accepted() -> Response:
    return _empty(202)


def _empty(status: int) -> Response:
    response = Response(status)
    response.headers["Content-Length"] = "0"
    return response
