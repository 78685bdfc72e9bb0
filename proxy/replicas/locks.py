# SPDX-License-Identifier: Apache-2.0
"""Locks of versions: headers for the object servers (wire-object.md), and the rule of a container.

A lock keeps a version from being removed. Object servers enforce it. A container in which locks
are allowed has the system metadata ``Object-Lock``: ``on``, or the lock of new versions, e.g.
``GOVERNANCE days 30``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from martlet.http.response import HTTPException, Response
from martlet.words.timestamp import Timestamp
from proxy.replicas.quorum import Answer

LOCK_MODE = "X-Backend-Lock-Mode"
LOCK_UNTIL = "X-Backend-Lock-Until"
LOCK_HOLD = "X-Backend-Lock-Hold"
LOCK_BYPASS = "X-Backend-Lock-Bypass"
#: Of a refusal that is due to a lock.
LOCKED = "X-Backend-Locked"
#: The headers that a request changes a lock with.
LOCK_CHANGES = (LOCK_MODE, LOCK_HOLD)

GOVERNANCE, COMPLIANCE = "GOVERNANCE", "COMPLIANCE"
MODES = (GOVERNANCE, COMPLIANCE)

#: The system metadata of a container, as in ``Info``, and its header.
ENABLED_KEY = "object-lock"
ENABLED_SYSMETA = "X-Container-Sysmeta-Object-Lock"
#: The value of a container in which new versions have no lock.
WITHOUT_RULE = "on"

_DAY_SECONDS = 86400
_UNIT_DAYS = {"days": 1, "years": 365}


class Rule(NamedTuple):
    """The retention of new versions in a container.

    :param unit: ``days`` or ``years``; a year has 365 days.
    """

    mode: str
    unit: str
    length: int

    @property
    def days(self) -> int:
        """The length of the retention."""
        return self.length * _UNIT_DAYS[self.unit]

    def __str__(self) -> str:
        """The system metadata."""
        return f"{self.mode} {self.unit} {self.length}"


def rule_of(text: str) -> Rule | None:
    """The rule in system metadata; None if it has none."""
    mode, _, rest = text.partition(" ")
    unit, _, count = rest.partition(" ")
    if mode not in MODES or unit not in _UNIT_DAYS or not count.isdecimal():
        return None
    return Rule(mode, unit, int(count))


def is_lockable(sysmeta: Mapping[str, str]) -> bool:
    """Whether versions in the container with this system metadata may have locks."""
    return bool(sysmeta.get(ENABLED_KEY))


def retention_headers(mode: str, until: float) -> dict[str, str]:
    """The headers of a retention until a time, in seconds since 1970."""
    return {LOCK_MODE: mode, LOCK_UNTIL: Timestamp(until).normal}


def lock_by_rule(sysmeta: Mapping[str, str], now: float) -> dict[str, str]:
    """The headers of the lock that a new version in the container gets."""
    rule = rule_of(sysmeta.get(ENABLED_KEY) or "")
    if rule is None:
        return {}
    return retention_headers(rule.mode, now + rule.days * _DAY_SECONDS)


def is_locked(headers: Mapping[str, str], now: float, *, bypass: bool) -> bool:
    """Whether the lock in the headers of an answer forbids a removal.

    :param headers: names in lower case.
    :param bypass: governance does not count.
    """
    if headers.get(LOCK_HOLD.lower()) == "on":
        return True
    mode = headers.get(LOCK_MODE.lower())
    counts = mode == COMPLIANCE or (mode == GOVERNANCE and not bypass)
    return counts and float(headers.get(LOCK_UNTIL.lower(), "0")) > now


def is_at_least(headers: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether the lock in the headers of an answer protects as well and as long as another one.

    :param headers: names in lower case.
    :param wanted: the headers of the other one.
    """
    if wanted.get(LOCK_HOLD) == "on" and headers.get(LOCK_HOLD.lower()) != "on":
        return False
    mode = wanted.get(LOCK_MODE)
    if mode is None:
        return True
    if mode not in MODES or headers.get(LOCK_MODE.lower()) not in (mode, COMPLIANCE):
        return False
    return Timestamp(headers.get(LOCK_UNTIL.lower(), "0")) >= Timestamp(wanted[LOCK_UNTIL])


def refuse_locked(answers: Iterable[Answer]) -> None:
    """
    :raises HTTPException: (403) a replica knows that the version is locked. Another one may not.
    """
    if any(answer.headers.get(LOCKED.lower()) for answer in answers):
        raise locked_error()


def locked_error() -> HTTPException:
    """The refusal of a request about a locked version."""
    return HTTPException(
        Response(403, {LOCKED: "true", "Content-Type": "text/plain"}, b"The object is locked.\n")
    )
