# SPDX-License-Identifier: Apache-2.0
"""The answers of other replicas of a database, and the conclusion from them. No I/O.

A replica may have lost its disk, or was down when the account or container was created. It cannot
know whether a missing database exists elsewhere. The others together can:

- A quorum of the replicas acknowledges a deletion, so one silent primary may be the only one that
  knows of it. There is no conclusion before each primary has answered.
- The newest timestamp of all decides: after a PUT the database exists, after a DELETE it does not.
  The replica with this timestamp is copied, including a deletion. So a replica that missed the
  deletion never restores deleted data.
- A hand-off gets PUTs, but no rows. So a primary is preferred, unless it missed a deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from enum import Enum

from martlet.words.timestamp import Timestamp
from ring.ring import Node

_NEVER = Timestamp(0)
#: The most digits of a count of rows in SQLite.
_DIGITS_MAX = 19


class Verdict(Enum):
    """The state of a database that is missing here."""

    COPIED = "copied"  # it has been copied from a replica
    ABSENT = "absent"  # no replica has it or had it
    UNKNOWN = "unknown"  # not every primary answered
    LATER = "later"  # a copy is running, has to wait for others, or has failed


@dataclass(frozen=True, slots=True)
class PeerState:
    """One replica of a database, existing or marked deleted."""

    node: Node
    put_timestamp: Timestamp
    delete_timestamp: Timestamp
    row_count: int

    @property
    def changed_at(self) -> Timestamp:
        """The newer of the two timestamps."""
        return max(self.put_timestamp, self.delete_timestamp)


def state_of(node: Node, status: int, headers: Mapping[str, str], kind: str) -> PeerState | None:
    """The state in an answer to a HEAD; None for a replica without the database.

    :param kind: ``account`` or ``container``.
    """
    put = _time(headers, "x-backend-put-timestamp")
    delete = _time(headers, "x-backend-delete-timestamp")
    if status == 404 and not put and not delete:
        return None
    counted = "container" if kind == "account" else "object"
    count = headers.get(f"x-{kind}-{counted}-count", "0")
    is_number = count.isascii() and count.isdigit() and len(count) <= _DIGITS_MAX
    return PeerState(node, put, delete, int(count) if is_number else 0)


def source_of(states: Collection[PeerState], primaries: Container[Node]) -> PeerState | None:
    """The replica to copy: the one with the newest timestamp, then with the most rows.

    If the database exists, primaries that missed no deletion are preferred: only they get rows.
    """
    newest = max(states, key=_newest_then_largest, default=None)
    if newest is None or newest.delete_timestamp >= newest.put_timestamp:
        return newest
    last_deletion = max(state.delete_timestamp for state in states)
    alive = [s for s in states if s.node in primaries and s.put_timestamp > last_deletion]
    return max(alive, key=_newest_then_largest, default=newest)


def _newest_then_largest(state: PeerState) -> tuple[Timestamp, int]:
    return state.changed_at, state.row_count


def _time(headers: Mapping[str, str], name: str) -> Timestamp:
    try:
        return Timestamp(headers.get(name, "0"))
    except ValueError:
        return _NEVER  # an invalid timestamp counts as a missing one
