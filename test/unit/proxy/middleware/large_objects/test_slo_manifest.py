"""Manifests of static large objects: parsing, storing, reading back."""

from __future__ import annotations

import base64
import json
from hashlib import md5
from typing import Any

import pytest

from proxy.middleware.large_objects.byte_ranges import ByteRange
from proxy.middleware.large_objects.slo_manifest import (
    Entry,
    ManifestError,
    WantedSegment,
    inline_entry,
    large_etag,
    large_size,
    load_entries,
    parse_wanted,
)

NO_OBJECT = "path does not refer to an object. Path must be of the form /container/object."
ALL_INLINE = "Inline data segments require at least one object-backed segment.\n"


def problems_of(items: Any) -> str:
    text = items if isinstance(items, bytes) else json.dumps(items).encode()
    with pytest.raises(ManifestError) as caught:
        parse_wanted(text, "/c/man")
    return str(caught.value)


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (b"no json", "Manifest must be valid JSON."),
        (b"", "Manifest must be valid JSON."),
        (b"\xff", "Manifest must be valid JSON."),
        (b"[" * 100_000, "Manifest must be valid JSON."),
        ({}, "Manifest must be a list."),
        ([1], "Index 0: not a JSON object"),
        ([None], "Index 0: not a JSON object"),
        ([{}], 'Index 0: expected keys to include one of "path" or "data"'),
        ([{"path": "/c/o", "foo": 1, "baz": 2}], 'Index 0: extraneous keys "baz", "foo"'),
        ([{"path": 5}], 'Index 0: "path" must be a string'),
        ([{"path": "/c/o", "etag": 5}], 'Index 0: "etag" must be a string or null (if provided)'),
        ([{"path": ""}], f"Index 0: {NO_OBJECT}"),
        ([{"path": "/c"}], f"Index 0: {NO_OBJECT}"),
        ([{"path": "/c/"}], f"Index 0: {NO_OBJECT}"),
        ([{"path": "/c/o\0"}], f"Index 0: {NO_OBJECT}"),
        (b'[{"path": "/c/\\ud800"}]', f"Index 0: {NO_OBJECT}"),
        ([{"path": "c/man"}], "Index 0: manifest must not include itself as a segment"),
        ([{"path": "/c/o", "size_bytes": "x"}], "Index 0: invalid size_bytes"),
        ([{"path": "/c/o", "size_bytes": [1]}], "Index 0: invalid size_bytes"),
        (b'[{"path": "/c/o", "size_bytes": Infinity}]', "Index 0: invalid size_bytes"),
        ([{"path": "/c/o", "range": "x"}], "Index 0: invalid range"),
        ([{"path": "/c/o", "range": 5}], "Index 0: invalid range"),
        ([{"path": "/c/o", "range": "5-2"}], "Index 0: invalid range"),
        (
            [{"path": "/c/o", "range": "1-2,5-6"}],
            "Index 0: multiple ranges (only one allowed)",
        ),
        (
            [{"path": "/c/o", "range": "10-", "size_bytes": 10}],
            "Index 0: unsatisfiable range",
        ),
    ],
)
def test_what_is_refused(items: Any, problem: str) -> None:
    assert problems_of(items) == f"{problem}\n"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("!!", "data must be valid base64"),
        ("é", "data must be valid base64"),
        (5, "data must be valid base64"),
        (None, "data must be valid base64"),
        ("", "too small; each segment must be at least 1 byte."),
    ],
)
def test_inline_data_that_is_refused(data: Any, problem: str) -> None:
    items = [{"path": "/c/o"}, {"data": data}]
    assert problems_of(items) == f"Index 1: {problem}\n"
    assert problems_of([{"data": data}]) == f"Index 0: {problem}\n{ALL_INLINE}"


def test_each_wrong_segment_has_its_line() -> None:
    items = [{"path": "/c/o", "range": "x"}, None, {"path": "/c/o"}]
    assert problems_of(items) == "Index 0: invalid range\nIndex 1: not a JSON object\n"


def test_what_is_taken() -> None:
    items = [
        {"path": "c/a", "etag": None, "size_bytes": "7", "range": "-4"},
        {"path": "/c/♥/%ff", "range": None},
        {"data": base64.b64encode(b"abc").decode()},
    ]
    wanted = parse_wanted(json.dumps(items).encode(), "/c/man")
    assert wanted == [
        WantedSegment("c/a", None, 7, "-4"),
        WantedSegment("/c/♥/%ff"),
        WantedSegment(data=b"abc"),
    ]
    assert [segment.name for segment in wanted[:2]] == ["/c/a", "/c/♥/%ff"]
    assert wanted[0].range_within(7) == (3, 6)
    assert wanted[0].range_within(0) is None


def test_stored_and_read_back() -> None:
    entries = [
        Entry("/c/a", "ea", 10, ByteRange(2, 5), content_type="t/x", last_modified="then"),
        Entry("/c/b", "eb", 10, ByteRange(0, 9), is_large=True),
        inline_entry(b"abc"),
    ]
    stored = [entry.as_stored() for entry in entries]
    assert stored[0] == {
        "name": "/c/a",
        "bytes": 10,
        "hash": "ea",
        "content_type": "t/x",
        "last_modified": "then",
        "range": "2-5",
    }
    assert stored[1]["sub_slo"] is True
    assert "range" not in stored[1]
    assert load_entries(json.dumps(stored).encode()) == entries
    assert large_size(entries) == 4 + 10 + 3
    of_parts = f"ea:2-5;eb{md5(b'abc').hexdigest()}".encode()
    assert large_etag(entries) == md5(of_parts).hexdigest()


def test_a_manifest_for_another_put() -> None:
    entry = Entry("/c/a", "ea", 10, ByteRange(2, 5))
    wanted = {"path": "/c/a", "etag": "ea", "size_bytes": 10, "range": "2-5"}
    assert entry.as_wanted() == wanted
    assert inline_entry(b"a").as_wanted() == {"data": "YQ=="}


def test_an_old_manifest_has_the_size_of_large_segments_in_their_type() -> None:
    old = [{"name": "/c/a", "hash": '"ea"', "bytes": "99", "content_type": "t/x;swift_bytes=7"}]
    (entry,) = load_entries(json.dumps(old).encode())
    assert entry == Entry("/c/a", "ea", 7, ByteRange(0, 6), is_large=True, content_type="t/x")


@pytest.mark.parametrize(
    "text", [b"", b"{}}", b"5", b'["a"]', b'[{"name": "/c/o"}]', b'[{"data": "?"}]', b"[null]"]
)
def test_a_damaged_manifest(text: bytes) -> None:
    with pytest.raises(ManifestError):
        load_entries(text)
