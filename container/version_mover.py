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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from container.misplaced import Entry, Failed
from container.record_stream import END, RecordHead, RecordStream, StreamError
from container.version_plan import Holding, Moved, Version, make_plan, result, version_of
from martlet.grid.client import GridClient
from martlet.grid.stream import GridStream
from martlet.http.backend_client import BackendError
from martlet.log import get_logger
from martlet.words.timestamp import Timestamp
from ring.errors import RingError
from ring.ring import Node, RingSet

#: A version id, and a time.
_TIMED = struct.Struct("<16sQQ")
#: The times of metadata and of the content type.
_POSTED = struct.Struct("<QQQQ")
#: Most versions in one request. Each removal is flushed by itself.
_REMOVED_AT_ONCE = 100
#: Most versions in one stream.
_COPIED_AT_ONCE = 1000


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


class Left(NamedTuple):
    """The versions that stay in the wrong policy: locked ones, and those that got a POST since."""

    locked: int
    posted: int


class VersionMover:
    """Moves names.

    :param timeout: seconds to wait for an answer, and for progress of a stream.
    """

    def __init__(self, rings: RingSet, grid: GridClient, timeout: float) -> None:
        self._rings = rings
        self._grid = grid
        self._timeout = timeout
        self._log = get_logger("martlet.container.reconciler")

    def copy(self, entry: Entry, policy_index: int) -> Moved:
        """Copy the records of an entry's name that another policy lacks.

        :raises Failed: too few devices have answered, or do not store them.
        """
        source, target = self.place(entry, entry.policy_index), self.place(entry, policy_index)
        found = self._holding(target)
        plan = make_plan(self._holding(source), found)
        lacking = plan.lacking
        if lacking:
            receivers = _Receivers(target, self._open, self._timeout)
            for node in source.nodes:
                try:
                    lacking = self._copy_from(source, node, receivers, lacking, plan.times)
                except (BackendError, StreamError) as error:
                    self._note(node, error)
                finally:
                    receivers.abandon()
            found = self._holding(target)
        return result(plan, found)

    def _copy_from(
        self,
        source: Place,
        node: Node,
        receivers: _Receivers,
        lacking: set[RecordHead],
        times: Mapping[Version, Timestamp],
    ) -> set[RecordHead]:
        """Copy those of the records that a device has; return the others."""
        by_id: dict[bytes, list[RecordHead]] = {}
        for head in lacking:
            by_id.setdefault(head.version_id, []).append(head)
        ids, sent = sorted(by_id), set[RecordHead]()
        for start in range(0, len(ids), _COPIED_AT_ONCE):
            some = ids[start : start + _COPIED_AT_ONCE]
            versions = {version_of(head) for version_id in some for head in by_id[version_id]}
            later = {version: times[version] for version in versions if version in times}
            for head, stream in self._export(source, node, versions=b"".join(some)):
                if head in lacking and head not in sent:
                    receivers.send(later, stream.parts())
                    sent.add(head)
            receivers.finish()
        return lacking - sent

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

    def remove(self, entry: Entry, records: Iterable[RecordHead]) -> Left:
        """Remove versions in the entry's policy; return how many stay.

        :raises Failed: too few devices have answered.
        """
        place = self.place(entry, entry.policy_index)
        versions = (head for head in records if head.is_version)
        removed = sorted(versions, key=lambda head: head.timestamp)
        done, locked, posted = 0, 0, 0
        for node in place.nodes:
            try:
                left = [
                    self._remove(place, node, removed[start : start + _REMOVED_AT_ONCE])
                    for start in range(0, len(removed), _REMOVED_AT_ONCE)
                ]
                locked = max(locked, sum(some.locked for some in left))
                posted = max(posted, sum(some.posted for some in left))
                done += 1
            except BackendError as error:
                self._note(node, error)
        if not place.is_quorum(done):
            raise Failed(f"{done} object servers of policy {place.policy_index} have answered")
        return Left(locked, posted)

    def _remove(self, place: Place, node: Node, heads: list[RecordHead]) -> Left:
        asked = {
            "partition": place.on(node),
            "hash": place.digest,
            "name": place.name,
            "versions": b"".join(map(_removal, heads)),
            "posted": b"".join(map(_posted, heads)),
        }
        address = node["ip"], node["port"]
        packed = self._grid.request(address, "replica.remove", msgpack.packb(asked), self._timeout)
        answer = msgpack.unpackb(packed)
        return Left(int(answer["locked"]), int(answer.get("posted", 0)))

    def holding(self, entry: Entry, policy_index: int) -> Holding:
        """The records that a policy has of an entry's name.

        :raises Failed: too few devices have answered.
        """
        return self._holding(self.place(entry, policy_index))

    def _holding(self, place: Place) -> Holding:
        devices = []
        for node in place.nodes:
            try:
                heads = self._export(place, node, heads=True)
                devices.append({head.version_id: head for head, _ in heads})
            except (BackendError, StreamError) as error:
                self._note(node, error)
        if not place.is_quorum(len(devices)):
            asked = f"{len(devices)} object servers of policy {place.policy_index}"
            raise Failed(f"{asked} have answered")
        return Holding(devices, len(place.nodes))

    def _export(
        self, place: Place, node: Node, *, versions: bytes = b"", heads: bool = False
    ) -> Iterator[tuple[RecordHead, RecordStream]]:
        """Yield the records of a device, of some versions, or their heads alone.

        A server of an earlier release yields all, and whole records.

        :raises BackendError: the stream cannot be opened, or was cut.
        :raises StreamError: it is malformed.
        """
        asked = {
            "partition": place.on(node),
            "hashes": place.digest,
            "versions": versions,
            "heads": heads,
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

    def send(self, times: Mapping[Version, Timestamp], parts: Iterable[bytes]) -> None:
        """Send a record to all.

        :param times: that versions get, until the streams are finished.
        :raises Failed: too few of them take it.
        """
        if not self._streams:
            later = [_TIMED.pack(of, time.ticks, time.offset) for (of, _), time in times.items()]
            self._each(partial(self._begin, b"".join(later)))
        for part in parts:
            self._each(partial(self._write, part))

    def finish(self) -> None:
        """End the streams, and look at what became of the records.

        :raises Failed: too few have stored them.
        """
        if self._streams:
            self._each(self._end)
            self._streams = {}

    def abandon(self) -> None:
        """End the streams at once, unless they have ended."""
        for stream in self._streams.values():
            stream.abort()
        self._streams = {}

    def _begin(self, times: bytes, number: int, node: Node) -> None:
        asked = self._place.on(node) | {"later": times}
        self._streams[number] = self._opens(node, "replica.import", asked)

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


def _removal(head: RecordHead) -> bytes:
    """The removal of a version, just after it."""
    time = head.timestamp
    return _TIMED.pack(head.version_id, time.ticks, time.offset + 1)


def _posted(head: RecordHead) -> bytes:
    metadata, of_type = head.metadata_at, head.type_at
    return _POSTED.pack(metadata.ticks, metadata.offset, of_type.ticks, of_type.offset)
