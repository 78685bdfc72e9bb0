"""POST of a form: what is stored for it, and what is refused before anything is."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from s3_pipeline import HOST, Pipeline, code_of, stored

from proxy.s3.wire.signature_v4 import signing_key_of

TYPE = "multipart/form-data; boundary=xyz"
LATER = "2100-01-01T00:00:00.000Z"
#: Of the signatures. Whatever the day is now, a form is good until its policy expires.
DAY = "20251231"
CREDENTIAL = f"test:tester/{DAY}/us-east-1/s3/aws4_request"


def policy(*conditions: Any) -> str:
    both = [{"bucket": "bucket"}, ["starts-with", "$key", ""], *conditions]
    document = json.dumps({"expiration": LATER, "conditions": both})
    return base64.b64encode(document.encode()).decode()


def signed_v2(*conditions: Any, key: str = "testing", **fields: str) -> dict[str, str]:
    text = policy(*conditions)
    digest = hmac.new(key.encode(), text.encode(), hashlib.sha1).digest()
    signature = base64.b64encode(digest).decode()
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return {"key": "k", **named, "AWSAccessKeyId": "test:tester", "policy": text,
            "signature": signature}  # fmt: skip


def signed_v4(*conditions: Any, **fields: str) -> dict[str, str]:
    stated = {
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": CREDENTIAL,
        "x-amz-date": f"{DAY}T000000Z",
    }
    text = policy(*conditions, *({name: value} for name, value in stated.items()))
    key = signing_key_of("testing", DAY, "us-east-1")
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return {"key": "k", **named, **stated, "policy": text, "x-amz-signature": signature}


def form(fields: Mapping[str, str], file: bytes | None = b"data", name: str = "a.txt") -> bytes:
    parts = [
        f'--xyz\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    ]
    text = "".join(parts).encode()
    if file is not None:
        text += f'--xyz\r\nContent-Disposition: form-data; name="file"; filename="{name}"'.encode()
        text += b"\r\nContent-Type: text/x\r\n\r\n" + file + b"\r\n"
    return text + b"--xyz--\r\n"


def post(
    pipeline: Pipeline, body: bytes, path: str = "/bucket", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    return pipeline.send("POST", path, {"Host": HOST, "Content-Type": TYPE, **headers}, body)


@pytest.mark.parametrize("fields", [signed_v2(), signed_v4()], ids=["v2", "v4"])
def test_a_signed_form_stores_its_file(fields: dict[str, str]) -> None:
    pipeline = Pipeline(stored)
    status, headers, body = post(pipeline, form(fields))
    assert (status, body) == (204, b"")
    assert headers["etag"] == '"abc"'
    assert headers["location"] == f"http://{HOST}/bucket/k"
    assert pipeline.storage.calls == ["PUT /v1/AUTH_test/bucket/k"]
    assert pipeline.storage.bodies == [b"data"]
    assert "test:tester" in pipeline.storage.environ["REMOTE_USER"].split(",")


@pytest.mark.parametrize("path", ["/bucket", "/bucket/"])
def test_a_bucket_in_the_path_or_in_the_host(path: str) -> None:
    pipeline = Pipeline(stored, storage_domain=["s3.test"])
    assert post(pipeline, form(signed_v2()), path)[0] == 204
    sent = {"Host": "bucket.s3.test", "Content-Type": TYPE}
    status, headers, _ = pipeline.send("POST", "/", sent, form(signed_v2()))
    assert (status, headers["location"]) == (204, "http://bucket.s3.test/k")


def test_fields_become_headers() -> None:
    given = {
        "x-amz-meta-Color": "blau \u00fc",
        "Content-Type": "text/y",
        "acl": "private",
        "tagging": "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>",
        "x-amz-checksum-crc32": base64.b64encode(zlib.crc32(b"data").to_bytes(4, "big")).decode(),
        "x-other": "dropped",
    }
    conditions = [["starts-with", f"${name}", ""] for name in given]
    pipeline = Pipeline(stored)
    status, _, _ = post(pipeline, form({**given, **signed_v2(*conditions)}))
    assert status == 204
    environ = pipeline.storage.environ
    assert environ["HTTP_X_OBJECT_META_COLOR"].encode("latin-1") == "blau \u00fc".encode()
    assert environ["CONTENT_TYPE"] == "text/y"
    assert environ["HTTP_X_OBJECT_TRANSIENT_SYSMETA_S3API_TAGGING"] == "a=1"
    assert "HTTP_X_OTHER" not in environ
    wrong = {**given, "x-amz-checksum-crc32": "AAAAAA=="}
    status, _, body = post(Pipeline(stored), form({**wrong, **signed_v2(*conditions)}))
    assert (status, code_of(body)) == (400, "BadDigest")


def test_the_name_of_the_file_is_filled_in() -> None:
    pipeline = Pipeline(stored)
    fields = signed_v2(key="testing") | {"key": "up/${filename}"}
    assert post(pipeline, form(fields, name="C:\\\\dir\\\\b c.txt"))[0] == 204
    assert pipeline.storage.calls == ["PUT /v1/AUTH_test/bucket/up/b c.txt"]


@pytest.mark.parametrize(
    ("asked", "status"), [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)]
)
def test_the_status_that_the_form_asks_for(asked: str, status: int) -> None:
    fields = signed_v2({"success_action_status": asked}) | {"success_action_status": asked}
    found, _, body = post(Pipeline(stored), form(fields))
    assert found == status
    if status == 201:
        assert b"<Bucket>bucket</Bucket><Key>k</Key><ETag>&quot;abc&quot;</ETag>" in body
    else:
        assert body == b""


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://a.test/p?x=1", "https://a.test/p?x=1&bucket=bucket&key=k&etag=%22abc%22"),
        ("javascript:alert(1)", None),
        ("//a.test", None),
        ("http://[", None),
    ],
)
def test_redirects(url: str, location: str | None) -> None:
    fields = signed_v2({"success_action_redirect": url}) | {"success_action_redirect": url}
    status, headers, _ = post(Pipeline(stored), form(fields))
    assert status == (204 if location is None else 303)
    assert location is None or headers["location"] == location


BIG = signed_v2() | {"x-ignore-a": "a" * 20480}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (form(signed_v2(key="wrong")), 403, "SignatureDoesNotMatch"),
        (form(signed_v2() | {"AWSAccessKeyId": "test:nobody"}), 403, "InvalidAccessKeyId"),
        (form(signed_v2() | {"acl": "private"}), 403, "AccessDenied"),
        (form({"key": "k"}), 403, "AccessDenied"),
        (form({"key": "k", "policy": policy()}), 400, "InvalidArgument"),
        (form({**signed_v2(), "policy": ""}), 400, "InvalidArgument"),
        (form({**signed_v4(), "x-amz-date": "20200101T000000Z"}), 400, "InvalidArgument"),
        (form({**signed_v4(), "x-amz-credential": "a/b"}), 400, "InvalidArgument"),
        (form({**signed_v4(), "x-amz-algorithm": "x"}), 400, "InvalidArgument"),
        (form({**signed_v4(), "x-amz-signature": "0" * 64}), 403, "SignatureDoesNotMatch"),
        (form({**signed_v2(), "key": ""}), 400, "InvalidArgument"),
        (form(signed_v2(), None), 400, "InvalidArgument"),
        (form({**signed_v2(), "policy": "e30="}), 400, "InvalidPolicyDocument"),
        (form(BIG), 400, "MaxPostPreDataLengthExceeded"),
        (form({f"x-ignore-{n}": "" for n in range(300)}), 400, "MaxPostPreDataLengthExceeded"),
        (form({}).replace(b"xyz", b"abc"), 400, "MalformedPOSTRequest"),
        (form(signed_v2())[:-12], 400, "MalformedPOSTRequest"),
        (b"", 400, "MalformedPOSTRequest"),
        (form({"key": "a\x00b"}), 400, "MalformedPOSTRequest"),
        (form({"": "x" * 30000}), 400, "MalformedPOSTRequest"),
        (form(signed_v2(["eq", "$x-amz-meta-a", "a\nb"]) | {"x-amz-meta-a": "a\nb"}), 400,
         "InvalidArgument"),
        (form({**signed_v2(), "x-amz-security-token": "t"}), 400, "InvalidToken"),
        (form(signed_v2()).replace(b'name="policy"', b'name="key"'), 400, "InvalidArgument"),
        (form(signed_v2(["content-length-range", 0, 3])), 400, "EntityTooLarge"),
        (form(signed_v2(["content-length-range", 5, 9])), 400, "EntityTooSmall"),
    ],
)  # fmt: skip
def test_forms_that_are_refused(body: bytes, status: int, code: str) -> None:
    pipeline = Pipeline(stored)
    found, _, answer = post(pipeline, body)
    assert (found, code_of(answer)) == (status, code)
    assert pipeline.storage.bodies == []


def test_without_a_signature_a_form_needs_one_namespace() -> None:
    pipeline = Pipeline(stored)
    status, _, body = post(pipeline, form({"key": "k"}))
    assert (status, code_of(body)) == (403, "AccessDenied")
    assert pipeline.storage.calls == []


@pytest.mark.parametrize("path", ["/v1/AUTH_test/c", "/bucket/k", "/"])
def test_other_posts_are_no_forms(path: str) -> None:
    pipeline = Pipeline(stored)
    post(pipeline, form(signed_v2()), path)
    assert pipeline.storage.calls == [f"POST {path}"]


@given(st.binary(max_size=300))
def test_any_body_is_answered(body: bytes) -> None:
    pipeline = Pipeline(stored)
    for text in (body, form(signed_v2())[:-40] + body, form({"key": "k"})[:60] + body):
        status, _, answer = post(pipeline, text)
        assert status in (204, 400, 403), answer


@given(st.dictionaries(st.text("$kfx-amzetg{}\n\u00e4", max_size=8), st.text(max_size=8)))
def test_any_fields_are_answered(fields: dict[str, str]) -> None:
    pipeline = Pipeline(stored)
    status, _, answer = post(pipeline, form({**signed_v2(), **fields}))
    assert status in (204, 400, 403), answer
