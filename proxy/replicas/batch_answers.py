# SPDX-License-Identifier: Apache-2.0
"""The parser of the answers to a batch: a sequence of HTTP responses, each with the number of its
request (doc/formats/wire-object.md).
"""

from __future__ import annotations

from collections.abc import Callable

import httptools

from martlet.http.backend_response import HEADER_BYTES_MAX, header_key
from proxy.replicas.backends import ANSWER_BYTES_MAX
from proxy.replicas.quorum import Answer

_PART = "x-backend-part"


class AnswerParser:
    """Parses a stream of answers in pieces of any size. httptools calls its on_* methods.

    :param take: called with the number of a request and its complete answer. It raises a
        LookupError for an unexpected number.
    """

    def __init__(self, was_resent: bool, take: Callable[[int, Answer], None]) -> None:
        self._was_resent = was_resent
        self._take = take
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._bytes = 0  # of the current answer; a lower bound

    def feed(self, data: bytes) -> None:
        """Parse the next piece.

        :raises ValueError: it is malformed. The answers before it were delivered.
        """
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ValueError(f"not answers to a batch: {error}") from error
        if self._bytes > HEADER_BYTES_MAX + ANSWER_BYTES_MAX:
            raise ValueError("an answer is too long")

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[header_key(name)] = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        self._bytes = 0
        number = self._headers.pop(_PART, "")
        if not (number.isascii() and number.isdigit()):
            raise ValueError("an answer without a number")
        status = self._parser.get_status_code()
        body = b"".join(self._body)
        self._take(int(number), Answer(status, self._headers, body, self._was_resent))
