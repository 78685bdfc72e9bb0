"""A header line that has come before means the same as one that is new."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from wsgi_calls import LIMITS

from martlet.wsgi import head
from martlet.wsgi.head import BadRequestError, parse_fields

PIECES = st.sampled_from(
    [b":", b" ", b"\t", b"\x00", b"\r", b"\x7f", b"\xc3\xbc", b"_", b"Host", b"a", b"(", b"v" * 128]
)
LINES = st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=4)


def parsed(lines: list[bytes]) -> object:
    try:
        return parse_fields(lines, LIMITS)
    except BadRequestError as error:
        return error.status, str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(LINES)
@example([b"A: b", b"a: c", b"A: b"])
@example([b"Host: h", b"Host: h"])
@example([b"A : b"])
def test_lines_that_are_kept(monkeypatch: pytest.MonkeyPatch, lines: list[bytes]) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(head, "_KNOWN_FIELD_BYTES_MAX", -1)
        unkept = parsed(lines)
    assert parsed(lines) == parsed(lines) == unkept


def test_what_is_kept_is_bounded() -> None:
    head._known_field.cache_clear()
    kept_bytes = head._KNOWN_FIELD_BYTES_MAX
    for number in range(5000):
        name = b"X-%d" % number
        assert parsed([name + b": v"]) == {name.decode().lower(): "v"}
    known = head._known_field.cache_info()
    assert known.maxsize is not None
    assert known.currsize == known.maxsize
    assert known.maxsize * kept_bytes <= 1 << 20
    head._known_field.cache_clear()
    parsed([b"A: " + b"v" * kept_bytes])
    assert head._known_field.cache_info().currsize == 0
