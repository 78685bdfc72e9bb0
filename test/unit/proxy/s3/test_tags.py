"""Tags: what is refused, and that what is accepted comes back."""

from __future__ import annotations

import string
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.tags import (
    OBJECT_TAGS_MAX,
    stored_text,
    tagging_document,
    tags_of_header,
    tags_of_stored,
    tags_of_xml,
)
from proxy.s3.wire.xml_in import parse_xml

_CHARACTERS = st.sampled_from(string.ascii_letters + string.digits + " +-=._:/@äß漢")
_KEYS = st.text(_CHARACTERS, min_size=1, max_size=30).filter(
    lambda key: not key.lower().startswith("aws:")
)
_TAGS = st.dictionaries(_KEYS, st.text(_CHARACTERS, max_size=30), max_size=OBJECT_TAGS_MAX)


@given(_TAGS)
def test_tags_come_back(tags: dict[str, str]) -> None:
    assert tags_of_xml(parse_xml(tagging_document(tags), "Tagging"), OBJECT_TAGS_MAX) == tags
    stored = stored_text(tags)
    assert stored.isascii()
    assert tags_of_stored(stored) == tags
    header = urlencode(tags, quote_via=quote).encode("utf-8").decode("latin-1")
    assert tags_of_header(header) == tags


@given(st.text(max_size=60))
def test_any_header_is_read_or_refused(text: str) -> None:
    codes = {"InvalidArgument", "InvalidTag", "BadRequest"}
    tags: dict[str, str] = {}
    code = None
    try:
        tags = tags_of_header(text.encode("utf-8").decode("latin-1"))
    except S3Error as error:
        code = error.code
    assert code is None or code in codes
    assert tags_of_stored(stored_text(tags)) == tags


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("a=1&a=2", "InvalidArgument"),
        ("a", "InvalidArgument"),
        ("a=%FF", "InvalidArgument"),
        ("=1", "InvalidTag"),
        ("aws:a=1", "InvalidTag"),
        ("AWS:a=1", "InvalidTag"),
        ("a%3Fb=1", "InvalidTag"),
        ("a=%00", "InvalidTag"),
        ("k" * 129 + "=1", "InvalidTag"),
        ("k=" + "v" * 257, "InvalidTag"),
        ("&".join(f"k{number}=" for number in range(11)), "BadRequest"),
        (
            "&".join(f"{quote('漢' * 120)}{number}={quote('漢' * 250)}" for number in range(9)),
            "InvalidTag",
        ),
    ],
)
def test_refused_headers(header: str, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        tags_of_header(header)
    assert caught.value.code == code


def test_no_tags() -> None:
    assert tags_of_header("") == tags_of_stored(None) == tags_of_stored("") == {}


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        ("", "MalformedXML"),
        ("<TagSet/><TagSet/>", "MalformedXML"),
        ("<TagSet><Tag><Key>a</Key></Tag></TagSet>", "MalformedXML"),
        ("<TagSet><Tag><Value>a</Value></Tag></TagSet>", "MalformedXML"),
        ("<TagSet>" + "<Tag><Key>a</Key><Value/></Tag>" * 2 + "</TagSet>", "InvalidTag"),
        ("<TagSet><Tag><Key/><Value/></Tag></TagSet>", "InvalidTag"),
    ],
)
def test_refused_documents(inner: str, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        tags_of_xml(parse_xml(f"<Tagging>{inner}</Tagging>".encode(), "Tagging"), 10)
    assert caught.value.code == code
