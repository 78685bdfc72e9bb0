"""Frames: the golden files, what must be refused, and any bytes at all."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.grid import frames
from martlet.grid.frames import FrameError, decode_message, encode, short_reason
from martlet.grid.options import Options
from martlet.grid.outbox import Outbox
from martlet.grid.session import Session

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "grid"


def golden(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((GOLDEN / name).read_text("utf-8"))
    assert cases
    return cases


def value_of(given: Any) -> Any:
    """A value of a golden file; bytes are written as hex."""
    if isinstance(given, list):
        return [value_of(one) for one in given]
    if isinstance(given, dict) and given.keys() == {"hex"}:
        return bytes.fromhex(given["hex"])
    return given


def options_in(frame: list[Any]) -> dict[str, Any] | None:
    return frame[-1] if frame[0] in (frames.CHALLENGE, frames.PROOF) else None


def read_with_options(raw: bytes) -> None:
    for frame in decode_message(raw):
        Options.from_map(options_in(frame) or {})


def named(case: dict[str, Any]) -> str:
    return str(case["name"]).replace(" ", "_")


@pytest.mark.parametrize("case", golden("frames.json"), ids=named)
def test_golden_frames_are_read_and_written(case: dict[str, Any]) -> None:
    frame = value_of(case["frame"])
    raw = bytes.fromhex(case["hex"])
    assert encode(*frame) == raw
    assert decode_message(raw) == [frame]
    options = options_in(frame)
    if options is not None:
        assert Options.from_map(options).as_map() == options
        assert encode(*frame[:-1], Options.from_map(options).as_map()) == raw


@pytest.mark.parametrize("case", golden("variants.json"), ids=named)
def test_golden_variants_are_read(case: dict[str, Any]) -> None:
    assert decode_message(bytes.fromhex(case["hex"])) == [[frames.ANSWER, 128, b"\xc0"]]


@pytest.mark.parametrize("case", golden("malformed.json"), ids=named)
def test_golden_malformed_frames_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        read_with_options(bytes.fromhex(case["hex"]))


@pytest.mark.parametrize("case", golden("messages.json"), ids=named)
def test_golden_messages_are_read_and_written(case: dict[str, Any]) -> None:
    parts = [bytes.fromhex(one) for one in case["frames"]]
    raw = bytes.fromhex(case["hex"])
    outbox = Outbox(case["checksum"])
    for part in parts:
        outbox.add(part)
    assert outbox.take_message() == raw
    assert outbox.take_message() is None
    if case["checksum"]:
        assert zlib.crc32(raw[:-4]) == int.from_bytes(raw[-4:], "big")
        raw = raw[:-4]
    assert decode_message(raw) == [frame for part in parts for frame in decode_message(part)]


def frame_of(body: bytes, version: int = 1) -> bytes:
    return (len(body) + 1).to_bytes(4, "big") + bytes([version]) + body


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (b"", "empty"),
        (b"\0\0", "within the length"),
        (frame_of(b""), "is empty"),
        (frame_of(b"\x92\x0d\x01", version=7), "version 7"),
        ((1 << 30).to_bytes(4, "big") + b"\1", "longer than its message"),
        (frame_of(b"\xdd\xff\xff\xff\xff"), "MessagePack"),  # an array of 4 G elements
        (frame_of(b"\xc6\xff\xff\xff\xff"), "MessagePack"),
        (frame_of(b"\x91" * 5000), "MessagePack"),  # too deep
        (frame_of(b"\x92\x0d\x01\x01"), "MessagePack"),  # more than one value
        (frame_of(b"\x93\x0d\x01\x81\x90\x01"), "MessagePack"),  # a key that is an array
        (frame_of(b"\xc0"), "not an array"),
        (encode(-1), "unsigned"),
        (encode(True, 1), "unsigned"),
        (encode(frames.CANCEL, True), "CANCEL has a wrong number"),
        (encode(frames.CANCEL, 1.0), "CANCEL has a wrong number"),
        (encode(frames.ERROR, 1, 2), "ERROR has 2 elements instead of 3"),
        (encode(frames.ERROR, 1, 2, "r" * 1025), "wrong reason"),
        (encode(frames.REQUEST, 1, "ä" * 33, 0, 0, b""), "wrong name"),
        (encode(frames.CHALLENGE, bytes(32), [bytes(7)], {}), "key ids"),
        (encode(frames.CHALLENGE, bytes(32), [bytes(8)] * 3, {}), "key ids"),
        (encode(frames.CHALLENGE, bytes(32), [], {1: 2}), "options"),
    ],
)
def test_malformed_messages_are_refused_with_a_sentence(message: bytes, sentence: str) -> None:
    with pytest.raises(FrameError, match=sentence):
        decode_message(message)


def test_names_and_reasons_of_the_greatest_length_pass() -> None:
    longest = [
        [frames.REQUEST, 1, "ä" * 32, 0, 0, b""],
        [frames.ERROR, 1, 2, "r" * 1024],
        [frames.DATA, 1, bytes(frames.DATA_BYTES_MAX)],
    ]
    assert decode_message(b"".join(encode(*frame) for frame in longest)) == longest


def test_unknown_types_and_added_elements_are_left_out() -> None:
    added = encode(frames.CANCEL, 5, {1: [None]}, msgpack.ExtType(5, b"x"))
    assert decode_message(encode(99, "later") + added) == [[frames.CANCEL, 5]]


def test_the_largest_payload_fits_into_a_message_with_checksum() -> None:
    longest = Options(max_payload=frames.PAYLOAD_BYTES_MAX, checksum=True)
    session = Session(True, Options(), longest, 0.0)
    session.request("n" * 64, bytes(frames.PAYLOAD_BYTES_MAX), None, 0.0, 1e9, is_resent=True)
    message = session.take_message()
    assert message is not None
    assert frames.PAYLOAD_BYTES_MAX < len(message) <= frames.MESSAGE_BYTES_MAX


def test_a_reason_is_cut_between_characters() -> None:
    assert short_reason("ä" * 600) == "ä" * 512
    assert short_reason("xä" * 600) == ("xä" * 342)[:683]
    assert len(short_reason("\udcff" * 2000).encode()) <= frames.REASON_BYTES_MAX


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_one_error(raw: bytes) -> None:
    for message in (raw, frame_of(raw)):
        try:
            decode_message(message)
        except FrameError:
            pass  # every other error fails the test


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(sorted({1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 99})), st.data()
)
def test_any_elements_are_a_frame_or_one_error(kind: int, data: st.DataObject) -> None:
    elements = data.draw(st.lists(VALUES, max_size=7))
    try:
        decoded = decode_message(encode(kind, *elements))
    except FrameError:
        return
    assert [frame[0] for frame in decoded] == ([kind] if kind != 99 else [])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"checksum": 1}, "checksum"),
        ({"max_requests": True}, "max_requests"),
        ({"window": -1}, "window"),
        ({"name": "ä" * 129}, "name"),
        ({"max_payload": 0}, "max_payload"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FrameError, match=sentence):
        Options.from_map(given)


def test_unknown_options_are_left_out() -> None:
    assert Options.from_map({"later": [1], "window": 5}) == Options(window=5)
