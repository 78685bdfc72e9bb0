# SPDX-License-Identifier: Apache-2.0
"""The answer of a replica of an account, or of a shard's parent, to a report of totals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from martlet.http.backend_client import BackendError, BackendExchange
from martlet.words.timestamp import Timestamp

#: When totals were read: those of a request, or the later ones that its receiver keeps.
REPORTED_AT = "X-Backend-Reported-At"


class Answer(NamedTuple):
    """The answer of one replica."""

    status: int  # 503: none came
    #: The replica keeps other totals than it was sent: they were read later, at this time.
    later: Timestamp | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the replica now has the totals that it was sent."""
        return 200 <= self.status < 300 and self.later is None


NO_ANSWER = Answer(503)


def read_answer(exchange: BackendExchange | None, on_error: Callable[[object], None]) -> Answer:
    """Wait for the answer; a failure is told to ``on_error``, and is no answer."""
    if exchange is None:
        return NO_ANSWER
    try:
        response = exchange.response()
    except BackendError as error:
        exchange.abort()
        on_error(error)
        return NO_ANSWER
    response.close()
    return Answer(response.status, _time_or_none(response.headers.get(REPORTED_AT.lower())))


def latest(answers: Iterable[Answer]) -> Timestamp | None:
    """The latest time of totals that a replica keeps instead of those that it was sent."""
    return max((answer.later for answer in answers if answer.later), default=None)


def _time_or_none(text: str | None) -> Timestamp | None:
    try:
        return Timestamp(text) if text else None
    except ValueError:
        return None
