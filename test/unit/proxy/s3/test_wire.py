"""Addresses, XML in both directions, times and errors."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.addressing import Address, address_of, check_key, is_bucket_name
from proxy.s3.wire.errors import ERRORS, S3Error, error_document
from proxy.s3.wire.times import parse_amz_date, parse_http_date, xml_time_of_row
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

DOMAINS = ["s3.example.com", "localhost"]


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("s3.example.com", "/", Address("", "")),
        ("s3.example.com:8080", "/b", Address("b", "")),
        ("other", "/b/", Address("b", "")),
        ("other", "/b/k/l", Address("b", "k/l")),
        ("other", "/b//k", Address("b", "/k")),
        ("b.S3.example.com:80", "/k", Address("b", "k", True)),
        ("b.c.localhost", "/", Address("b.c", "", True)),
        ("[::1]:80", "/b/\xc3\xa9", Address("b", "é")),
    ],
)
def test_bucket_and_key_are_in_the_path_or_the_host(
    host: str, path: str, expected: Address
) -> None:
    assert address_of(host, path, DOMAINS) == expected


@pytest.mark.parametrize("path", ["/b/\xff", "/b/\x00"])
def test_paths_that_are_no_text_are_refused(path: str) -> None:
    with pytest.raises(S3Error) as caught:
        address_of("h", path, DOMAINS)
    assert caught.value.code == "InvalidURI"


@pytest.mark.parametrize(
    ("name", "suits_dns", "suits_all"),
    [
        ("abc", True, True),
        ("a.b-c.1", True, True),
        ("ab", False, False),
        ("a" * 63, True, True),
        ("a" * 64, False, True),
        ("Abc", False, True),
        ("a_b_c", False, True),
        ("a..b", False, True),
        ("a-.b", False, True),
        ("-ab", False, False),
        ("192.168.1.1", False, True),
        ("a+segments", False, False),
        ("abc\n", False, False),
    ],
)
def test_names_of_buckets(name: str, suits_dns: bool, suits_all: bool) -> None:
    assert is_bucket_name(name, True) == suits_dns
    assert is_bucket_name(name, False) == suits_all


def test_keys_have_at_most_1024_bytes() -> None:
    check_key("é" * 512)
    with pytest.raises(S3Error):
        check_key("é" * 512 + "a")


@given(st.text(), st.text())
def test_what_is_written_is_read_again(first: str, second: str) -> None:
    document = Document("Root")
    document.text("Key", first)
    with document.inside("In"):
        document.text("Value", second)
    body = document.finish()
    root = ElementTree.fromstring(body)
    assert root.tag == "{http://s3.amazonaws.com/doc/2006-03-01/}Root"
    found = parse_xml(body, "Root")
    kept = "".join(c if c in "\t\n\r" or c.isprintable() else "" for c in first)
    if kept == first:
        assert child_text(found, "Key") == first


BOMB = b"""<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<Delete><Object><Key>&b;</Key></Object></Delete>"""
OUTSIDE = b"""<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><Delete>&a;</Delete>"""


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        OUTSIDE,
        b"",
        b"<Delete>",
        b"<Other/>",
        b"<Delete>\x00</Delete>",
        b"\xff\xfe<",
        b"<Delete>" + b"<a>" * 30 + b"</a>" * 30 + b"</Delete>",
        b"<a>" * 100_000,
        b'<?xml version="1.0" encoding="nonsense"?><Delete/>',
    ],
)
def test_documents_that_are_refused(body: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        parse_xml(body, "Delete")
    assert caught.value.code == "MalformedXML"


@given(st.binary(max_size=300))
def test_any_bytes_are_a_document_or_refused(body: bytes) -> None:
    with suppress(S3Error):  # any other error fails the test
        parse_xml(body, "Delete")


def test_namespaces_do_not_matter() -> None:
    for attribute in (b"", b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'):
        root = parse_xml(b"<Delete%s><Key> a </Key><Quiet> true </Quiet></Delete>" % attribute,
                         "Delete")  # fmt: skip
        assert child_text(root, "Key") == " a "
        assert child_text(root, "Quiet") == "true"
        assert child_text(root, "Absent") is None
        assert len(list(children(root, "Key"))) == 1


def test_times() -> None:
    assert parse_amz_date("20130524T000000Z") == 1369353600
    assert parse_amz_date("20131324T000000Z") is None
    assert parse_http_date("Fri, 24 May 2013 00:00:00 GMT") == 1369353600
    assert parse_http_date("yesterday") is None
    assert xml_time_of_row("2013-05-24T00:00:00.000000") == "2013-05-24T00:00:00.000Z"
    assert xml_time_of_row("2013-05-24T00:00:00.000010") == "2013-05-24T00:00:01.000Z"


def test_an_error_is_a_document() -> None:
    error = S3Error("NoSuchKey", fields={"Key": "<k>"})
    root = ElementTree.fromstring(error_document(error, "/b/<k>", "tx1", "host1"))
    texts = {child.tag: child.text for child in root}
    assert texts == {
        "Code": "NoSuchKey",
        "Message": ERRORS["NoSuchKey"][1],
        "Key": "<k>",
        "Resource": "/b/<k>",
        "RequestId": "tx1",
        "HostId": "host1",
    }
