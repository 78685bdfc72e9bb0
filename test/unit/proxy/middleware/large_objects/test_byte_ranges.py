"""The Range header and multipart bodies for content that a filter assembles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.middleware.large_objects.byte_ranges import ByteRange, Multipart, parse_ranges


@pytest.mark.parametrize(
    ("header", "ranges"),
    [
        (None, None),
        ("", None),
        ("items=0-1", None),
        ("bytes", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=5-2", None),
        ("bytes=0-1,x", None),
        ("bytes=0-1,", None),
        ("bytes=0-", [(0, 9)]),
        ("bytes = 2 - 5", [(2, 5)]),
        ("BYTES=2-5", [(2, 5)]),
        ("bytes=2-500", [(2, 9)]),
        ("bytes=-3", [(7, 9)]),
        ("bytes=-30", [(0, 9)]),
        ("bytes=-0", []),
        ("bytes=10-", []),
        ("bytes=10-11,0-0", [(0, 0)]),
        ("bytes=4-5,0-1", [(4, 5), (0, 1)]),
        (f"bytes=0-{'9' * 5000}", [(0, 9)]),
        (f"bytes={'9' * 5000}-", []),
        (f"bytes=0-{'0' * 5000}3", [(0, 3)]),
        ("bytes=" + ",".join(["0-0"] * 51), []),
        ("bytes=0-5,1-6,2-7", []),
    ],
)
def test_ranges_of_ten_bytes(header: str | None, ranges: list[tuple[int, int]] | None) -> None:
    assert parse_ranges(header, 10) == ranges


@given(st.integers(0, 40), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 40))
def test_a_range_is_what_a_slice_gives(first: int, last: int | None, size: int) -> None:
    data = bytes(range(size))
    if last is not None and last < first:
        return
    wanted = data[first:] if last is None else data[first : last + 1]
    ranges = parse_ranges(f"bytes={first}-{'' if last is None else last}", size)
    assert ranges is not None
    assert b"".join(data[r.first : r.last + 1] for r in ranges) == wanted


def test_the_frame_is_as_long_as_it_says() -> None:
    ranges = [ByteRange(0, 3), ByteRange(5, 9)]
    frame = Multipart("text/plain", 10, ranges)
    body = b"".join(frame.head(r) + b"x" * r.length + frame.part_end for r in ranges) + frame.tail
    assert len(body) == frame.length
    boundary = frame.content_type.partition("=")[2].encode()
    assert body.split(b"--" + boundary) == [
        b"",
        b"\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-3/10\r\n\r\nxxxx\r\n",
        b"\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-9/10\r\n\r\nxxxxx\r\n",
        b"--",
    ]
