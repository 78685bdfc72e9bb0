# SPDX-License-Identifier: Apache-2.0
"""Moves all versions of a name from one storage policy to another, as the records they are.

Each object server of the wrong policy sends its records of the name, as it would to a replica. Each
one of the right policy imports them. Which record counts does not depend on their order, so a move
may be repeated, and replicas that differ become one set. Locks and metadata are in the records.

The versions in the wrong policy are removed afterwards. Such a removal says that its version was
moved. So it is never taken for that of a client, and never moved.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgpack  # type: ignore[import-untyped]

from container.misplaced import Entry, Failed
from container.record_stream import END, NULL_ID, RecordHead, RecordStream, StreamError
from martlet.grid.client import GridClient
from martlet.grid.stream import GridStream
from martlet.http.backend_client import BackendError
from martlet.log import get_logger
from ring.errors import RingError
from ring.ring import Node, RingSet

_REMOVAL = struct.Struct("<16sQQ")
#: Most versions in one request. Each removal is flushed by itself.
_REMOVED_AT_ONCE = 100
#: A version id, and the ticks of its version.
_Version = tuple[bytes, int]


class Blocked(Exception):
    """The versions were moved out of the right policy before, and cannot come back."""


@dataclass(frozen=True, slots=True)
class Place:
    """A name in a policy: the devices of its partition."""

    policy_index: int
    partition: int
    nodes: tuple[Node, ...]
    digest: bytes
    name: str

    def on(self, node: Node) -> dict[str, Any]:
        """The partition of a device, as messages name it."""
        return {
            "device": node["device"],
            "policy": self.policy_index,
            "partition": self.partition,
        }

    def is_quorum(self, count: int) -> bool:
        """Whether these are more than half of the devices."""
        return count * 2 > len(self.nodes)


def held(records: Iterable[RecordHead], target: set[RecordHead]) -> set[RecordHead]:
    """Those of the records that the target has, or that do not count any more beside its records.

    A server takes no null version that is older than its own, or that a lock voids. The older one
    does not count, unless a version was written in between: then it is an old version.
    """
    ids = {head.version_id for head in target}
    nulls = {head.timestamp for head in target if head.version_id == NULL_ID}
    records = set(records)
    versions = [
        head.timestamp
        for head in records | target
        if head.is_version and head.version_id != NULL_ID
    ]

    def is_held(head: RecordHead) -> bool:
        time = head.timestamp
        if head.version_id != NULL_ID:
            return head.version_id in ids
        if time in nulls or struct.pack(">QQ", time.ticks, time.offset) in ids:
            return True
        last = max(nulls, default=time)
        return time < last and not any(time < version < last for version in versions)

    return set(filter(is_held, records))


class VersionMover:
    """Moves names.

    :param timeout: seconds to wait for an answer, and for progress of a stream.
    """

    def __init__(self, rings: RingSet, grid: GridClient, timeout: float) -> None:
        self._rings = rings
        self._grid = grid
        self._timeout = timeout
        self._log = get_logger("martlet.container.reconciler")

    def copy(self, entry: Entry, policy_index: int) -> set[RecordHead]:
        """Copy the records of an entry's name to another policy; return them.

        A majority of the devices has them then, or other writes that win over them.

        :raises Blocked: the other policy does not take back one of them.
        :raises Failed: too few devices have answered.
        """
        source, target = self.place(entry, entry.policy_index), self.place(entry, policy_index)
        records = self._records_of(target, tombstones=True)
        moved_away = {_without_offset(head) for head in records if head.is_of_move}
        copied: set[RecordHead] = set()
        receivers = _Receivers(target, self._open, self._timeout)
        read = 0
        for node in source.nodes:
            try:
                copied |= self._copy_from(source, node, receivers, copied, moved_away)
                read += 1
            except (BackendError, StreamError) as error:
                self._note(node, error)
            finally:
                receivers.abandon()
        if not source.is_quorum(read):
            raise Failed(f"{read} object servers of policy {source.policy_index} have answered")
        return copied

    def _copy_from(
        self,
        source: Place,
        node: Node,
        receivers: _Receivers,
        known: set[RecordHead],
        moved_away: set[_Version],
    ) -> set[RecordHead]:
        """Copy the records of a device that are not known; return all of them."""
        found: set[RecordHead] = set()
        for head, stream in self._export(source, node, tombstones=False):
            if head.is_of_move:
                continue
            found.add(head)
            if head in known:
                continue
            if head.is_version and _without_offset(head) in moved_away:
                raise Blocked
            receivers.send(stream.parts())
        receivers.finish()
        return found

    def place(self, entry: Entry, policy_index: int) -> Place:
        """:raises Failed: there is no ring of that policy."""
        names = entry.account, entry.container, entry.obj
        try:
            ring = self._rings.object_ring(policy_index)
            partition, nodes = ring.get_nodes(*names)
        except RingError as error:
            raise Failed(str(error)) from None
        digest = self._rings.hash_path.digest(*names)
        return Place(policy_index, partition, tuple(nodes), digest, "/" + "/".join(names))

    def records(self, entry: Entry, policy_index: int) -> set[RecordHead]:
        """The records of an entry's name in a policy, of all devices that answer.

        Removals of versions that were moved away are left out.

        :raises Failed: too few of them do.
        """
        found = self._records_of(self.place(entry, policy_index), tombstones=False)
        return {head for head in found if not head.is_of_move}

    def remove(self, entry: Entry, records: Iterable[RecordHead]) -> int:
        """Remove versions in the entry's policy; return how many are locked, and stay.

        :raises Failed: too few devices have answered.
        """
        place = self.place(entry, entry.policy_index)
        versions = (head for head in records if head.is_version)
        removals = [_removal(head) for head in sorted(versions, key=lambda head: head.timestamp)]
        done, locked = 0, 0
        for node in place.nodes:
            try:
                kept = 0
                for start in range(0, len(removals), _REMOVED_AT_ONCE):
                    kept += self._remove(place, node, removals[start : start + _REMOVED_AT_ONCE])
                locked = max(locked, kept)
                done += 1
            except BackendError as error:
                self._note(node, error)
        if not place.is_quorum(done):
            raise Failed(f"{done} object servers of policy {place.policy_index} have answered")
        return locked

    def _remove(self, place: Place, node: Node, removals: list[bytes]) -> int:
        asked = {
            "partition": place.on(node),
            "hash": place.digest,
            "name": place.name,
            "versions": b"".join(removals),
        }
        address = node["ip"], node["port"]
        answer = self._grid.request(address, "replica.remove", msgpack.packb(asked), self._timeout)
        return int(msgpack.unpackb(answer)["locked"])

    def _records_of(self, place: Place, *, tombstones: bool) -> set[RecordHead]:
        found: set[RecordHead] = set()
        read = 0
        for node in place.nodes:
            try:
                found.update(head for head, _ in self._export(place, node, tombstones=tombstones))
                read += 1
            except (BackendError, StreamError) as error:
                self._note(node, error)
        if not place.is_quorum(read):
            raise Failed(f"{read} object servers of policy {place.policy_index} have answered")
        return found

    def _export(
        self, place: Place, node: Node, *, tombstones: bool
    ) -> Iterator[tuple[RecordHead, RecordStream]]:
        """Yield the records of a device.

        :raises BackendError: the stream cannot be opened, or was cut.
        :raises StreamError: it is malformed.
        """
        asked = {
            "partition": place.on(node),
            "hashes": place.digest,
            "tombstones": tombstones,
        }
        opened = self._open(node, "replica.export", asked)
        try:
            stream = RecordStream(opened, self._timeout)
            for head in stream:
                yield head, stream
            if stream.skipped:
                self._log.warning(
                    "records not read ip=%s device=%s name=%s count=%d",
                    *(node["ip"], node["device"], place.name, stream.skipped),
                )
        finally:
            opened.abort()

    def _open(self, node: Node, name: str, asked: dict[str, Any]) -> GridStream:
        return self._grid.open_stream((node["ip"], node["port"]), name, msgpack.packb(asked))

    def _note(self, node: Node, error: Exception) -> None:
        """Log that a device has not answered."""
        self._log.warning(
            "object server did not answer ip=%s device=%s reason=%s",
            *(node["ip"], node["device"], error),
        )


class _Receivers:
    """The devices that import records. One that fails gets no more.

    :param opens: opens a stream to a device, of a name and with a first message.
    """

    def __init__(
        self,
        place: Place,
        opens: Callable[[Node, str, dict[str, Any]], GridStream],
        timeout: float,
    ) -> None:
        self._place = place
        self._opens = opens
        self._timeout = timeout
        self._streams: dict[int, GridStream] = {}
        self._failed: dict[int, str] = {}

    def send(self, parts: Iterable[bytes]) -> None:
        """Send a record to all.

        :raises Failed: too few of them take it.
        """
        if not self._streams:
            self._each(self._begin)
        for part in parts:
            self._each(partial(self._write, part))

    def finish(self) -> None:
        """End the streams, and look at what became of the records.

        :raises Failed: too few have stored them.
        """
        if self._streams:
            self._each(self._end)

    def abandon(self) -> None:
        """End the streams at once, unless they have ended."""
        for stream in self._streams.values():
            stream.abort()
        self._streams = {}

    def _begin(self, number: int, node: Node) -> None:
        self._streams[number] = self._opens(node, "replica.import", self._place.on(node))

    def _write(self, part: bytes, number: int, _: Node) -> None:
        self._streams[number].write(part, self._timeout)

    def _end(self, number: int, _: Node) -> None:
        stream = self._streams[number]
        stream.write(END, self._timeout)
        stream.end()
        answer = msgpack.unpackb(stream.read(self._timeout))
        if answer["refused"]:
            raise StreamError(f"{answer['refused']} records were refused: {answer['reason']}")

    def _each(self, do: Callable[[int, Node], None]) -> None:
        for number, node in enumerate(self._place.nodes):
            if number in self._failed:
                continue
            try:
                do(number, node)
            except (BackendError, StreamError) as error:
                self._failed[number] = f"{node['ip']} {node['device']}: {error}"
        if not self._place.is_quorum(len(self._place.nodes) - len(self._failed)):
            reasons = "; ".join(self._failed.values())
            raise Failed(f"policy {self._place.policy_index} does not store them: {reasons}")


def _without_offset(head: RecordHead) -> _Version:
    return head.version_id, head.timestamp.ticks


def _removal(head: RecordHead) -> bytes:
    """The removal of a version, just after it."""
    time = head.timestamp
    return _REMOVAL.pack(head.version_id, time.ticks, time.offset + 1)
