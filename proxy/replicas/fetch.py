# SPDX-License-Identifier: Apache-2.0
"""GET and HEAD at the storage servers: one replica after the other until one has the resource."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from martlet.http.backend_client import BackendError, BackendResponse
from martlet.log import fields
from martlet.words.timestamp import Timestamp
from proxy.replicas.backends import ANSWER_BYTES_MAX, DOUBT, DOUBT_STALE, BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.grid_requests import ask_one
from proxy.replicas.nodes import NodeQueue, node_name
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders
from ring.ring import Node

_TIMESTAMP_HEADERS = (
    "x-backend-data-timestamp",
    "x-backend-timestamp",
    "x-put-timestamp",
    "x-timestamp",
)
_NEVER = Timestamp(0)
_OUTDATED = Answer(404)  # in place of a copy of another version


class WholeResponse:
    """An answer whose body has come; it is used as a `BackendResponse` is."""

    __slots__ = ("_body", "headers", "status")

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        # The answer to a HEAD says it itself.
        self.headers = {"content-length": str(len(answer.body)), **answer.headers}
        self._body = answer.body

    def iter_chunks(self) -> Iterator[bytes]:
        """The body in one piece."""
        if self._body:
            yield self._body

    def body(self, limit_bytes: int | None = None) -> bytes:
        """The whole body."""
        return self._body

    def close(self) -> None:
        """Nothing is left to be read."""


#: Status, headers and body of an answer.
Found = BackendResponse | WholeResponse


class Source(NamedTuple):
    """A device that has the resource, and its answer; the body is not read yet."""

    node: Node
    response: Found


class Search:
    """Asks the devices of a partition in order. Each call continues where the last one stopped.

    ``answers`` are those of the devices that did not have the resource.
    """

    def __init__(self, core: Core, request: BackendRequest, nodes: NodeQueue) -> None:
        self.core = core
        self.request = request
        self.answers: list[Answer] = []
        self._nodes = nodes
        self._is_object = request.server_type == "Object"
        self._deleted_at: Timestamp | None = None
        self._set_aside: list[Node] = []  # devices whose copies were not the best
        self._verdict: Answer | None = None
        self._suppressed_left = min(
            core.options.rebalance_missing_suppression_count, nodes.primary_count - 1
        )

    def find(self, headers: WireHeaders, etag: str | None = None) -> Source | None:
        """The next device that has the resource; with ``etag``, only this version."""
        for node in self._nodes if etag is None else self._all_left():
            response = self._ask(node, headers)
            if response is None:
                continue
            if not self._is_found(response.status):
                self._note_failure(node, response)
            elif self._is_wanted(response, etag):
                return Source(node, response)
            else:
                self.answers.append(_OUTDATED)
                response.close()
        return None

    def find_whole(self, headers: WireHeaders) -> Answer | None:
        """The whole answer of the next device that has it; for bodies that cannot be resumed."""
        while (source := self.find(headers)) is not None:
            response = source.response
            try:
                return Answer(response.status, response.headers, response.body())
            except BackendError as error:
                self.core.backends.failed(source.node, self.request, error)
        return None

    def find_best(self, headers: WireHeaders, *, newest: bool) -> Source | None:
        """The first device that has it; with ``newest``, the device with the newest copy of all.

        A server may mark its own answer as doubtful. Then the search continues until an answer
        without doubt is as new. If there is none, the newest of all counts, doubtful or not.
        """
        best: Source | None = None
        while (found := self.find(headers)) is not None:
            if best is None or _weight(found.response) > _weight(best.response):
                found, best = best, found
            if found is not None:
                self._put_aside(found)
            if not newest and best is not None and self._is_sure(best.response):
                break
        if newest and len(self.answers) > 1:  # of equal ones the first counts
            self.answers.sort(key=_weight, reverse=True)
        best = self._settled(best)
        if best is not None and _is_stale(best.response):
            self._log_doubt(best.node)
        return best

    def failure(self) -> Answer:
        """The answer for the client after a search that found nothing."""
        return self._verdict or self.core.best(self.request, self.answers, 0)

    def _all_left(self) -> Iterator[Node]:
        """The devices that may continue an interrupted copy, first those known to have one."""
        while self._set_aside:
            yield self._set_aside.pop(0)
        yield from self._nodes

    def _put_aside(self, source: Source) -> None:
        source.response.close()
        self._set_aside.append(source.node)

    def _is_sure(self, best: Found) -> bool:
        """Whether this answer is not doubtful, and no doubtful refusal is newer than it."""
        if not self.answers:
            return not _is_stale(best)  # nearly always
        return not _is_stale(best) and not any(
            _is_stale(answer) and _weight(answer) > _weight(best) for answer in self.answers
        )

    def _settled(self, best: Source | None) -> Source | None:
        """``best``, or None if a newer tombstone or a newer refusal (412) overrides it.

        Answers that are older than the tombstone become 404s. A refusal overrides ``best`` only
        if one of the two is doubtful. It becomes the verdict then.
        """
        deleted_at = self._deleted_at
        if deleted_at is not None:
            self.answers = [
                _OUTDATED if _is_stale(answer) and _time_of(answer) < deleted_at else answer
                for answer in self.answers
            ]
            if best is not None and _time_of(best.response) < deleted_at:
                self._put_aside(best)
                self.answers.append(_OUTDATED)
                best = None
        if not self.answers:
            return best  # nearly always
        refusals = [answer for answer in self.answers if answer.status == 412]
        if not refusals:
            return best
        refusal = max(refusals, key=_weight)
        is_doubted = _is_stale(refusal) or (best is not None and _is_stale(best.response))
        if is_doubted and (best is None or _weight(refusal) > _weight(best.response)):
            if best is not None:
                self._put_aside(best)
            self._verdict = refusal
            return None
        return best

    def _log_doubt(self, node: Node) -> None:
        self.core.logger.info(
            "event=doubtful_copy_served %s",
            fields(
                device=node_name(node),
                method=self.request.method,
                path=self.request.path,
                trans_id=self.request.trans_id,
            ),
        )

    def _ask(self, node: Node, headers: WireHeaders) -> Found | None:
        backends = self.core.backends
        sent = ask_one(backends.grid, self.request, node, headers)
        if sent is None:
            return self._ask_by_http(node, headers)
        if sent.answer is not None:
            return WholeResponse(sent.answer)
        if sent.error is not None:
            backends.failed(node, self.request, sent.error)
        return None

    def _ask_by_http(self, node: Node, headers: WireHeaders) -> BackendResponse | None:
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

    def _is_wanted(self, response: Found, etag: str | None) -> bool:
        headers = response.headers
        if etag is not None and headers.get("etag", "").strip('"') != etag:
            return False
        put_at = headers.get("x-put-timestamp")
        if put_at is not None and not _parse(put_at):
            return False  # a database that replication created and that got no PUT
        return self._deleted_at is None or _time_of(response) >= self._deleted_at

    def _note_failure(self, node: Node, response: Found) -> None:
        is_usable = self.core.backends.is_usable(node, self.request, response)
        is_missing = response.status == 404
        deleted_at = _parse(response.headers.get("x-backend-timestamp", "0"))
        is_dated = bool(deleted_at)
        if (is_missing or not is_usable) and not is_dated:
            if "handoff_index" in node:
                response.close()  # it never had the resource, so its answer does not count
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
            body = b""  # the status is known, which is enough
        self.answers.append(Answer(response.status, response.headers, body))


def _is_stale(answer: Answer | Found) -> bool:
    return answer.headers.get(DOUBT) == DOUBT_STALE


def _weight(answer: Answer | Found) -> tuple[Timestamp, Timestamp, bool]:
    """The sort key of answers: first the time of the data, then of the last POST, then doubt.

    The best answer has the greatest key.
    """
    changed = _parse(answer.headers.get("x-backend-timestamp", "0"))
    return _time_of(answer), changed, not _is_stale(answer)


def _time_of(answer: Answer | Found) -> Timestamp:
    for name in _TIMESTAMP_HEADERS:
        if value := answer.headers.get(name):
            return _parse(value)
    return _NEVER


def _parse(text: str) -> Timestamp:
    try:
        return Timestamp(text)
    except ValueError:
        return _NEVER  # a malformed time counts as none
