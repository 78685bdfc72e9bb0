"""Listings in three formats, readable by other people's parsers."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.http.listing import (
    JSON,
    PLAIN,
    TEXT_XML,
    XML,
    listing_content_type,
    render_account,
    render_container,
)
from martlet.http.response import HTTPException

NAMES = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)


def entry(name: str) -> dict[str, Any]:
    return {"name": name, "hash": "e", "bytes": 5, "content_type": name, "last_modified": "now"}


def in_xml(text: str) -> str:
    """XML 1.0 has no way to write these characters."""
    return "".join("\ufffd" if is_not_xml(ord(c)) else c for c in text)


def is_not_xml(code: int) -> bool:
    return (code < 0x20 and code not in (9, 10, 13)) or code in (0xFFFE, 0xFFFF)


@given(st.lists(NAMES, max_size=5), NAMES, NAMES)
def test_every_name_is_readable(names: list[str], subdir: str, container: str) -> None:
    listing = [entry(name) for name in names] + [{"subdir": subdir}]
    root = ElementTree.fromstring(render_container(listing, XML, container))
    assert root.get("name") == in_xml(container)
    assert [node.findtext("name") for node in root] == [in_xml(n) for n in [*names, subdir]]
    assert [node.findtext("content_type") for node in root][:-1] == [in_xml(n) for n in names]
    assert root[-1].get("name") == in_xml(subdir)
    assert json.loads(render_container(listing, JSON, container)) == listing
    plain = "".join(f"{name}\n" for name in [*names, subdir]).encode()
    assert render_container(listing, PLAIN, container) == plain
    assert render_account(listing, PLAIN, container) == plain


def test_an_account_in_xml() -> None:
    container = {"name": "c", "count": 1, "bytes": 2, "last_modified": "now"}
    listing = [container, {**container, "storage_policy": "<gold>"}, {"subdir": '"&'}]
    root = ElementTree.fromstring(render_account(listing, TEXT_XML, "a"))
    assert [[field.tag for field in node] for node in root] == [
        ["name", "count", "bytes", "last_modified"],
        ["name", "count", "bytes", "last_modified", "storage_policy"],
        [],
    ]
    assert root[1].findtext("storage_policy") == "<gold>"
    assert root[2].get("name") == '"&'


def test_nothing_stands_between_the_elements() -> None:
    """Clients take the first child of an element for its first field."""
    for text in (
        render_container([entry("o"), {"subdir": "s"}], XML, "c"),
        render_account([{"name": "c", "count": 1, "bytes": 2, "last_modified": "now"}], XML, "a"),
    ):
        assert [node.tail for node in ElementTree.fromstring(text).iter()] == [None] * len(
            list(ElementTree.fromstring(text).iter())
        )


@pytest.mark.parametrize(
    ("query", "accept", "expected"),
    [
        (None, None, PLAIN),
        ("json", None, JSON),
        ("JSON", "application/xml", JSON),
        ("xml", None, XML),
        ("other", None, PLAIN),
        ("", "application/json", JSON),
        (None, "*/*", PLAIN),
        (None, "application/*", JSON),
        (None, "text/xml", TEXT_XML),
        (None, "text/html, application/xml;q=0.9, */*;q=0.8", XML),
        (None, "text/plain;q=0.1, application/json;q=0.2", JSON),
        (None, "application/json;q=0, */*;q=0.5", PLAIN),
        (None, "text/*;q=0.5, text/plain;q=0", TEXT_XML),
        (None, "Application/JSON; charset=utf-8; q=1", JSON),
        (None, "application/json;q=2", JSON),
    ],
)
def test_which_format_is_wanted(query: str | None, accept: str | None, expected: str) -> None:
    assert listing_content_type(query, accept) == expected


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("image/png", 406),
        ("*/*;q=0", 406),
        ("json", 400),
        ("a/b/c", 400),
        ("*/json", 400),
        ("text/plain;q=x", 400),
        ("text/plain;q=-1", 400),
        ("text/plain;q=nan", 400),
    ],
)
def test_what_cannot_be_given(accept: str, status: int) -> None:
    with pytest.raises(HTTPException) as error:
        listing_content_type(None, accept)
    assert error.value.response.status == status
