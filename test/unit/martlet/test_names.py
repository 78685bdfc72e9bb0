"""Paths are split as Swift splits them, and names survive WSGI."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.words.names import (
    BadNameError,
    check_text,
    quote_path,
    split_path,
    str_to_wsgi,
    wsgi_to_str,
)

utf8_text = st.text(st.characters(blacklist_categories=["Cs"]))


@given(utf8_text)
def test_wsgi_strings_round_trip(text: str) -> None:
    assert wsgi_to_str(str_to_wsgi(text)) == text


@given(utf8_text)
def test_quoted_paths_are_plain_and_round_trip(text: str) -> None:
    quoted = quote_path(text)
    assert unquote_to_bytes(quoted) == text.encode()
    assert quoted.isascii()
    assert quoted.isprintable() or not quoted
    assert " " not in quoted


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(BadNameError):
        wsgi_to_str("\xff\xfe")


@pytest.mark.parametrize("name", ["a\x00b", pytest.param("\ud800", id="surrogate")])
def test_illegal_text(name: str) -> None:
    with pytest.raises(BadNameError):
        check_text(name)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("/a", 1), ["a"]),
        (("/a/", 1), ["a"]),
        (("/a/c", 1, 2), ["a", "c"]),
        (("/a/", 1, 2), ["a", None]),
        (("/a", 1, 2), ["a", None]),
        (("/v1/a/c/o/with/slash", 4, 4, True), ["v1", "a", "c", "o/with/slash"]),
        (("/v1/a/c/o//", 4, 4, True), ["v1", "a", "c", "o//"]),
        (("/v1/a/c//o", 4, 4, True), ["v1", "a", "c", "/o"]),
        (("/v1/a/c/", 2, 4, True), ["v1", "a", "c", None]),
    ],
)
def test_split_path(arguments: tuple[str, int], expected: list[str | None]) -> None:
    assert split_path(*arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("", 1),
        ("a", 1),
        ("/", 1),
        ("//", 1),
        ("/a/b", 1),
        ("/a//b", 3),
        ("//a", 2),
        ("/a/b/c", 1, 2),
    ],
)
def test_split_path_refuses(arguments: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="Invalid path"):
        split_path(*arguments)
