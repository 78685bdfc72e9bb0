"""Ring files: what OpenStack Swift wrote is read, ours are the same bytes, damage is refused."""

import functools
import gzip
import hashlib
import json
import struct
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ring.errors import RingFileError
from ring.file_format import RingData, _unknown_ids, decode_ring, encode_ring, read_ring

GOLDEN = Path(__file__).parents[2] / "golden" / "ring"
SAMPLES = (("object.ring.gz", 1), ("v2.ring.gz", 2))


# Without the time of day: raw bytes are part of test names, which every process must find alike.
compress = functools.partial(gzip.compress, mtime=0)


def device(dev_id: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": dev_id,
        "region": 1,
        "zone": dev_id,
        "ip": "10.0.0.1",
        "port": 6200,
        "device": f"sd{dev_id}",
        "weight": 1.0,
        "replication_ip": "10.0.0.1",
        "replication_port": 6200,
        "meta": "",
        **changes,
    }


@pytest.mark.parametrize(("name", "version"), SAMPLES)
def test_samples_hold_the_assignments_that_openstack_swift_sees(name: str, version: int) -> None:
    ring = read_ring(GOLDEN / name)
    seen = json.loads((GOLDEN / "assignments.json").read_text())["rings"][name]
    assert ring.part_shift == seen["part_shift"]
    assert [list(row) for row in ring.table] == seen["replica_to_partition_to_device"]
    assert ring.devs == seen["devices"]


@pytest.mark.parametrize(("name", "version"), SAMPLES)
def test_samples_are_written_again_byte_by_byte(name: str, version: int) -> None:
    raw = (GOLDEN / name).read_bytes()
    again = encode_ring(decode_ring(raw), name, version)
    assert gzip.decompress(again) == gzip.decompress(raw)
    if "ng" not in zlib.ZLIB_RUNTIME_VERSION:  # zlib-ng packs the same bytes differently
        assert again == raw


@st.composite
def rings(draw: st.DrawFn) -> RingData:
    part_power = draw(st.integers(0, 6))
    parts = 1 << part_power
    count = draw(st.integers(1, 6))
    holes = draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
    devs: list[Any] = [None if i in holes else device(i) for i in range(count)]
    for dev in filter(None, devs):
        dev["meta"] = draw(st.text(max_size=8))
        dev["weight"] = draw(st.floats(0, 1e6))
    alive = [i for i in range(count) if i not in holes]
    rows = [
        array("H", draw(st.lists(st.sampled_from(alive), min_size=parts, max_size=parts)))
        for _ in range(draw(st.integers(1, 3)))
    ]
    del rows[-1][draw(st.integers(1, parts)) :]
    return RingData(
        devs=devs,
        part_shift=32 - part_power,
        table=rows,
        version=draw(st.integers(0, 1000)),
        next_part_power=draw(st.none() | st.just(part_power + 1)),
    )


@given(rings(), st.sampled_from([1, 2]))
@settings(max_examples=60, deadline=None)
def test_every_ring_comes_back_as_it_was(ring: RingData, version: int) -> None:
    raw = encode_ring(ring, "x.ring.gz", version)
    assert decode_ring(raw) == ring
    assert encode_ring(decode_ring(raw), "x.ring.gz", version) == raw


def test_wide_device_ids_need_version_2() -> None:
    ring = RingData([None] * 70000 + [device(70000)], 32, [array("I", [70000])], 1)  # type: ignore[arg-type,list-item]
    assert decode_ring(encode_ring(ring, "x", 2)).table == ring.table
    with pytest.raises(ValueError, match="format version 2"):
        encode_ring(ring, "x", 1)


@pytest.mark.parametrize("version", [0, 3])
def test_unknown_versions_are_not_written(version: int) -> None:
    with pytest.raises(ValueError, match="only 1 and 2"):
        encode_ring(RingData([], 32), "x", version)


@given(st.data(), st.sampled_from(SAMPLES))
@settings(max_examples=150, deadline=None)
def test_no_damaged_byte_changes_the_ring(data: st.DataObject, sample: tuple[str, int]) -> None:
    raw = bytearray((GOLDEN / sample[0]).read_bytes())
    sound = decode_ring(bytes(raw))
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    try:
        # Time and name in the gzip header, and padding bits, are under no checksum.
        assert decode_ring(bytes(raw)) == sound
    except RingFileError:
        pass


@given(st.sampled_from(SAMPLES), st.integers(0, 1400))
@settings(max_examples=60, deadline=None)
def test_a_cut_off_file_is_refused(sample: tuple[str, int], length: int) -> None:
    raw = (GOLDEN / sample[0]).read_bytes()
    with pytest.raises(RingFileError):
        decode_ring(raw[:length])


def v1(about: object, rows: bytes, length: int | None = None) -> bytes:
    text = json.dumps(about).encode()
    return compress(b"R1NG\0\1" + struct.pack("!I", length or len(text)) + text + rows)


ABOUT: dict[str, Any] = {
    "byteorder": "little",
    "devs": [device(0)],
    "part_shift": 31,
    "replica_count": 1,
}


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "cut off"),
        (b"no gzip at all", "not a whole gzip stream"),
        (compress(b"PICK"), "does not start with R1NG"),
        (compress(b"R1NG\0\3......"), "version 3 is not known"),
        (compress(b"R1NG\0\1"), "cut off before its description"),
        (compress(b"R1NG\0\2"), "cut off before its index"),
        (v1(ABOUT, b"\0\0" * 2) + b"more", "something else follows"),
        (v1(ABOUT, b"\0\0" * 2, length=2**32 - 1), "claims 4294967295 bytes"),
        (v1([], b""), "not a JSON object"),
        (compress(b"R1NG\0\1\0\0\0\1{"), "not JSON"),
        (compress(b"R1NG\0\1" + struct.pack("!I", 200000) + b"[" * 200000), "not JSON"),
        (v1({**ABOUT, "byteorder": "middle"}, b""), "byteorder 'middle'"),
        (v1({**ABOUT, "part_shift": 33}, b""), "part_shift 33"),
        (v1({**ABOUT, "part_shift": "x"}, b""), "part_shift 'x'"),
        (v1({**ABOUT, "replica_count": -1}, b""), "replica_count -1"),
        (v1({**ABOUT, "replica_count": 1e9}, b""), "replica_count"),
        (v1({**ABOUT, "devs": None}, b"\0\0" * 2), "no list of devices"),
        (v1({**ABOUT, "devs": [7]}, b"\0\0" * 2), "device 0"),
        (v1({**ABOUT, "devs": [{"id": 0}]}, b"\0\0" * 2), "a device needs"),
        (v1({**ABOUT, "devs": [device(1)]}, b"\0\0" * 2), "says that its id is 1"),
        (v1({**ABOUT, "devs": [device(0, port="x")]}, b"\0\0" * 2), "port must be a whole"),
        (v1({**ABOUT, "devs": [device(0, device="../x")]}, b"\0\0" * 2), "not a device name"),
        (v1(ABOUT, b"\0\0" * 3), "6 bytes of assignments do not make 1 rows"),
        (v1(ABOUT, b"\0\0\0"), "3 bytes of assignments"),
        (v1({**ABOUT, "replica_count": 3}, b"\0\0" * 2), "do not make 3 rows"),
        (v1(ABOUT, b"\0\0\1\0"), "on device 1, which does not exist"),
        (v1({**ABOUT, "devs": [None]}, b"\0\0" * 2), "on device 0, which does not exist"),
        (v1({**ABOUT, "version": "new"}, b"\0\0" * 2), "version 'new'"),
    ],
)
def test_damaged_v1_files_are_refused(raw: bytes, sentence: str) -> None:
    with pytest.raises(RingFileError, match=sentence):
        decode_ring(raw)


def v2(**changes: Any) -> bytes:
    """A version 2 file, plain and simple, with some of its sections or index entries replaced."""
    about = {"dev_id_bytes": 2, "part_shift": 31, "replica_count": 1.0, "version": 1}
    blobs = {
        "metadata": json.dumps(changes.get("about", about)).encode(),
        "devices": json.dumps([device(0)]).encode(),
        "assignments": changes.get("rows", b"\0\0" * 2),
    }
    out = b"R1NG\0\2"
    index = {}
    for name, blob in blobs.items():
        whole = struct.pack("!Q", len(blob)) + blob
        digest = hashlib.sha256(whole).hexdigest()
        entry = [0, len(out), 0, len(out) + len(whole), "sha256", digest]
        index[f"swift/ring/{name}"] = changes.get(f"{name}_entry", entry)
        out += whole
    text = json.dumps(index).encode()
    start = changes.get("index_start", len(out))
    return compress(out + struct.pack("!Q", len(text)) + text + struct.pack("!QQ", start, 0))


def test_a_v2_file_packed_by_other_tools_is_read() -> None:
    assert list(decode_ring(v2()).table[0]) == [0, 0]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (v2(index_start=2**63), "lies outside"),
        (v2(index_start=0), "claims"),
        (v2(metadata_entry=None), "no proper entry for swift/ring/metadata"),
        (v2(devices_entry=[0, 6, 0, 7, "sha256", ""]), "lies outside"),
        (v2(devices_entry=[0, -9, 0, 99, "sha256", ""]), "lies outside"),
        (v2(devices_entry=[0, 6, 0, 99, "sha256", ""]), "claims"),
        (v2(metadata_entry=[0, 6, 0, 87, "crc", ""]), "digest 'crc'"),
        (v2(metadata_entry=[0, 6, 0, 87, "sha256", "00"]), "is damaged"),
        (v2(rows=b"\0\0"), "1.0 replicas are promised, 0.5 are there"),
        (v2(rows=b"\0\0\0\1"), "on device 1, which does not exist"),
        (v2(about={"dev_id_bytes": 8}), "dev_id_bytes 8"),
        (v2(about={"dev_id_bytes": 2, "replica_count": "3"}), "replica_count '3'"),
    ],
)
def test_damaged_v2_files_are_refused(raw: bytes, sentence: str) -> None:
    with pytest.raises(RingFileError, match=sentence):
        decode_ring(raw)


# Characters of meaning to a regular expression, and both halves of a surrogate pair.
ODD_IDS = st.sampled_from([0, *map(ord, "-[\\]^|~"), 0xD800, 0xDC00, 0xFFFE])
# The character of that pair, and a number that is no character.
LARGE_IDS = st.sampled_from([0x10000, 0x110000])


@given(st.sampled_from("HI"), st.lists(ODD_IDS), st.sets(ODD_IDS | LARGE_IDS))
def test_unknown_ids_are_found_whatever_their_characters_mean(
    code: str, ids: list[int], known: set[int]
) -> None:
    assert _unknown_ids(array(code, ids), known) == set(ids) - known


def test_a_bomb_is_not_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ring.file_format.FILE_BYTES_MAX", 2**20)
    with pytest.raises(RingFileError, match="more than 1048576 bytes"):
        decode_ring(compress(bytes(2**26)))


def test_an_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(RingFileError, match=r"gone\.ring\.gz: No such file"):
        read_ring(tmp_path / "gone.ring.gz")
    (tmp_path / "bad.ring.gz").write_bytes(b"x" * 100)
    with pytest.raises(RingFileError, match=r"bad\.ring\.gz: not a whole gzip"):
        read_ring(tmp_path / "bad.ring.gz")
