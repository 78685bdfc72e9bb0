"""Signature version 2, by the examples that Amazon publishes."""

from __future__ import annotations

import pytest

from proxy.s3.wire.credentials import Message, parse_query
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.signature_v2 import claim_of_header_v2, claim_of_query_v2
from proxy.s3.wire.times import parse_http_date

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def message(method: str, path: str, query: str, headers: dict[str, str], resource: str) -> Message:
    return Message(method, path, parse_query(query), headers, resource)


@pytest.mark.parametrize(
    ("method", "path", "query", "date", "headers", "signature"),
    [
        (
            "GET",
            "/photos/puppy.jpg",
            "",
            "Tue, 27 Mar 2007 19:36:42 +0000",
            {},
            "bWq2s1WEIj+Ydj0vQ697zp+IXMU=",
        ),
        (
            "PUT",
            "/photos/puppy.jpg",
            "",
            "Tue, 27 Mar 2007 21:15:45 +0000",
            {"content-type": "image/jpeg", "content-length": "94328"},
            "MyyxeRY7whkBe+bq8fHCL/2kKUg=",
        ),
        (
            "GET",
            "/",
            "prefix=photos&max-keys=50&marker=puppy",
            "Tue, 27 Mar 2007 19:42:41 +0000",
            {},
            "htDYFYduRNen8P9ZfE/s9SuKy0U=",
        ),
        ("GET", "/", "acl", "Tue, 27 Mar 2007 19:44:46 +0000", {}, "c2WLPFtWHVgbEmeEG93a4cG37dM="),
    ],
)
def test_the_examples_of_amazon(
    method: str, path: str, query: str, date: str, headers: dict[str, str], signature: str
) -> None:
    given = {"date": date, "authorization": f"AWS {KEY}:{signature}", **headers}
    sent = message(method, path, query, given, f"/johnsmith{path}")
    claim = claim_of_header_v2(sent, parse_http_date(date) or 0.0, 900)
    assert (claim.access_key, claim.sign(SECRET)) == (KEY, signature)
    assert claim.is_proved_by(SECRET)
    assert not claim.is_proved_by("other")


def test_the_presigned_example_of_amazon() -> None:
    query = (
        "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D"
        "&Expires=1175139620"
    )
    sent = message("GET", "/photos/puppy.jpg", query, {}, "/johnsmith/photos/puppy.jpg")
    assert claim_of_query_v2(sent, 1175139620).is_proved_by(SECRET)
    with pytest.raises(S3Error) as caught:
        claim_of_query_v2(sent, 1175139621)
    assert caught.value.code == "AccessDenied"


@pytest.mark.parametrize(
    ("authorization", "date", "code"),
    [
        ("AWS nothing", "Tue, 27 Mar 2007 19:44:46 +0000", "InvalidArgument"),
        ("AWS a:b", "", "AccessDenied"),
        ("AWS a:b", "Tue, 27 Mar 2007 20:44:46 +0000", "RequestTimeTooSkewed"),
    ],
)
def test_wrong_headers_are_refused(authorization: str, date: str, code: str) -> None:
    now = parse_http_date("Tue, 27 Mar 2007 19:44:46 +0000") or 0.0
    sent = message("GET", "/", "", {"authorization": authorization, "date": date}, "/")
    with pytest.raises(S3Error) as caught:
        claim_of_header_v2(sent, now, 900)
    assert caught.value.code == code
