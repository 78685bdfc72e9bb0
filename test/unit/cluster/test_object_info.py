"""``martlet object-info``: what the file says, and one sentence for what is damaged."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from hashlib import md5
from pathlib import Path

import google_crc32c
import msgpack  # type: ignore[import-untyped]
import pytest
import xattr  # type: ignore[import-untyped]

from cluster.command import main

GOLDEN = Path(__file__).parents[2] / "golden" / "bundle" / "00000001-0000.bundle"
TICKS = 178000000012345


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder whose file system keeps attributes."""
    try:
        xattr.setxattr(str(tmp_path), "user.test", b"1")
    except OSError as error:
        pytest.skip(f"the file system has no user attributes: {error}")
    return tmp_path


def info(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    assert main(["object-info", *map(str, arguments)]) == status
    return capsys.readouterr().out


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["object-info", *map(str, arguments)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("martlet: ")
    assert shown.err.count("\n") == 1
    return shown.err


def metadata(name: str, body: bytes, **headers: str) -> bytes:
    """As the object server writes them."""
    time = [TICKS, 0]
    packed = {
        "n": name,
        "c": "text/plain",
        "e": md5(body, usedforsecurity=False).hexdigest(),
        "s": len(body),
        "d": 0,
        "t": time,
        "m": time,
        "y": time,
        "x": {"X-Object-Sysmeta-S": "1"},
        "u": {"X-Object-Meta-" + key: value for key, value in headers.items()},
    }
    raw: bytes = msgpack.packb(packed)
    return raw


def changed(tmp_path: Path, change: Callable[[bytearray], None]) -> Path:
    data = bytearray(GOLDEN.read_bytes())
    change(data)
    path = tmp_path / GOLDEN.name
    path.write_bytes(data)
    return path


def reseal(data: bytearray, offset: int) -> None:
    """Makes the checksum of a changed header right."""
    crc = google_crc32c.value(bytes(data[offset : offset + 124]))
    data[offset + 124 : offset + 128] = struct.pack("<I", crc)


# --- segments ---


def test_a_segment_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in info(capsys, GOLDEN).splitlines()]
    assert [line[:3] for line in lines] == [
        ["128", "1", "PUT"],
        ["512", "2", "SPILL"],
        ["896", "3", "TOMBSTONE"],
        ["1152", "4", "PAD"],
    ]
    assert lines[0][3:] == ["1780000000.12345", "5", "/AUTH_test/photos/heron"]


@pytest.mark.parametrize("which", [("--offset", "128"), ("--name", "/AUTH_test/photos/heron")])
def test_a_record_is_shown(capsys: pytest.CaptureFixture[str], which: tuple[str, str]) -> None:
    report = json.loads(info(capsys, "--json", *which, GOLDEN))
    expected = {
        "kind": "PUT record",
        "lsn": 1,
        "partition": 600,
        "policy": 1,
        "path": "/AUTH_test/photos/heron",
        "object": "heron",
        "content_type": "text/plain",
        "timestamp": "2026-05-28T20:26:40.123450 (1780000000.12345)",
        "etag": "5d41402abc4b2a76b9719d911017c592",
        "system_metadata": {"X-Object-Sysmeta-Origin": "a"},
        "user_metadata": {"X-Object-Meta-Legs": "2", "X-Object-Meta-Where": "pond"},
        "data": "valid",
        "flags": "none",
    }
    assert {key: report[key] for key in expected} == expected


def test_a_spill_names_its_large_file(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(info(capsys, "--json", "--offset", "512", GOLDEN))
    large_id = struct.unpack_from("<Q", GOLDEN.read_bytes(), 512 + 128 + _metadata_bytes(512))[0]
    assert report["large_file"] == f"large/{large_id:016x}.data"
    assert report["data"] == "in the large file"


def _metadata_bytes(offset: int) -> int:
    return int(struct.unpack_from("<I", GOLDEN.read_bytes(), offset + 84)[0])


def test_unknown_types_and_flags_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def change(data: bytearray) -> None:
        data[128 + 5] = 12
        data[128 + 6 : 128 + 8] = struct.pack("<H", 1 << 8 | 1 << 13)
        reseal(data, 128)

    line = info(capsys, changed(tmp_path, change)).splitlines()[0]
    assert "unknown type 12" in line
    assert "has versions, unknown flag 13" in line


def test_a_version_block_stands_before_the_metadata(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def change(data: bytearray) -> None:
        body = data[256 : 256 + _metadata_bytes(128)]
        rest = data[256 + len(body) :][: 5 + 4]  # data and chunk table
        block = bytes(96)
        record = data[128:256] + block + body + rest
        record += bytes(-len(record) % 64)
        struct.pack_into("<H", record, 6, 3 << 8)
        struct.pack_into("<I", record, 24 - 4, len(record) // 64)
        record[40] = 9
        struct.pack_into("<I", record, 80, 3)
        struct.pack_into("<I", record, 96, google_crc32c.value(block + bytes(body)))
        struct.pack_into("<I", record, 120, len(block))
        reseal(record, 0)
        data[128:512] = record

    path = changed(tmp_path, change)
    report = json.loads(info(capsys, "--json", "--offset", "128", path))
    assert (report["object"], report["versions"], report["data"]) == ("heron", 3, "valid")
    assert report["flags"] == "has versions, version block"
    assert report["version_id"].startswith("09")


def test_the_footer_stands_before_its_header(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def change(data: bytearray) -> None:
        head = data[128:256]
        head[5] = 8  # SEAL, of one unit of data and its header
        struct.pack_into("<I", head, 20, 3)
        reseal(head, 0)
        data += bytes(64) + head

    path = changed(tmp_path, change)
    lines = info(capsys, path).splitlines()
    assert len(lines) == 5
    assert lines[4].split()[:3] == [str(path.stat().st_size - 192), "1", "SEAL"]


def test_the_rest_of_a_write_is_no_damage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = info(capsys, changed(tmp_path, lambda data: data.extend(b"torn" * 100))).splitlines()
    assert len(lines) == 5
    assert "cut short" in lines[4]


@pytest.mark.parametrize(
    ("place", "option", "says"),
    [
        (20, (), "the segment's header is damaged"),
        (130, ("--offset", "128"), "at 128 no record begins"),
        (130, ("--name", "/AUTH_test/photos/heron"), "no record of /AUTH_test/photos/heron"),
        (260, ("--offset", "128"), "the metadata are damaged: their checksum is wrong"),
    ],
)
def test_damage_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    place: int,
    option: tuple[str, ...],
    says: str,
) -> None:
    def change(data: bytearray) -> None:
        data[place] ^= 1

    assert says in failure(capsys, *option, changed(tmp_path, change))


def test_damage_is_in_the_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def change(data: bytearray) -> None:
        data[130] ^= 1  # a header
        data[512 + 130] ^= 1  # metadata

    lines = info(capsys, changed(tmp_path, change), status=1).splitlines()
    assert len(lines) == 4
    assert "384 bytes" in lines[0]
    assert "no record can be read" in lines[0]
    assert "their checksum is wrong" in lines[1]


def test_damaged_bytes_of_an_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def change(data: bytearray) -> None:
        data[0x1C7] ^= 1

    path = changed(tmp_path, change)
    assert "Data: damaged: chunk 0" in info(capsys, "--offset", 128, path, status=1)
    assert "Data: not checked" in info(capsys, "-n", "--offset", 128, path)


def test_any_cut_of_a_segment_is_survived(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data, path = GOLDEN.read_bytes(), tmp_path / "cut.bundle"
    for length in range(0, len(data), 37):
        path.write_bytes(data[:length])
        main(["object-info", str(path)])
        main(["object-info", "--offset", "512", str(path)])
    assert "Traceback" not in capsys.readouterr().err


# --- large files ---


@pytest.fixture
def large(store: Path) -> Path:
    path = store / "bundles-1" / "7" / "large" / "0123456789abcdef.data"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"body")
    raw = metadata("/AUTH_a/c/ö b", b"body", Long="v" * 40)
    for number in range(0, len(raw), 100):  # as where one attribute does not hold it
        xattr.setxattr(str(path), f"user.martlet.metadata{number // 100 or ''}", raw[number:][:100])
    return path


def test_a_large_file_is_shown(capsys: pytest.CaptureFixture[str], large: Path) -> None:
    report = json.loads(info(capsys, "--json", large))
    assert report["kind"] == "large file"
    assert report["path"] == "/AUTH_a/c/ö b"
    assert report["content_length"] == "4 (valid)"
    assert report["etag"] == "841a2d689ad86bd1611447453c22c6fc (valid)"
    assert report["user_metadata"] == {"X-Object-Meta-Long": "v" * 40}


def test_a_large_file_that_changed_is_damaged(
    capsys: pytest.CaptureFixture[str], large: Path
) -> None:
    large.write_bytes(b"body and more")
    shown = info(capsys, large, status=1)
    assert "Content-Length: 4 doesn't match file length of 13" in shown
    assert "doesn't match file hash of" in shown
    large.write_bytes(b"BODY")
    assert "ETag: 841a2d689ad86bd1611447453c22c6fc (not checked)" in info(capsys, "-n", large)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xc1", b"\x90", b"\x80", b"\x81\xa1n\xa1x", b"\x81\xa1n\xdb\xff\xff\xff\xff", b"\xa1"],
)
def test_damaged_metadata_of_a_large_file(
    capsys: pytest.CaptureFixture[str], store: Path, raw: bytes
) -> None:
    path = store / "f.data"
    path.write_bytes(b"")
    xattr.setxattr(str(path), "user.martlet.metadata", raw)
    assert "metadata are" in failure(capsys, path)


def test_what_a_terminal_would_act_on_is_escaped(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    path = store / "f.data"
    path.write_bytes(b"")
    xattr.setxattr(str(path), "user.martlet.metadata", metadata("/a/c/\x1b[2J", b"", A="\x07"))
    assert "\x1b" not in info(capsys, path)


# --- files of OpenStack Swift ---


def swift_file(store: Path, suffix: str, headers: dict[str, str], body: bytes = b"") -> Path:
    from swift.obj.diskfile import write_metadata  # type: ignore[import-untyped]

    path = store / "objects" / "7" / "a83" / ("3f" * 15 + "a83") / f"1700000000.12345{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    write_metadata(str(path), headers)
    return path


HEADERS = {
    "name": "/AUTH_a/c/ö",
    "Content-Type": "text/plain",
    "X-Timestamp": "1700000000.12345",
    "ETag": "841a2d689ad86bd1611447453c22c6fc",
    "Content-Length": "4",
    "X-Object-Meta-Color": "grün",
    "X-Object-Meta-Empty": "",
    "X-Object-Sysmeta-S": "1",
    "Content-Encoding": "gzip",
}


def test_a_file_written_by_swift_is_shown(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    shown = info(capsys, swift_file(store, ".data", HEADERS, b"body"))
    assert shown.splitlines() == [
        "Kind: file of OpenStack Swift (data)",
        "Path: /AUTH_a/c/ö",
        "Account: AUTH_a",
        "Container: c",
        "Object: ö",
        "Hash: " + "3f" * 15 + "a83",
        "Content-Type: text/plain",
        "Timestamp: 2023-11-14T22:13:20.123450 (1700000000.12345)",
        "System metadata:",
        "  X-Object-Sysmeta-S: 1",
        "Transient system metadata:",
        "  No metadata found",
        "User metadata:",
        "  X-Object-Meta-Color: grün",
        "  X-Object-Meta-Empty: ",
        "Other metadata:",
        "  Content-Encoding: gzip",
        "Content-Length: 4 (valid)",
        "ETag: 841a2d689ad86bd1611447453c22c6fc (valid)",
    ]


def test_a_file_of_swift_with_other_bytes(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    path = swift_file(store, ".data", HEADERS, b"BODY")
    assert "doesn't match file hash of" in info(capsys, path, status=1)
    assert "(not checked)" in info(capsys, "--no-check-etag", path)


def test_a_tombstone_and_a_post_of_swift(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    tombstone = {"name": "/AUTH_a/c/o", "X-Timestamp": "1700000000.12345"}
    assert "Path: /AUTH_a/c/o" in info(capsys, swift_file(store, ".ts", tombstone))
    post = {"X-Timestamp": "1700000000.12345", "X-Object-Meta-A": "b"}
    shown = info(capsys, swift_file(store, ".meta", post))
    assert "Path: Not found in metadata" in shown
    assert "  X-Object-Meta-A: b" in shown


def test_metadata_that_python_2_wrote(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    path = store / "1700000000.12345.data"
    path.write_bytes(b"")
    # {'name': '/a/c/ö' in UTF-8, 'X-Object-Meta-A': 'ü' in Latin-1}, short strings of protocol 2.
    raw = b"\x80\x02}q\x00(U\x04nameU\x07/a/c/\xc3\xb6U\x0fX-Object-Meta-AU\x01\xfcu."
    xattr.setxattr(str(path), "user.swift.metadata", raw)
    shown = info(capsys, path, status=1)
    assert "Object: ö" in shown
    assert "X-Object-Meta-A: ü" in shown


class Evil:
    """Runs a program when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch martlet-was-here",)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (pickle.dumps({"name": Evil()}, 2), "more than plain data"),
        (pickle.dumps(["no", "dict"], 2), "no dict"),
        (pickle.dumps({"name": "/a/c/o"}, 2)[:-3], "cannot be read"),
        (b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00utf8tR.", "invalid bytes"),
        (b"", "no metadata"),
    ],
)
def test_bad_metadata_of_swift(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    store: Path,
    raw: bytes,
    says: str,
) -> None:
    monkeypatch.chdir(store)
    path = store / "1700000000.12345.data"
    path.write_bytes(b"")
    xattr.setxattr(str(path), "user.swift.metadata", raw)
    assert says in failure(capsys, path)
    assert not (store / "martlet-was-here").exists()


def test_a_wrong_checksum_of_swift_metadata(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    path = swift_file(store, ".data", HEADERS, b"body")
    xattr.setxattr(str(path), "user.swift.metadata_checksum", b"0" * 32)
    assert "their checksum is wrong" in failure(capsys, path)


# --- the rest ---


def test_the_ring_names_the_nodes(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    golden = Path(__file__).parents[2] / "golden" / "ring" / "object.ring.gz"
    folder = tmp_path_factory.mktemp("swift")
    for name in ("account.ring.gz", "container.ring.gz", "object.ring.gz"):
        (folder / name).write_bytes(golden.read_bytes())
    (folder / "martlet.conf").write_text("[swift-hash]\nswift_hash_path_suffix = s\n")
    report = json.loads(
        info(capsys, "--json", "-d", folder, swift_file(store, ".data", HEADERS, b"body"))
    )
    digest = md5("/AUTH_a/c/ös".encode(), usedforsecurity=False).hexdigest()
    assert report["hash"] == digest
    assert len(report["nodes"]) == 3
    assert all(" " in node and ":" in node for node in report["nodes"])
    (folder / "martlet.conf").unlink()
    assert "martlet.conf" in failure(capsys, "-d", folder, *store.rglob("*.data"))


@pytest.mark.parametrize("kind", ["missing", "folder", "text", "offset"])
def test_what_is_no_object_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "f"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_text("text")
    option = ["--offset", "128"] if kind == "offset" else []
    says = {
        "missing": "does not exist",
        "folder": "is no file",
        "text": "is no segment",
        "offset": "are for segments",
    }
    assert says[kind] in failure(capsys, *option, path)
