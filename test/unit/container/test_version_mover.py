"""The move of a name's records between policies: servers in memory, which fail in the middle."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from container.misplaced import Entry, Failed
from container.record_stream import (
    DELETE_MARKER,
    END,
    PUT,
    TOMBSTONE,
    RecordHead,
    RecordStream,
    StreamError,
)
from container.version_mover import Left, VersionMover
from container.version_plan import Holding, held_of, make_plan, result
from martlet.http.backend_client import BackendError
from martlet.words.timestamp import Timestamp

AWAY, HOME = 1, 0
ENTRY = Entry("1:/a/c/o", AWAY, "a", "c", "o", False, Timestamp(5), Timestamp(5))
DIGEST = bytes(range(16))
NULL = bytes(16)


def version_id(time: Timestamp, bits: int = 0) -> bytes:
    ticks, offset = time.ticks, time.offset
    return struct.pack(">QQ", ticks | bits << 56, offset)


def record(
    kind: int,
    time: Timestamp,
    id_: bytes | None = None,
    large: bytes | None = None,
    *,
    is_of_move: bool = False,
    posted: Timestamp | None = None,
) -> bytes:
    """A record in a stream, with a body that begins like a record."""
    id_ = version_id(time) if id_ is None else id_
    header = b"mrRC\x01" + bytes([kind]) + bytes(34) + id_
    moved = {"X-Object-Sysmeta-Moved": "true"} if is_of_move else None
    at = [time.ticks, time.offset]
    fields = {"n": "/a/c/\xfc".encode("latin-1"), "x": moved, "m": at, "y": at}
    if posted is not None:
        fields["m"] = [posted.ticks, posted.offset]
    metadata = msgpack.packb(fields, use_bin_type=False)
    header += struct.pack("<QQ", time.ticks, time.offset) + bytes(12)
    header += struct.pack("<I20xQ4xI4x", len(metadata), 9, 5)
    body = header + b"block" + metadata + b"mrRC body" * 10
    size = 2**64 - 1 if large is None else len(large)
    return struct.pack("<IQ", len(body), size) + body + (large or b"")


class Stream:
    """A stream of bytes that comes in pieces; ``fails_at`` is the piece that is cut off."""

    def __init__(self, data: bytes, piece: int = 1000, fails_at: int | None = None) -> None:
        self._pieces = [data[n : n + piece] for n in range(0, len(data), piece)]
        self._fails_at = fails_at
        self.is_aborted = False

    def read(self, timeout: float | None = None) -> bytes:
        if self._fails_at == 0:
            raise BackendError(("::1", 0), "cut")
        if self._fails_at is not None:
            self._fails_at -= 1
        return self._pieces.pop(0) if self._pieces else b""

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("piece", [1, 7, 140, 100_000])
def test_a_stream_is_read_in_any_pieces(piece: int) -> None:
    one, two, three = Timestamp(1), Timestamp(2, offset=1), Timestamp(3)
    data = record(PUT, one, large=b"x" * 5000) + record(TOMBSTONE, two, NULL)
    data += record(DELETE_MARKER, three, version_id(three, 0xC0))
    stream = RecordStream(Stream(data + struct.pack("<I24xI", 0, 7), piece), 1.0)  # type: ignore[arg-type]
    heads, parts = [], []
    for head in stream:
        heads.append(head)
        if head.kind != TOMBSTONE:  # which is skipped
            parts.append(b"".join(stream.parts()))
    assert [(head.kind, head.timestamp) for head in heads] == [
        (PUT, one),
        (TOMBSTONE, two),
        (DELETE_MARKER, three),
    ]
    assert [head.version for head in heads] == [one.internal, "", ""]
    assert [head.is_version for head in heads] == [True, False, True]
    assert [head.signature for head in heads] == [9, 9, 9]
    assert parts == [record(PUT, one, large=b"x" * 5000), data[-len(parts[1]) :]]
    assert stream.skipped == 7


@pytest.mark.parametrize("data", [b"", record(PUT, Timestamp(1))[:-1], b"\x10\0\0\0" + bytes(200)])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    stream = RecordStream(Stream(data), 1.0)  # type: ignore[arg-type]
    with pytest.raises(StreamError):
        list(stream)


class Import:
    """A stream into a server, which stores what has come whole when it ends."""

    def __init__(self, server: Server, later: bytes) -> None:
        self._server = server
        self._later = {
            (of, ticks): offset for of, ticks, offset in struct.iter_unpack("<16sQQ", later)
        }
        self._data = bytearray()
        self._answer = b""

    def write(self, data: bytes, timeout: float) -> None:
        if self._server.breaks_after is not None and len(self._data) > self._server.breaks_after:
            raise BackendError(("::1", 0), "away")
        self._data += data

    def end(self) -> None:
        assert bytes(self._data).endswith(END)
        stream = RecordStream(Stream(bytes(self._data)), 1.0)  # type: ignore[arg-type]
        for head in stream:
            raw = b"".join(stream.parts())
            self._server.stored.append((head, raw))
            offset = self._later.get((head.version_id, head.timestamp.ticks), 0)
            if not self._server.refuses:
                self._server.take(head, raw, max(offset, head.timestamp.offset))
        refused = {"refused": self._server.refuses, "reason": "full"}
        self._answer = msgpack.packb(refused)

    def read(self, timeout: float) -> bytes:
        return self._answer

    def abort(self) -> None:
        self._data.clear()


@dataclass
class Server:
    """An object server with the records of the name, as streams have them."""

    records: list[bytes] = field(default_factory=list)
    stored: list[tuple[RecordHead, bytes]] = field(default_factory=list)
    is_down: bool = False
    cut_at: int | None = None
    breaks_after: int | None = None
    refuses: int = 0
    removed: list[tuple[bytes, int, int]] = field(default_factory=list)
    posted: list[tuple[int, ...]] = field(default_factory=list)
    locked: int = 0

    def take(self, head: RecordHead, raw: bytes, offset: int) -> None:
        """Store a record with another offset, in place of the one of its id if it is later."""
        raw = raw[:76] + struct.pack("<Q", offset) + raw[84:]
        time = Timestamp.from_ticks(head.timestamp.ticks, offset)
        known = [record for record in self.records if record[52:68] == head.version_id]
        if all(struct.unpack("<QQ", old[68:84]) < (time.ticks, time.offset) for old in known):
            self.records = [old for old in self.records if old not in known] + [raw]

    def heads(self) -> list[RecordHead]:
        return list(RecordStream(Stream(b"".join(self.records) + END), 1.0))  # type: ignore[arg-type]


class Cluster:
    """Servers 0 to 2 have the policy HOME, 10 to 12 AWAY. It is the ring set, a ring and a grid."""

    def __init__(self) -> None:
        self.servers = {
            policy * 10 + number: Server() for policy in (HOME, AWAY) for number in range(3)
        }
        self.hash_path = self
        self.exports: list[tuple[int, bool]] = []
        self._policy = 0

    def of(self, policy: int) -> list[Server]:
        return [self.servers[policy * 10 + number] for number in range(3)]

    def object_ring(self, policy: int) -> Cluster:
        self._policy = policy
        return self

    def get_nodes(self, *names: str) -> tuple[int, list[dict[str, Any]]]:
        ports = range(self._policy * 10, self._policy * 10 + 3)
        return 7, [{"ip": "::1", "port": port, "device": f"d{port}"} for port in ports]

    def digest(self, *names: str) -> bytes:
        assert names == ("a", "c", "o")
        return DIGEST

    def open_stream(self, address: tuple[str, int], name: str, payload: bytes) -> Any:
        server, asked = self._server(address), msgpack.unpackb(payload)
        if name == "replica.import":
            later = asked.pop("later")
            assert asked == {"device": f"d{address[1]}", "policy": HOME, "partition": 7}
            return Import(server, later)
        assert asked["hashes"] == DIGEST
        assert asked["partition"]["device"] == f"d{address[1]}"
        self.exports.append((address[1], asked["heads"]))
        ids = asked["versions"]
        some = [ids[n : n + 16] for n in range(0, len(ids), 16)]
        wanted = [record for record in server.records if not some or record[52:68] in some]
        return Stream(b"".join(wanted) + END, 100, None if asked["heads"] else server.cut_at)

    def request(self, address: tuple[str, int], name: str, payload: bytes, timeout: float) -> bytes:
        server, asked = self._server(address), msgpack.unpackb(payload)
        assert (name, asked["name"], asked["hash"]) == ("replica.remove", "/a/c/o", DIGEST)
        server.removed += struct.iter_unpack("<16sQQ", asked["versions"])
        server.posted += struct.iter_unpack("<QQQQ", asked["posted"])
        return bytes(msgpack.packb({"locked": server.locked, "posted": len(server.posted)}))

    def _server(self, address: tuple[str, int]) -> Server:
        server = self.servers[address[1]]
        if server.is_down:
            raise BackendError(address, "down")
        return server

    def mover(self) -> VersionMover:
        return VersionMover(self, self, 1.0)  # type: ignore[arg-type]


def times(*seconds: int) -> Iterator[Timestamp]:
    return (Timestamp(1_700_000_000 + second) for second in seconds)


def test_the_records_of_all_replicas_are_copied_once() -> None:
    cluster = Cluster()
    one, two, three, gone = times(1, 2, 3, 4)
    first, second, third = record(PUT, one, large=b"x" * 999), record(PUT, two), record(PUT, three)
    removal = record(TOMBSTONE, gone, version_id(three))
    mark = record(TOMBSTONE, Timestamp(one, 1), version_id(one), is_of_move=True)
    for server, records in zip(
        cluster.of(AWAY), ([first, second], [second, third, mark], [removal, first]), strict=True
    ):
        server.records = records
    copied = cluster.mover().copy(ENTRY, HOME)
    assert copied.left == 0
    assert {(head.version, head.timestamp) for head in copied.held} == {
        (one.internal, one),
        (two.internal, two),
        (three.internal, three),
        (three.internal, gone),
    }
    for server in cluster.of(HOME):
        assert sorted(raw for _, raw in server.stored) == sorted([first, second, third, removal])


@pytest.mark.parametrize("cut_at", [1, 4, 12])
def test_what_a_dying_server_sent_in_part_is_sent_again(cut_at: int) -> None:
    cluster = Cluster()
    records = [record(PUT, time, large=b"y" * 500) for time in times(1, 2)]
    for server in cluster.of(AWAY):
        server.records = records
    cluster.of(AWAY)[0].cut_at = cut_at
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 2
    for server in cluster.of(HOME):
        assert [raw for _, raw in server.stored] == records


@pytest.mark.parametrize("ill", [{"is_down": True}, {"breaks_after": 200}, {"refuses": 1}])
def test_a_majority_must_store_the_records(ill: dict[str, Any]) -> None:
    for count in (1, 2):
        cluster = Cluster()
        cluster.of(AWAY)[1].records = [record(PUT, time) for time in times(1, 2, 3)]
        for server in cluster.of(HOME)[:count]:
            for name, value in ill.items():
                setattr(server, name, value)
        if count == 1:
            assert len(cluster.mover().copy(ENTRY, HOME).held) == 3
            assert len(cluster.of(HOME)[2].stored) == 3
        else:
            with pytest.raises(Failed):
                cluster.mover().copy(ENTRY, HOME)


def test_a_majority_must_be_read() -> None:
    cluster = Cluster()
    cluster.of(AWAY)[2].records = [record(PUT, *times(1))]
    cluster.of(AWAY)[0].is_down = True
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 1
    assert len(list(cluster.mover().holding(ENTRY, AWAY).heads())) == 1
    cluster.of(AWAY)[1].is_down = True
    with pytest.raises(Failed, match="1 object servers of policy 1 have answered"):
        cluster.mover().copy(ENTRY, HOME)
    with pytest.raises(Failed, match="1 object servers of policy 1 have answered"):
        cluster.mover().holding(ENTRY, AWAY)


@pytest.mark.parametrize("offset", [1, 7])
@pytest.mark.parametrize("id_", [None, NULL])
def test_what_was_moved_away_comes_back_later_than_its_removal(
    offset: int, id_: bytes | None
) -> None:
    """One replica alone knows the removal of the move. A client's removal lets nothing back."""
    (time,) = times(1)
    cluster = Cluster()
    for server in cluster.of(AWAY):
        server.records = [record(PUT, time, id_)]
    known_id = version_id(time) if id_ is None else id_
    later = Timestamp(time, offset)
    cluster.of(HOME)[2].records = [record(TOMBSTONE, later, known_id, is_of_move=True)]
    copied = cluster.mover().copy(ENTRY, HOME)
    assert len(copied.held) == 1
    for server in cluster.of(HOME):
        assert [head.timestamp.offset for head in server.heads()] == [max(2, offset + 1)]
    assert list(copied.there.values()) == [Timestamp(time, offset=max(2, offset + 1))]
    for server in cluster.of(HOME):
        server.records = [record(TOMBSTONE, later, known_id)]
        server.stored.clear()
    copied = cluster.mover().copy(ENTRY, HOME)
    assert len(copied.held) == 1
    assert not any(server.stored for server in cluster.of(HOME))


def test_offsets_grow_by_two_with_each_return() -> None:
    cluster = Cluster()
    (time,) = times(1)
    for server in cluster.of(AWAY):
        server.records = [record(PUT, Timestamp(time, 4), version_id(time))]
    mark = record(TOMBSTONE, Timestamp(time, 3), version_id(time), is_of_move=True)
    cluster.of(HOME)[0].records = [mark]
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 1
    for server in cluster.of(HOME):
        assert [head.timestamp.offset for head in server.heads()] == [6]


def test_a_version_that_only_an_absent_replica_may_know_is_later_than_a_removal() -> None:
    (time,) = times(1)
    cluster = Cluster()
    for server in cluster.of(AWAY):
        server.records = [record(PUT, time)]
    cluster.of(HOME)[0].is_down = True
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 1
    assert [head.timestamp.offset for head in cluster.of(HOME)[1].heads()] == [2]


def test_what_the_target_has_is_not_read_again() -> None:
    cluster = Cluster()
    for server in cluster.of(AWAY):
        server.records = [record(PUT, time) for time in times(1, 2)]
    for _ in range(2):  # the second time it proves that no removal of a move waits for them
        assert len(cluster.mover().copy(ENTRY, HOME).held) == 2
    cluster.exports.clear()
    for server in cluster.of(HOME):
        server.stored.clear()
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 2
    assert all(is_of_heads for _, is_of_heads in cluster.exports)
    assert not any(server.stored for server in cluster.of(HOME))
    (late,) = times(3)
    cluster.of(AWAY)[1].records.append(record(PUT, late))
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 3
    assert [len(server.stored) for server in cluster.of(HOME)] == [1, 1, 1]


def test_a_later_post_is_copied_again() -> None:
    cluster = Cluster()
    one, posted = times(1, 9)
    for server in cluster.of(AWAY):
        server.records = [record(PUT, one)]
    for server in cluster.of(HOME):
        server.records = [record(PUT, Timestamp(one, 2), version_id(one))]
    assert len(cluster.mover().copy(ENTRY, HOME).held) == 1
    cluster.of(AWAY)[1].records = [record(PUT, one, posted=posted)]
    copied = cluster.mover().copy(ENTRY, HOME)
    assert [len(server.stored) for server in cluster.of(HOME)] == [1, 1, 1]
    assert copied.left == 1  # these servers do not join the metadata: it is not removed


def test_versions_are_removed_just_after_their_time() -> None:
    cluster = Cluster()
    one, two, three = times(1, 2, 3)
    found = {
        RecordHead(PUT, NULL, Timestamp(one, 3), 0),
        RecordHead(DELETE_MARKER, version_id(two), two, 0),
        RecordHead(TOMBSTONE, version_id(three), three, 0),
    }
    cluster.of(AWAY)[0].is_down = True
    cluster.of(AWAY)[1].locked = 1
    assert cluster.mover().remove(ENTRY, found) == Left(1, 2)
    wanted = [(NULL, one.ticks, 4), (version_id(two), two.ticks, 1)]
    assert [server.removed for server in cluster.of(AWAY)] == [[], wanted, wanted]
    cluster.of(AWAY)[1].is_down = True
    with pytest.raises(Failed):
        cluster.mover().remove(ENTRY, found)


def head(kind: int, time: Timestamp, id_: bytes | None = None) -> RecordHead:
    return RecordHead(kind, version_id(time) if id_ is None else id_, time, 0)


def held(source: set[RecordHead], target: set[RecordHead]) -> set[RecordHead]:
    devices = [{head.version_id: head for head in target}] * 3
    there = Holding(devices, 3)
    plan = make_plan(Holding([{head.version_id: head for head in source}] * 3, 3), there)
    plan.times = {
        version: Timestamp.from_ticks(time.ticks, 0) for version, time in plan.times.items()
    }
    assert set(held_of(plan, there)) == set(result(plan, there).held)
    return set(held_of(plan, there))


def test_what_the_target_has_not_taken_is_not_held() -> None:
    one, two, three, four = times(1, 2, 3, 4)
    null, version = head(PUT, two, NULL), head(PUT, three)
    assert held({null, version}, {null, version}) == {null, version}
    assert held({version}, {head(TOMBSTONE, four, version_id(three))}) == {version}
    assert held({null, version}, set()) == set()
    # A null version of before, which is locked there, keeps the later one away.
    assert held({null}, {head(PUT, one, NULL)}) == set()
    # A later one takes its place, unless a version was written in between.
    assert held({null}, {head(PUT, four, NULL), head(PUT, one)}) == {null}
    assert held({null, version}, {head(PUT, four, NULL), version}) == {version}
    assert held({null}, {head(PUT, four, NULL), version}) == set()
    # So does the removal of a later one, beside which is a marker that hides what is older.
    removal = head(TOMBSTONE, Timestamp(three, offset=1 << 48), NULL)
    hidden = head(DELETE_MARKER, three, version_id(three, 0xC0))
    assert held({null}, {removal, hidden, head(PUT, four)}) == {null}
    # It is kept there under the id of its time, or was removed under that id.
    replaced = {head(PUT, four, NULL), version}
    moved = head(PUT, Timestamp(two, offset=2), NULL)
    for kind in (PUT, TOMBSTONE):
        kept = RecordHead(kind, version_id(two), four, 0)
        for one_null in (null, moved):
            assert held({one_null, version}, replaced | {kept}) == {one_null, version}
    # A removal of a move says that it is in the wrong policy only.
    kept = RecordHead(TOMBSTONE, version_id(two), Timestamp(two, offset=1), 0, True)
    assert held({null}, replaced | {kept}) == set()
