# SPDX-License-Identifier: Apache-2.0
"""Counts of what a server refused, by kind, and seldom a line of the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from martlet.log import fields, get_logger

#: Refusals of the same kind within this time are one line of the log, seconds.
LOG_SECONDS = 10.0

log = get_logger("martlet.grid")


class Refusal(StrEnum):
    """A kind of failed handshake; ``doc/formats/grid.md``, *Kinds of refusal*.

    The same as those of ``object-server/grid``.
    """

    BAD_UPGRADE = "bad_upgrade"
    TOO_MANY = "too_many"
    NO_KEY = "no_key"
    NO_COMMON_KEY = "no_common_key"
    WRONG_PROOF = "wrong_proof"
    MALFORMED = "malformed"
    OUT_OF_ORDER = "out_of_order"
    TOO_SLOW = "too_slow"
    LOST = "lost"
    BY_PEER = "by_peer"


#: The kinds of those that do not have the secret. The others are of ill connections and programs.
WITHOUT_SECRET = (Refusal.NO_KEY, Refusal.NO_COMMON_KEY, Refusal.WRONG_PROOF, Refusal.BY_PEER)


class Refusals:
    """The refusals of one process since its start.

    :param event: of the lines in the log.
    """

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, remote_addr: str, sentence: str) -> None:
        """Count a refusal, and log it unless the log has one of its kind already."""
        self.counts[kind] += 1
        now = self._clock()
        logged_at, left_out = self._logged.get(kind, (now - LOG_SECONDS, 0))
        if now - logged_at < LOG_SECONDS:
            self._logged[kind] = (logged_at, left_out + 1)
            return
        self._logged[kind] = (now, 0)
        line = fields(kind=kind, remote_addr=remote_addr, reason=sentence, not_logged=left_out)
        log.warning("event=%s %s", self._event, line)
