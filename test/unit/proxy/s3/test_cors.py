"""Rules for cross-origin requests: what a document may say, and what it allows a script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from s3_pipeline import HOST, INFO, Pipeline, code_of

from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.s3.options import S3Options
from proxy.s3.settings import headers_of
from proxy.s3.wire.cors import (
    METHODS,
    Question,
    Rule,
    answer_of,
    asked_headers,
    document_of_rules,
    matches,
    rules_of_xml,
)
from proxy.s3.wire.errors import S3Error

PRESIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=test:tester/{day}/us-east-1/s3/"
PRESIGNED += "aws4_request&X-Amz-Date={now}&X-Amz-Expires=60&X-Amz-SignedHeaders=host;content-type"
PRESIGNED += "&X-Amz-Signature=0"


def cors(*rules: str) -> bytes:
    inner = "".join(f"<CORSRule>{rule}</CORSRule>" for rule in rules)
    return f"<CORSConfiguration>{inner}</CORSConfiguration>".encode()


def rule(origin: str = "https://a.test", method: str = "GET", more: str = "") -> str:
    both = f"<AllowedOrigin>{origin}</AllowedOrigin><AllowedMethod>{method}</AllowedMethod>"
    return both + more


ALL = """<ID>one</ID><AllowedOrigin>https://*.a.test</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>
<AllowedMethod>GET</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader>
<AllowedHeader>Content-Type</AllowedHeader><ExposeHeader>ETag</ExposeHeader>
<MaxAgeSeconds>60</MaxAgeSeconds>"""


def test_a_document_is_read_as_it_was_written() -> None:
    rules = rules_of_xml(cors(ALL, rule()))
    assert rules[0] == Rule(
        "one", ("https://*.a.test",), ("PUT", "GET"), ("x-amz-*", "Content-Type"), ("ETag",), 60
    )
    assert rules_of_xml(document_of_rules(rules)) == rules


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "MalformedXML"),
        (b"<CORSConfiguration/>", "MalformedXML"),
        (b"<Other/>", "MalformedXML"),
        (cors("<AllowedOrigin>*</AllowedOrigin>"), "MalformedXML"),
        (cors("<AllowedMethod>GET</AllowedMethod>"), "MalformedXML"),
        (cors(rule(origin="")), "MalformedXML"),
        (cors(rule(more="<MaxAgeSeconds>-1</MaxAgeSeconds>")), "MalformedXML"),
        (cors(rule(more="<MaxAgeSeconds>99999999999</MaxAgeSeconds>")), "MalformedXML"),
        (cors(rule(more=f"<ID>{'i' * 256}</ID>")), "MalformedXML"),
        (cors(rule(method="PATCH")), "InvalidRequest"),
        (cors(rule(method="get")), "InvalidRequest"),
        (cors(rule(origin="http://*.*.test")), "InvalidRequest"),
        (cors(rule(more="<AllowedHeader>x-*-*</AllowedHeader>")), "InvalidRequest"),
        (cors(rule(more="<ExposeHeader>x-*</ExposeHeader>")), "InvalidRequest"),
        (cors(rule(more="<ExposeHeader>a b</ExposeHeader>")), "InvalidRequest"),
        (cors(*[rule()] * 101), "InvalidRequest"),
    ],
)
def test_documents_that_are_refused(body: bytes, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        rules_of_xml(body)
    assert caught.value.code == code
    assert len(rules_of_xml(cors(*[rule()] * 100))) == 100


def asked(origin: str, method: str, headers: str = "") -> dict[str, str] | None:
    return answer_of(
        rules_of_xml(cors(ALL, rule("*"))), Question(origin, method, asked_headers(headers))
    )


def test_what_rules_allow() -> None:
    found = asked("https://x.a.test", "PUT", "X-Amz-Date, content-type")
    assert found == {
        "Access-Control-Allow-Origin": "https://x.a.test",
        "Access-Control-Allow-Methods": "PUT, GET",
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Allow-Headers": "x-amz-date, content-type",
        "Access-Control-Expose-Headers": "ETag",
        "Access-Control-Max-Age": "60",
        "Vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
    }
    other = asked("https://other.test", "GET")
    assert other is not None
    assert other["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in other
    assert asked("https://other.test", "PUT") is None
    assert asked("https://x.a.test", "PUT", "authorization") is None
    assert asked("https://other.test", "GET", "x-a") is None
    assert asked("https://x.a.test\r\nx: y", "GET") is None
    assert asked("https://x.a.test", "PUT", "x-amz-\r\nx: y") is None


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_a_star_stands_for_any_text(start: str, middle: str, end: str) -> None:
    start, end = start.replace("*", ""), end.replace("*", "")
    assert matches(f"{start}*{end}", start + middle + end)
    assert matches("*", middle)
    assert not matches(f"{start}*{end}x", start + end)


# --- the filter

FOUND = {**INFO, "sysmeta": {}}


def pipeline_with(document: bytes | None, **options: Any) -> Pipeline:
    pipeline = Pipeline(owner_answer, **options)
    stored = headers_of("Cors", document) if document else {}
    names = {k.removeprefix("X-Container-Sysmeta-").lower(): v for k, v in stored.items() if v}
    pipeline.storage.infos["/v1/AUTH_test/bucket"] = {**INFO, "sysmeta": names}
    return pipeline


def owner_answer(environ: Environ) -> Response:
    """The map of buckets says that ``bucket`` is of AUTH_test."""
    if environ["PATH_INFO"] == "/v1/.martlet_s3/buckets/bucket":
        return Response(200, {"X-Object-Sysmeta-S3Api-Account": "AUTH_test"})
    if environ["PATH_INFO"].startswith("/v1/.martlet_s3"):
        return Response(404)
    return Response(404 if environ["REQUEST_METHOD"] == "GET" else 200, {"Etag": "e"})


ASK = {"Origin": "https://x.a.test", "Access-Control-Request-Method": "PUT"}
SIGNED_ASK = {**ASK, "Access-Control-Request-Headers": "authorization,x-amz-date"}
Send = Callable[..., tuple[int, dict[str, str], bytes]]


def preflight(pipeline: Pipeline, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return pipeline.send("OPTIONS", path, {"Host": HOST, **sent})


def signed(path: str = "/bucket/k") -> str:
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{path}?{PRESIGNED.format(now=now, day=now[:8])}"


def test_preflights_in_one_namespace() -> None:
    pipeline = pipeline_with(cors(ALL), bucket_namespace="cluster", storage_domain=["s3.test"])
    for path, host in (("/bucket/k", HOST), ("/k", "bucket.s3.test"), (signed(), HOST)):
        status, headers, body = pipeline.send("OPTIONS", path, {**ASK, "Host": host})
        assert (status, body) == (200, b"")
        assert headers["access-control-allow-origin"] == "https://x.a.test"
        assert headers["access-control-max-age"] == "60"
    status, _, body = preflight(pipeline, "/bucket/k", **{**ASK, "Origin": "https://b.test"})
    assert (status, code_of(body)) == (403, "AccessForbidden")
    assert b"CORSResponse: This CORS request is not allowed." in body
    assert b"<Method>PUT</Method><ResourceType>OBJECT</ResourceType>" in body
    status, _, body = pipeline.send("OPTIONS", "/", {**ASK, "Host": "nobody.s3.test"})
    assert (status, code_of(body)) == (403, "AccessForbidden")
    assert b"CORSResponse: Bucket not found" in body


def test_a_bucket_without_rules_allows_nothing() -> None:
    pipeline = pipeline_with(None, bucket_namespace="cluster")
    status, _, body = preflight(pipeline, "/bucket/k", **ASK)
    assert (status, code_of(body)) == (403, "AccessForbidden")
    assert b"CORSResponse: CORS is not enabled for this bucket." in body


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Access-Control-Request-Method": "PUT"}, b"Origin request header needed"),
        ({"Origin": "https://x.a.test"}, b"Invalid Access-Control-Request-Method: null"),
        ({**ASK, "Access-Control-Request-Method": "PATCH"}, b"Request-Method: PATCH"),
    ],
)
def test_preflights_that_are_none(headers: dict[str, str], text: bytes) -> None:
    pipeline = pipeline_with(cors(ALL), bucket_namespace="cluster")
    status, _, body = preflight(pipeline, "/bucket/k", **headers)
    assert (status, code_of(body)) == (400, "BadRequest")
    assert text in body


def test_a_presigned_url_tells_the_account() -> None:
    pipeline = pipeline_with(cors(ALL))
    status, headers, _ = preflight(pipeline, signed(), **ASK)
    assert (status, headers["access-control-allow-origin"]) == (200, "https://x.a.test")
    assert pipeline.storage.calls == ["HEAD /v1/AUTH_test"]
    stranger = signed().replace("test:tester", "test:nobody")
    status, _, body = preflight(pipeline, stranger, **ASK)
    assert (status, code_of(body)) == (403, "AccessForbidden")
    status, _, body = preflight(pipeline, signed("/nothing/k"), **ASK)
    assert (status, code_of(body)) == (403, "AccessForbidden")


def test_the_option_is_for_buckets_of_unknown_accounts() -> None:
    status, _, body = preflight(pipeline_with(cors(ALL)), "/bucket/k", **SIGNED_ASK)
    assert (status, code_of(body)) == (403, "AccessForbidden")
    pipeline = pipeline_with(cors(ALL), cors_preflight_allow_origin=["https://*.a.test"])
    status, headers, _ = preflight(pipeline, "/bucket/k", **SIGNED_ASK)
    assert (status, headers["access-control-allow-origin"]) == (200, "https://x.a.test")
    assert headers["access-control-allow-headers"] == "authorization, x-amz-date"
    assert headers["access-control-allow-methods"] == ", ".join(METHODS)
    assert pipeline.storage.calls == []
    other = {**SIGNED_ASK, "Origin": "https://b.test"}
    assert preflight(pipeline, "/bucket/k", **other)[0] == 403


@pytest.mark.parametrize("path", ["/v1/AUTH_test/c/o", "/v1"])
def test_preflights_of_swifts_api_pass(path: str) -> None:
    pipeline = pipeline_with(cors(ALL), cors_preflight_allow_origin=["*"])
    preflight(pipeline, path, **SIGNED_ASK)
    assert pipeline.storage.calls == [f"OPTIONS {path}"]


def test_answers_name_the_origin_that_may_read_them() -> None:
    pipeline = pipeline_with(cors(ALL))
    for method, expected in (("PUT", 200), ("GET", 404)):
        status, headers, _ = pipeline.ask(method, "/bucket/k", sent={"Origin": "https://x.a.test"})
        assert status == expected
        assert headers["access-control-allow-origin"] == "https://x.a.test"
        assert headers["access-control-expose-headers"] == "ETag"
        assert headers["vary"].startswith("Origin")
    _, headers, _ = pipeline.ask("DELETE", "/bucket/k", sent={"Origin": "https://x.a.test"})
    assert "access-control-allow-origin" not in headers
    _, headers, _ = pipeline.ask("PUT", "/bucket/k")
    assert "access-control-allow-origin" not in headers


def test_refusals_name_the_origin_where_the_account_is_known() -> None:
    options = {"bucket_namespace": "cluster"}
    pipeline = pipeline_with(cors(ALL), **options)
    sent = {"Host": HOST, "Origin": "https://x.a.test", "Authorization": "AWS4-HMAC-SHA256 bad"}
    status, headers, body = pipeline.send("GET", "/bucket/k", sent)
    assert (status, code_of(body)) == (400, "AuthorizationHeaderMalformed")
    assert headers["access-control-allow-origin"] == "https://x.a.test"
    kind = "multipart/form-data; boundary=x"
    post = {"Host": HOST, "Origin": "https://x.a.test", "Content-Type": kind}
    pipeline = pipeline_with(cors(ALL + "<AllowedMethod>POST</AllowedMethod>"), **options)
    status, headers, body = pipeline.send("POST", "/bucket", post, b"no form")
    assert (status, code_of(body)) == (400, "MalformedPOSTRequest")
    assert headers["access-control-allow-origin"] == "https://x.a.test"
    status, headers, _ = pipeline_with(cors(ALL)).send("GET", "/bucket/k", sent)
    assert status == 400
    assert "access-control-allow-origin" not in headers


def test_rules_are_written_and_read() -> None:
    pipeline = pipeline_with(None)
    status, _, body = pipeline.ask("PUT", "/bucket?cors", body=cors(ALL))
    assert (status, body) == (200, b"")
    assert pipeline.storage.calls[-1] == "POST /v1/AUTH_test/bucket"
    assert "HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_CORS" in pipeline.storage.environ
    assert code_of(pipeline.ask("PUT", "/bucket?cors", body=cors(rule(method="X")))[2]) == (
        "InvalidRequest"
    )
    large = cors(rule(more=f"<ID>{' ' * 65536}</ID>"))
    assert code_of(pipeline.ask("PUT", "/bucket?cors", body=large)[2]) == "MaxMessageLengthExceeded"
    assert pipeline.ask("DELETE", "/bucket?cors")[0] == 204
    assert pipeline.storage.environ["HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_CORS"] == ""


def test_an_option_with_two_wildcards_is_refused() -> None:
    with pytest.raises(ValueError, match="one \\*"):
        S3Options(cors_preflight_allow_origin=["http://*.*.test"])
