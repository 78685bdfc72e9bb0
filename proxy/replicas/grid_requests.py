# SPDX-License-Identifier: Apache-2.0
"""One request to one or several devices over the grid."""

from __future__ import annotations

import math
from collections.abc import Collection

from martlet.grid.client import Call, FanOut
from martlet.grid.errors import Code, RequestError, may_have_run
from martlet.http.backend_client import BackendError, BadResponse, ConnectionLost
from martlet.http.traced import OpenSpan
from proxy.replicas.backends import BackendRequest
from proxy.replicas.engine import Attempt
from proxy.replicas.grid_messages import NAMES, RequestPacker, is_server_error, unpack_answer
from proxy.replicas.grid_servers import Grid
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders
from ring.ring import Node

_BUSY = Answer(529)


class Sent(Attempt):
    """An attempt over the grid. At its end it has an answer or an error, or HTTP has to carry it.

    The answer may still be a server error.
    """

    __slots__ = ("error", "is_for_http", "is_resent", "is_second", "span")

    def __init__(self, index: int, headers: WireHeaders, node: Node) -> None:
        super().__init__(index, headers, node)
        self.error: BackendError | None = None
        self.is_for_http = False
        self.is_second = False
        self.is_resent = False
        self.span: OpenSpan | None = None


class GridRequests:
    """One request to several devices.

    A request whose connection is lost is sent once more, over a new one.
    """

    def __init__(self, grid: Grid, request: BackendRequest) -> None:
        self.name = NAMES.get((request.server_type, request.method), "")
        self._grid = grid
        self._request = request
        self._sent: dict[Call, Sent] = {}
        self._fan_out = FanOut(grid.client, request.timeout, is_server_error)
        self._packer: RequestPacker | None = None

    @property
    def pending(self) -> Collection[Sent]:
        """The requests that have not ended."""
        return self._sent.values()

    @property
    def heard_at(self) -> float:
        """When the last answer came, as a time.monotonic()."""
        return self._fan_out.heard_at

    def send(self, sent: Sent) -> None:
        """Send the request to one device; an error is known later."""
        packer = self._packer
        if packer is None:
            request = self._request
            self._packer = packer = RequestPacker(request.partition, request.path, request.body)
        node = sent.node
        sent.span = self._request.begin_span(node, "grid")
        payload = packer.pack(node["device"], sent.headers.below(sent.span))
        address = node["ip"], node["port"]
        self._sent[self._fan_out.send(address, self.name, payload, sent.is_resent)] = sent

    def wait(self, until: float = math.inf) -> list[Sent]:
        """Wait for the end of all, of one that fails, or for ``until``; returns those that ended.

        One that is sent again may end the wait, too.
        """
        ended = []
        for call in self._fan_out.wait(len(self._sent), until):
            sent = self._sent.pop(call)
            if sent.span is not None and call.error is not None:
                sent.span.fail(call.error.reason)
            if call.error is None:
                self._take(sent, call.answer)
            elif self._goes_again(sent, call.error):
                self.send(sent)
                continue
            elif isinstance(call.error, RequestError) and call.error.code == Code.BUSY:
                if call.error.was_sent:
                    sent.answer = _BUSY
                else:  # the limit of the connection
                    sent.is_for_http = True
            else:
                sent.is_for_http = self._grid.note(call.address, self.name, call.error)
                sent.is_resent |= may_have_run(call.error)
                sent.error = None if sent.is_for_http else call.error
            ended.append(sent)
        return ended

    def give_up(self) -> list[Sent]:
        """End the requests that are pending; returns them."""
        given_up = list(self._sent.values())
        self._sent.clear()
        self._fan_out.cancel()
        for sent in given_up:
            if sent.span is not None:
                sent.span.fail("given up")
        return given_up

    def _goes_again(self, sent: Sent, error: BackendError) -> bool:
        """Whether to send once more what was lost with its connection, or came after its GOAWAY."""
        is_lost = isinstance(error, ConnectionLost)
        is_late = isinstance(error, RequestError) and error.code == Code.GOING_AWAY
        if sent.is_second or not (is_lost or is_late):
            return False
        sent.is_second = True
        sent.is_resent = is_lost
        return True

    def _take(self, sent: Sent, payload: bytes) -> None:
        try:
            answer, is_left_out = unpack_answer(payload, sent.is_resent)
        except ValueError as error:
            address = sent.node["ip"], sent.node["port"]
            sent.error = BadResponse(address, str(error))
            if sent.span is not None:
                sent.span.fail(sent.error.reason)
            return
        if sent.span is not None:
            sent.span.end(answer.status)
        is_read = self._request.method == "GET" and answer.status < 300
        if is_left_out and is_read:
            sent.is_for_http = True
        else:
            sent.answer = answer


def ask_one(grid: Grid, request: BackendRequest, node: Node, headers: WireHeaders) -> Sent | None:
    """Send a request to one device, and wait for its end; None if HTTP has to carry it."""
    requests = GridRequests(grid, request)
    if not grid.serves(node, requests.name):
        return None
    sent = Sent(0, headers, node)
    requests.send(sent)
    try:
        while not requests.wait():
            pass  # it was sent again
    except BaseException:  # the thread was told to stop
        requests.give_up()
        raise
    return None if sent.is_for_http else sent
