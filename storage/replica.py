# SPDX-License-Identifier: Apache-2.0
"""The state of one replica of a database, as replicas exchange it (doc/formats/replicate.md).

The rows of a replica are in one or more *streams*. A stream is a table in which each change gets a
new, greater ROWID. A *point* is a ROWID of another replica: all of its rows up to there are here.
A state says nothing about single rows, so it is small and cheap to compare. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from martlet.words.timestamp import Timestamp
from storage.metadata import Metadata, dump_metadata

#: The point before the first row.
NO_ROW = -1
#: The most characters of the id of a replica: a UUID and the name of a device.
_ID_LENGTH_MAX = 512
_ROW_MAX = 2**63 - 1
_TABLES_MAX = 8


class BadState(ValueError):
    """The message is not the state of a replica."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The state of the account or container itself, without its rows."""

    created_at: str
    put_timestamp: str
    delete_timestamp: str
    status_changed_at: str
    metadata: Metadata
    status: str = ""
    storage_policy_index: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The state of a replica at one moment."""

    id: str
    hash: str
    max_rows: Mapping[str, int]  # stream -> its greatest ROWID so far
    stat: Stat
    #: Sums over all rows; None if the replica is of OpenStack Swift, which does not send them.
    totals: tuple[int, ...] | None
    #: Stream -> up to which row this replica has those of the peer to whom it answers.
    points: Mapping[str, int] = field(default_factory=dict)
    #: Whether a peer's answer had no policy: it has only one, or is an account's.
    has_policy: bool = True
    #: The greatest ROWID of shard ranges so far; NO_ROW: there never was one.
    shard_row: int = NO_ROW

    @property
    def is_ours(self) -> bool:
        """Whether the replica is of martlet, and so has all streams."""
        return self.totals is not None

    def has_same_rows(self, other: ReplicaState) -> bool:
        """Whether the rows of the first stream are the same in both."""
        if self.hash != other.hash:
            return False
        return self.totals is None or other.totals is None or self.totals == other.totals


def sync_arguments(state: ReplicaState) -> list[Any]:
    """The arguments of ``sync``: ten as in OpenStack Swift, and ours."""
    stat = state.stat
    return [
        next(iter(state.max_rows.values())),
        state.hash,
        state.id,
        stat.created_at,
        stat.put_timestamp,
        stat.delete_timestamp,
        dump_metadata(stat.metadata),
        stat.status_changed_at,
        stat.count,
        stat.storage_policy_index,
        {
            "totals": list(state.totals or ()),
            "max_rows": dict(state.max_rows),
            "shard_row": state.shard_row,
        },
    ]


def parse_sync_arguments(arguments: Sequence[Any], streams: Sequence[str]) -> ReplicaState:
    """Parse the arguments of ``sync`` from OpenStack Swift (7 or 10) or martlet (11).

    :param streams: those of this kind of database, the one of OpenStack Swift first.
    :raises BadState: they are not such arguments.
    """
    if len(arguments) < 7:
        raise BadState("sync has at least 7 arguments")
    max_row, hashed, replica_id, created_at, put, delete, metadata = arguments[:7]
    has_policy = len(arguments) >= 10
    changed, count, policy = arguments[7:10] if has_policy else (put, 0, 0)
    extra = arguments[10] if len(arguments) > 10 else None
    max_rows, totals = _streams_of(extra, max_row, streams)
    stat = Stat(
        _time(created_at),
        _time(put),
        _time(delete),
        _time(changed),
        _metadata(metadata),
        storage_policy_index=_whole(policy, 0),
        count=_whole(count, 0),
    )
    shard_row = extra.get("shard_row", NO_ROW) if isinstance(extra, dict) else NO_ROW
    return ReplicaState(
        _id(replica_id),
        _hash(hashed),
        max_rows,
        stat,
        totals,
        has_policy=has_policy,
        shard_row=_whole(shard_row, NO_ROW),
    )


def answer_of(state: ReplicaState) -> dict[str, Any]:
    """The answer to ``sync``: the fields of OpenStack Swift, and ours."""
    stat = state.stat
    first = next(iter(state.max_rows))
    return {
        "id": state.id,
        "hash": state.hash,
        "max_row": state.max_rows[first],
        "point": state.points.get(first, NO_ROW),
        "created_at": stat.created_at,
        "put_timestamp": stat.put_timestamp,
        "delete_timestamp": stat.delete_timestamp,
        "status": stat.status,
        "status_changed_at": stat.status_changed_at,
        "count": stat.count,
        "storage_policy_index": stat.storage_policy_index,
        "metadata": dump_metadata(stat.metadata) if stat.metadata else "",
        "shard_max_row": state.shard_row,
        "totals": list(state.totals or ()),
        "max_rows": dict(state.max_rows),
        "points": dict(state.points),
    }


def parse_answer(answer: Any, streams: Sequence[str]) -> ReplicaState:
    """Parse an answer to ``sync``, of OpenStack Swift or martlet.

    :raises BadState: it is not such an answer.
    """
    try:
        max_rows, totals = _streams_of(answer, answer["max_row"], streams)
        points = answer.get("points", {streams[0]: answer["point"]})
        stat = Stat(
            _time(answer["created_at"]),
            _time(answer["put_timestamp"]),
            _time(answer["delete_timestamp"]),
            _time(answer.get("status_changed_at", "0")),
            _metadata(answer.get("metadata", "")),
            storage_policy_index=_whole(answer.get("storage_policy_index", 0), 0),
            count=_whole(answer.get("count", 0), 0),
        )
        return ReplicaState(
            _id(answer["id"]),
            _hash(answer["hash"]),
            max_rows,
            stat,
            totals,
            _rows_by_stream(points, streams),
            has_policy="storage_policy_index" in answer,
            shard_row=_whole(answer.get("shard_max_row", NO_ROW), NO_ROW),
        )
    except (TypeError, AttributeError, KeyError) as error:
        raise BadState(f"the answer lacks {error}") from None


def _streams_of(
    extra: Any, max_row: Any, streams: Sequence[str]
) -> tuple[dict[str, int], tuple[int, ...] | None]:
    """The greatest row of each stream, and the totals; of Swift only the first stream's row."""
    if not isinstance(extra, dict) or "max_rows" not in extra:
        return {streams[0]: _whole(max_row, NO_ROW)}, None
    totals = extra.get("totals")
    if not isinstance(totals, list) or len(totals) > _TABLES_MAX:
        raise BadState("the totals are no list")
    return _rows_by_stream(extra["max_rows"], streams), tuple(_whole(n, -_ROW_MAX) for n in totals)


def _rows_by_stream(rows: Any, streams: Sequence[str]) -> dict[str, int]:
    if not isinstance(rows, dict):
        raise BadState("the rows are not by stream")
    if streams[0] not in rows:
        raise BadState(f"the stream {streams[0]} is missing")
    return {name: _whole(rows[name], NO_ROW) for name in streams if name in rows}


def checked_point(number: Any) -> int:
    """A ROWID or NO_ROW.

    :raises BadState: it is neither.
    """
    return _whole(number, NO_ROW)


def _whole(number: Any, least: int) -> int:
    if type(number) is not int or not least <= number <= _ROW_MAX:
        raise BadState(f"not a number from {least}: {ascii(number)[:40]}")
    return number


def _time(text: Any) -> str:
    try:
        return Timestamp(text if isinstance(text, str) else "").internal
    except ValueError as error:
        raise BadState(str(error)[:200]) from None


def _hash(text: Any) -> str:
    try:
        if isinstance(text, str) and len(text) == 32:
            return f"{int(text, 16):032x}"
    except ValueError:
        pass
    raise BadState("the hash has not 32 hexadecimal digits")


def _id(text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= _ID_LENGTH_MAX:
        raise BadState("not the id of a replica")
    if "/" in text or not text.isprintable():
        raise BadState("a character that no id has")
    return text


def _metadata(text: Any) -> Metadata:
    """The metadata in JSON text; OpenStack Swift has values that are lists of two."""
    try:
        found = json.loads(text) if text else {}
        return {_text(name): (_text(v), _time(stamp)) for name, (v, stamp) in found.items()}
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadState(f"bad metadata: {error}"[:200]) from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadState("metadata must be text")
    value.encode("utf-8")  # a lone surrogate is a ValueError
    return value
