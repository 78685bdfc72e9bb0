# SPDX-License-Identifier: Apache-2.0
"""One exchange: a database of this host tells a peer what it has, and sends what the peer lacks.

Both sides merge the facts about the account or container. Rows go in one direction, because the
replicator of the peer sends the peer's own. Everything may be cut off anywhere and repeated: the
peer stores rows and the point after them in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

from martlet.service.disk_calls import on_disk, on_disk_later
from replicator.peer import Peer, PeerError
from storage.database_copy import remove_scratch_file
from storage.database_files import device_path_of
from storage.replica import NO_ROW, ReplicaState
from storage.replicated_database import ReplicatedDatabase

_PIECE_BYTES = 1 << 20


class Kind(Enum):
    """The work that an exchange has done."""

    SAME = "same"  # the peer has all rows already
    SENT = "sent"  # the peer has got the rows that it lacked
    PARTLY = "partly"  # the peer has got some of the rows that it lacked
    COPIED = "copied"  # the peer has got the whole database
    ABSENT = "absent"  # the peer has no database and needs none


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one exchange."""

    rows_at_once: int
    requests_max: int
    #: Tombstones from before this timestamp are forgotten when all replicas have them.
    horizon: str


class Result(NamedTuple):
    """The result of an exchange."""

    kind: Kind
    #: The state that was sent to the peer.
    sent: ReplicaState
    #: Stream -> the peer has all rows of this replica up to here.
    points: Mapping[str, int]
    #: The facts of the peer; None if it has no database.
    state: ReplicaState | None
    rows: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the peer has everything that this replica had at the start."""
        return self.kind is not Kind.PARTLY


def rows_to_send(own: ReplicaState, peer: ReplicaState) -> dict[str, int]:
    """Stream -> the row after which all rows must be sent; empty if the peer has them. Pure."""
    first, *others = own.max_rows
    # The hash is of the first stream: it does not show removed versions.
    streams = [] if own.has_same_rows(peer) else [first]
    if peer.is_ours:
        streams += others
    starts = {stream: peer.points.get(stream, NO_ROW) for stream in streams}
    return {stream: at for stream, at in starts.items() if at < own.max_rows[stream]}


def have_drifted(own: ReplicaState, peer: ReplicaState) -> bool:
    """Whether two replicas that claim to have all rows of each other have different ones. Pure.

    This must not happen; if it does, all rows are sent again. Their hashes alone may differ: one of
    them may have forgotten tombstones.

    :param own: read after the peer's state, with the points for the peer.
    """
    if own.totals is None or peer.totals is None or own.totals == peer.totals:
        return False
    if own.shard_row != NO_ROW or peer.shard_row != NO_ROW:
        return False  # each replica gives its rows to shards by itself
    has_peers = all(own.points.get(s, NO_ROW) >= row for s, row in peer.max_rows.items())
    has_own = all(peer.points.get(s, NO_ROW) >= row for s, row in own.max_rows.items())
    return has_peers and has_own


def exchange(
    database: ReplicatedDatabase, peer: Peer, limits: Limits, is_forgettable: bool
) -> Result:
    """Bring a peer up to date with this replica.

    :param is_forgettable: a peer without the database has forgotten it, and does not get it again.
    :raises PeerError: the peer has not done its part.
    :raises DatabaseError: the database cannot be read or written.
    """
    passed_on = database.incoming_points()  # before the state: the peer will have more than these
    own = database.replica_state()
    found = peer.sync(own, database.streams)
    if found is None and is_forgettable:
        return Result(Kind.ABSENT, own, own.max_rows, None)
    if found is None:
        if _send_copy(database, peer):
            return Result(Kind.COPIED, own, own.max_rows, None)
        found = peer.sync(own, database.streams)  # a write has made the database meanwhile
        if found is None:
            raise PeerError(f"the database of {peer.name} comes and goes")
    database.merge_state(found)
    if own.shard_row != NO_ROW or found.shard_row != NO_ROW:
        _exchange_ranges(database, peer)
    starts = rows_to_send(own, found)
    if not starts:
        now = database.replica_state(found.id)
        if not have_drifted(now, found):
            return Result(Kind.SAME, own, own.max_rows, found)
        starts = dict.fromkeys(now.max_rows, NO_ROW)
    return _send_rows(database, peer, (own, found), starts, limits, passed_on)


def _exchange_ranges(database: ReplicatedDatabase, peer: Peer) -> None:
    """Bring both replicas to the same shard ranges.

    :raises PeerError: the peer has not done its part.
    """
    theirs = peer.shard_ranges()
    try:
        database.merge_shard_items(theirs)
    except ValueError as error:
        raise PeerError(f"{peer.name} gave a bad shard range: {error}") from None
    merged = database.shard_items()
    if merged != theirs:
        peer.send_shard_ranges(merged)


def _send_rows(
    database: ReplicatedDatabase,
    peer: Peer,
    states: tuple[ReplicaState, ReplicaState],
    starts: Mapping[str, int],
    limits: Limits,
    passed_on: Mapping[str, int],
) -> Result:
    own, found = states
    requests = rows = 0
    points = {**own.max_rows, **starts}
    for stream, start in starts.items():
        point = start
        while point < own.max_rows[stream]:
            if requests == limits.requests_max:
                return Result(Kind.PARTLY, own, points, found, rows)
            items, end = database.rows_after(stream, point, limits.rows_at_once, found.is_ours)
            # The last rows may have been deleted: without any, the stream ends here.
            point = own.max_rows[stream] if end == point else end
            if items or found.is_ours:
                peer.send_rows(items, own.id, stream, point, limits.horizon)
            points[stream] = point
            requests, rows = requests + 1, rows + len(items)
    if passed_on:
        peer.send_points({n: p for n, p in passed_on.items() if n.partition("/")[0] != found.id})
    return Result(Kind.SENT, own, points, found, rows)


def _send_copy(database: ReplicatedDatabase, peer: Peer) -> bool:
    """Send the whole database; return False if the peer has got one meanwhile."""
    file = database.copy()
    device = device_path_of(database.path)
    try:
        return peer.send_copy(_pieces(device, file), on_disk(device, os.path.getsize, file))
    finally:
        on_disk_later(device, partial(remove_scratch_file, file))


def _pieces(device: str, file: str) -> Iterator[bytes]:
    with open(file, "rb", buffering=0) as handle:
        while piece := on_disk(device, handle.read, _PIECE_BYTES):
            yield piece
