# SPDX-License-Identifier: Apache-2.0
"""GET and HEAD at the storage servers: one replica after the other until one has what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from martlet.backend_client import BackendError, BackendResponse
from martlet.timestamp import Timestamp
from proxy.backends import BackendRequest
from proxy.core import Core
from proxy.fanout import ANSWER_BYTES_MAX
from proxy.nodes import NodeQueue
from proxy.quorum import Answer
from ring.ring import Node

_TIMESTAMP_HEADERS = (
    "x-backend-data-timestamp",
    "x-backend-timestamp",
    "x-put-timestamp",
    "x-timestamp",
)
_NEVER = Timestamp(0)


@dataclass(frozen=True, slots=True)
class Source:
    """A device that has what was asked for, and its answer, the body still to be read."""

    node: Node
    response: BackendResponse


class Search:
    """Goes through the devices of a partition; continues where it stopped when asked again.

    ``answers`` are those of the devices that did not have it.
    """

    def __init__(self, core: Core, request: BackendRequest, nodes: NodeQueue) -> None:
        self.core = core
        self.request = request
        self.answers: list[Answer] = []
        self._nodes = nodes
        self._is_object = request.server_type == "Object"
        self._deleted_at: Timestamp | None = None
        self._suppressed_left = min(
            core.options.rebalance_missing_suppression_count, nodes.primary_count - 1
        )

    def find(self, headers: bytes, etag: str | None = None) -> Source | None:
        """The next device that has it; with ``etag``, in this version."""
        for node in self._nodes:
            response = self._ask(node, headers)
            if response is None:
                continue
            if not self._is_found(response.status):
                self._note_failure(node, response)
            elif self._is_wanted(response, etag):
                return Source(node, response)
            else:
                self.answers.append(Answer(404))
                response.close()
        return None

    def find_whole(self, headers: bytes) -> Answer | None:
        """The whole answer of the next device that has it; for what cannot be resumed."""
        while (source := self.find(headers)) is not None:
            response = source.response
            try:
                return Answer(response.status, response.headers, response.body())
            except BackendError as error:
                self.core.backends.failed(source.node, self.request, error)
        return None

    def find_newest(self, headers: bytes) -> Source | None:
        """The device whose copy is the newest of all."""
        newest: Source | None = None
        newest_time = _NEVER
        while (source := self.find(headers)) is not None:
            found_time = _timestamp_of(source.response.headers)
            if newest is not None and found_time <= newest_time:
                source.response.close()
                continue
            if newest is not None:
                newest.response.close()
            newest, newest_time = source, found_time
        if newest is not None and self._deleted_at is not None and newest_time < self._deleted_at:
            newest.response.close()  # a tombstone found after it says that it is gone
            return None
        return newest

    def failure(self) -> Answer:
        """What to tell the client when nothing was found."""
        return self.core.best(self.request, self.answers, 0)

    def _ask(self, node: Node, headers: bytes) -> BackendResponse | None:
        exchange = self.core.backends.start(node, self.request, headers)
        if exchange is None:
            return None
        try:
            return exchange.response()
        except BackendError as error:
            exchange.abort()
            self.core.backends.failed(node, self.request, error)
            return None

    def _is_found(self, status: int) -> bool:
        return 200 <= status < 400 or (status == 416 and self._is_object)

    def _is_wanted(self, response: BackendResponse, etag: str | None) -> bool:
        headers = response.headers
        if etag is not None and headers.get("etag", "").strip('"') != etag:
            return False
        put_at = headers.get("x-put-timestamp")
        if put_at is not None and not _parse(put_at):
            return False  # a database that was made by replication and never PUT
        return self._deleted_at is None or _timestamp_of(headers) >= self._deleted_at

    def _note_failure(self, node: Node, response: BackendResponse) -> None:
        is_usable = self.core.backends.is_usable(node, self.request, response)
        is_missing = response.status == 404
        deleted_at = _parse(response.headers.get("x-backend-timestamp", "0"))
        is_dated = bool(deleted_at)
        if (is_missing or not is_usable) and not is_dated:
            if "handoff_index" in node:
                response.close()  # it was never meant to have it, and says nothing
                return
            if is_missing and self._suppressed_left > 0:
                self._suppressed_left -= 1
                response.close()
                return
        if is_missing and is_dated and self._is_object:
            known = self._deleted_at
            self._deleted_at = deleted_at if known is None else max(known, deleted_at)
        try:
            body = response.body(ANSWER_BYTES_MAX)
        except BackendError:
            body = b""  # the status is known, and that is what counts
        self.answers.append(Answer(response.status, response.headers, body))


def _timestamp_of(headers: Mapping[str, str]) -> Timestamp:
    for name in _TIMESTAMP_HEADERS:
        if value := headers.get(name):
            return _parse(value)
    return _NEVER


def _parse(text: str) -> Timestamp:
    try:
        return Timestamp(text)
    except ValueError:
        return _NEVER  # a server that sends nonsense is believed no more than one that is silent
