"""Signature version 4, by the examples that Amazon publishes and by changed requests."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.credentials import Claim, Message, parse_query
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.signature_v4 import claim_of_header, claim_of_query, parse_authorization
from proxy.s3.wire.times import parse_amz_date

KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TIME = "20130524T000000Z"
NOW = parse_amz_date(TIME) or 0.0
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = "examplebucket.s3.amazonaws.com"
EXAMPLES = [
    (
        "GET",
        "/test.txt",
        "",
        {"range": "bytes=0-9", "x-amz-content-sha256": EMPTY, "x-amz-date": TIME},
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    (
        "PUT",
        "/test$file.text",
        "",
        {
            "date": "Fri, 24 May 2013 00:00:00 GMT",
            "x-amz-content-sha256": (
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
            ),
            "x-amz-date": TIME,
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
        },
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    (
        "GET",
        "/",
        "lifecycle",
        {"x-amz-content-sha256": EMPTY, "x-amz-date": TIME},
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    (
        "GET",
        "/",
        "prefix=J&max-keys=2",
        {"x-amz-content-sha256": EMPTY, "x-amz-date": TIME},
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
]
PRESIGNED = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1"
    "%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


def authorization(headers: dict[str, str], signature: str, scope: str = "") -> str:
    scope = scope or f"{KEY}/20130524/us-east-1/s3/aws4_request"
    names = ";".join(sorted(headers))
    return f"AWS4-HMAC-SHA256 Credential={scope},SignedHeaders={names},Signature={signature}"


def message(
    method: str, path: str, query: str, headers: dict[str, str], signature: str, scope: str = ""
) -> Message:
    signed = {"host": HOST, **headers}
    given_headers = {**signed, "authorization": authorization(signed, signature, scope)}
    return Message(method, path, parse_query(query), given_headers)


def claim(sent: Message, now: float = NOW) -> Claim:
    return claim_of_header(sent, "us-east-1", now, 900)


def presigned(query: str = PRESIGNED, now: float = NOW, **headers: str) -> Claim:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = Message("GET", "/test.txt", parse_query(query), {"host": HOST, **named})
    return claim_of_query(sent, "us-east-1", now, 900)


@pytest.mark.parametrize(("method", "path", "query", "headers", "signature"), EXAMPLES)
def test_the_examples_of_amazon(
    method: str, path: str, query: str, headers: dict[str, str], signature: str
) -> None:
    found = claim(message(method, path, query, headers, signature))
    assert found.access_key == KEY
    assert found.sign(SECRET) == signature
    assert found.is_proved_by(SECRET)
    assert not found.is_proved_by(SECRET + "x")


def test_the_presigned_example_of_amazon() -> None:
    found = presigned()
    assert found.is_proved_by(SECRET)
    assert found.is_presigned
    assert found.content_sha256 == "UNSIGNED-PAYLOAD"


@given(st.sampled_from(["method", "path", "query", "header"]), st.text(max_size=8))
def test_any_change_of_what_is_signed_breaks_the_signature(part: str, text: str) -> None:
    method, path, query, headers, signature = EXAMPLES[0]
    added = "".join(c for c in text if c.isascii() and c.isalnum()) or "x"
    changed = {
        "method": message(method + added, path, query, headers, signature),
        "path": message(method, path + added, query, headers, signature),
        "query": message(method, path, f"{added}={added}", headers, signature),
        "header": message(method, path, query, {**headers, "range": added}, signature),
    }[part]
    assert not claim(changed).is_proved_by(SECRET)


@pytest.mark.parametrize("seconds", [-901, 901])
def test_a_request_of_another_time_is_refused(seconds: int) -> None:
    method, path, query, headers, signature = EXAMPLES[0]
    with pytest.raises(S3Error) as caught:
        claim(message(method, path, query, headers, signature), NOW + seconds)
    assert caught.value.code == "RequestTimeTooSkewed"
    assert claim(message(method, path, query, headers, signature), NOW + 900)


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        (f"{KEY}/20130524/us-east-1/s3/aws4", "AuthorizationHeaderMalformed"),
        (f"{KEY}/20130524/us-west-1/s3/aws4_request", "AuthorizationHeaderMalformed"),
        (f"{KEY}/20130524/us-east-1/ec2/aws4_request", "AuthorizationHeaderMalformed"),
        (f"{KEY}/20130523/us-east-1/s3/aws4_request", "AuthorizationHeaderMalformed"),
        ("/20130524/us-east-1/s3/aws4_request", "AuthorizationHeaderMalformed"),
    ],
)
def test_a_wrong_scope_is_refused(scope: str, code: str) -> None:
    method, path, query, headers, signature = EXAMPLES[0]
    with pytest.raises(S3Error) as caught:
        claim(message(method, path, query, headers, signature, scope))
    assert caught.value.code == code


def test_a_header_of_amazon_that_is_not_signed_is_refused() -> None:
    method, path, query, headers, signature = EXAMPLES[0]
    sent = message(method, path, query, headers, signature)
    sent = sent._replace(headers={**sent.headers, "x-amz-acl": "public-read"})
    with pytest.raises(S3Error) as caught:
        claim(sent)
    assert caught.value.fields == {"HeadersNotSigned": "x-amz-acl"}
    with pytest.raises(S3Error):
        presigned(x_amz_acl="public-read")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("Expires=86400", "Expires=604801", "AuthorizationQueryParametersError"),
        ("Expires=86400", "Expires=-1", "AuthorizationQueryParametersError"),
        ("Expires=86400", "Expires=1e3", "AuthorizationQueryParametersError"),
        ("X-Amz-Expires=86400&", "", "AuthorizationQueryParametersError"),
        ("HMAC-SHA256", "HMAC-SHA1", "AuthorizationQueryParametersError"),
        ("Date=20130524T000000Z", "Date=20130524", "AuthorizationQueryParametersError"),
        ("SignedHeaders=host", "SignedHeaders=range", "AccessDenied"),
    ],
)
def test_malformed_urls_are_refused(old: str, new: str, code: str) -> None:
    assert old in PRESIGNED
    with pytest.raises(S3Error) as caught:
        presigned(PRESIGNED.replace(old, new))
    assert caught.value.code == code


@pytest.mark.parametrize("seconds", [-901, 86401])
def test_urls_have_a_first_and_a_last_moment(seconds: int) -> None:
    with pytest.raises(S3Error) as caught:
        presigned(now=NOW + seconds)
    assert caught.value.code == "AccessDenied"
    assert presigned(now=NOW + 86400).is_proved_by(SECRET)


@given(st.text())
def test_any_header_is_parsed_or_refused(text: str) -> None:
    with suppress(S3Error):  # any other error fails the test
        parse_authorization(f"AWS4-HMAC-SHA256 {text}")


@given(st.text(alphabet=st.characters(max_codepoint=255)), st.text())
def test_a_signature_of_any_characters_is_only_wrong(signature: str, secret: str) -> None:
    method, path, query, headers, _ = EXAMPLES[0]
    sent = message(method, path, query, headers, signature.replace(",", ""))
    assert not claim(sent).is_proved_by(secret)


def test_each_header_has_its_own_signature_and_names() -> None:
    scope = "Credential=me/20150830/us-east-1/s3/aws4_request"
    for name in ("host", "host;x-amz-date", ";".join(["host"] * 200)):
        for signature in ("aa", "bb", ""):
            last = parse_authorization(
                f"AWS4-HMAC-SHA256 {scope}, SignedHeaders={name}, Signature={signature}"
            )
            first = parse_authorization(
                f"AWS4-HMAC-SHA256 Signature={signature},SignedHeaders={name}, {scope}"
            )
            assert last == first
            assert (last.signature, last.signed_headers) == (signature, tuple(name.split(";")))
