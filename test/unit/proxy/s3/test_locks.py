"""Object lock in requests: what is accepted, what is refused and with which error, what is sent."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable
from typing import Any

import pytest
from s3_pipeline import Pipeline, code_of

from martlet.http.environ import LOCKS_AT_LEAST, Environ
from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.replicas.locks import Rule, is_locked, lock_by_rule, rule_of
from proxy.s3.object_lock import lock_parts
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.locks import (
    HOLD_HEADER,
    MODE_HEADER,
    UNTIL_HEADER,
    Retention,
    configuration_document,
    hold_of_headers,
    hold_of_xml,
    parse_time,
    retention_document,
    retention_of_headers,
    retention_of_xml,
    stored_configuration,
    time_text,
)
from proxy.s3.wire.xml_in import parse_xml

NOW = 1_800_000_000.0
UNTIL = "2028-01-01T00:00:00.250Z"
UNTIL_SECONDS = 1830297600.25


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({MODE_HEADER: "GOVERNANCE"}, "InvalidArgument"),
        ({UNTIL_HEADER: UNTIL}, "InvalidArgument"),
        ({MODE_HEADER: "governance", UNTIL_HEADER: UNTIL}, "InvalidArgument"),
        ({MODE_HEADER: "GOVERNANCE", UNTIL_HEADER: "soon"}, "InvalidArgument"),
        ({MODE_HEADER: "GOVERNANCE", UNTIL_HEADER: "2028-01-01"}, "InvalidArgument"),
        ({MODE_HEADER: "GOVERNANCE", UNTIL_HEADER: "2020-01-01T00:00:00Z"}, "InvalidArgument"),
        ({MODE_HEADER: "GOVERNANCE", UNTIL_HEADER: "9000-01-01T00:00:00Z"}, "InvalidArgument"),
    ],
)
def test_bad_headers_are_refused(headers: dict[str, str], code: str) -> None:
    with pytest.raises(S3Error) as caught:
        retention_of_headers(headers, NOW)
    assert caught.value.code == code


def test_headers_of_a_write() -> None:
    headers = {MODE_HEADER: "COMPLIANCE", UNTIL_HEADER: UNTIL, HOLD_HEADER: "ON"}
    assert retention_of_headers(headers, NOW) == Retention("COMPLIANCE", UNTIL_SECONDS)
    assert hold_of_headers(headers) == "ON"
    assert retention_of_headers({}, NOW) is None
    assert hold_of_headers({}) is None
    with pytest.raises(S3Error, match="InvalidArgument"):
        hold_of_headers({HOLD_HEADER: "on"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (UNTIL, UNTIL_SECONDS),
        ("2028-01-01T01:00:00+01:00", 1830297600.0),
        ("2028-01-01T00:00:00", None),
        ("", None),
        ("2028-13-01T00:00:00Z", None),
    ],
)
def test_times(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


def test_a_time_is_shown_in_milliseconds() -> None:
    assert time_text(UNTIL_SECONDS) == UNTIL
    assert time_text(UNTIL_SECONDS - 0.0001) == UNTIL


def configuration(rule: str, enabled: str = "Enabled") -> bytes:
    text = f"<ObjectLockEnabled>{enabled}</ObjectLockEnabled>{rule}"
    return f"<ObjectLockConfiguration>{text}</ObjectLockConfiguration>".encode()


def default(inner: str) -> str:
    return f"<Rule><DefaultRetention>{inner}</DefaultRetention></Rule>"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (configuration("", "Disabled"), "MalformedXML"),
        (configuration("<Rule/>"), "MalformedXML"),
        (configuration(default("<Mode>GOVERNANCE</Mode>")), "MalformedXML"),
        (configuration(default("<Mode>x</Mode><Days>1</Days>")), "MalformedXML"),
        (configuration(default("<Days>1</Days>")), "MalformedXML"),
        (
            configuration(default("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>")),
            "MalformedXML",
        ),
        (configuration(default("<Mode>GOVERNANCE</Mode><Days>1.5</Days>")), "MalformedXML"),
        (configuration(default("<Mode>GOVERNANCE</Mode><Days>0</Days>")), "InvalidRetentionPeriod"),
        (
            configuration(default("<Mode>GOVERNANCE</Mode><Years>-1</Years>")),
            "InvalidRetentionPeriod",
        ),
        (
            configuration(default("<Mode>GOVERNANCE</Mode><Years>101</Years>")),
            "InvalidRetentionPeriod",
        ),
        (configuration(2 * default("<Mode>GOVERNANCE</Mode><Days>1</Days>")), "MalformedXML"),
    ],
)
def test_bad_configurations_are_refused(body: bytes, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        stored_configuration(parse_xml(body, "ObjectLockConfiguration"))
    assert caught.value.code == code


@pytest.mark.parametrize("rule", ["", default("<Mode>COMPLIANCE</Mode><Years>2</Years>")])
def test_a_configuration_is_shown_as_it_was_put(rule: str) -> None:
    stored = stored_configuration(parse_xml(configuration(rule), "ObjectLockConfiguration"))
    shown = parse_xml(configuration_document(stored), "ObjectLockConfiguration")
    assert stored_configuration(shown) == stored
    assert (rule_of(stored) is None) == (rule == "")


def test_the_rule_of_a_bucket() -> None:
    assert rule_of("GOVERNANCE days 30") == Rule("GOVERNANCE", "days", 30)
    assert str(Rule("COMPLIANCE", "years", 2)) == "COMPLIANCE years 2"
    for text in ("", "on", "GOVERNANCE", "GOVERNANCE weeks 1", "x days 1", "GOVERNANCE days -1"):
        assert rule_of(text) is None
    assert lock_by_rule({"object-lock": "on"}, NOW) == {}
    assert lock_by_rule({"object-lock": "COMPLIANCE years 1"}, NOW) == {
        "X-Backend-Lock-Mode": "COMPLIANCE",
        "X-Backend-Lock-Until": "1831536000.00000",
    }


@pytest.mark.parametrize(
    ("headers", "bypass", "expected"),
    [
        ({}, False, False),
        ({"x-backend-lock-hold": "on"}, True, True),
        ({"x-backend-lock-hold": "off"}, False, False),
        ({"x-backend-lock-mode": "COMPLIANCE", "x-backend-lock-until": "11"}, True, True),
        ({"x-backend-lock-mode": "COMPLIANCE", "x-backend-lock-until": "10"}, False, False),
        ({"x-backend-lock-mode": "GOVERNANCE", "x-backend-lock-until": "11"}, False, True),
        ({"x-backend-lock-mode": "GOVERNANCE", "x-backend-lock-until": "11"}, True, False),
    ],
)
def test_what_is_locked(headers: dict[str, str], bypass: bool, expected: bool) -> None:
    assert is_locked(headers, 10, bypass=bypass) == expected


def test_retention_in_xml() -> None:
    document = retention_document(Retention("GOVERNANCE", UNTIL_SECONDS))
    root = parse_xml(document, "Retention")
    assert retention_of_xml(root, NOW) == Retention("GOVERNANCE", UNTIL_SECONDS)
    assert retention_of_xml(parse_xml(b"<Retention/>", "Retention"), NOW) is None
    for inner, code in (
        ("<Mode>GOVERNANCE</Mode>", "MalformedXML"),
        ("<Mode>x</Mode><RetainUntilDate>2028-01-01T00:00:00Z</RetainUntilDate>", "MalformedXML"),
        ("<Other/>", "MalformedXML"),
        (
            "<Mode>GOVERNANCE</Mode><RetainUntilDate>2020-01-01T00:00:00Z</RetainUntilDate>",
            "InvalidArgument",
        ),
    ):
        with pytest.raises(S3Error) as caught:
            retention_of_xml(
                parse_xml(f"<Retention>{inner}</Retention>".encode(), "Retention"), NOW
            )
        assert caught.value.code == code
    with pytest.raises(S3Error, match="MalformedXML"):
        hold_of_xml(parse_xml(b"<LegalHold><Status>on</Status></LegalHold>", "LegalHold"))


# --- operations

LOCKED = {"X-Container-Sysmeta-Object-Lock": "on", "X-Versions-Enabled": "True"}
VERSION = "1795223541.91251"


class Bucket:
    """Answers as a bucket with one version of the object."""

    def __init__(self, lock: dict[str, str] | None = None, **container: str) -> None:
        self.container = container or LOCKED
        self.object = {
            "Etag": "abc",
            "X-Object-Version-Id": VERSION,
            **(lock or {}),
        }
        self.sent: list[tuple[str, dict[str, str]]] = []
        self.refusal: dict[str, str] | None = None

    def __call__(self, environ: Environ) -> Response:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if method not in ("GET", "HEAD"):
            sent = {
                n[15:].lower(): v for n, v in environ.items() if n.startswith("HTTP_X_BACKEND_L")
            }
            self.sent.append((f"{method} {path}?{environ['QUERY_STRING']}", sent))
            if self.refusal is not None:
                return Response(403, self.refusal)
        if path.count("/") == 3:
            return Response(204, self.container)
        return Response({"PUT": 201, "POST": 202, "DELETE": 204}.get(method, 200), self.object)


def put(pipeline: Pipeline, what: str, body: bytes, **headers: str) -> tuple[int, str]:
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    status, _, answer = pipeline.ask("PUT", what, {"Content-MD5": md5, **headers}, body)
    return status, code_of(answer)


RETENTION = (
    f"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>{UNTIL}</RetainUntilDate></Retention>"
)


def test_retention_of_a_version_is_put_and_got() -> None:
    bucket = Bucket()
    pipeline = Pipeline(bucket)
    assert put(pipeline, f"/bucket/k?retention=&versionId={VERSION}", RETENTION.encode()) == (
        200,
        "",
    )
    assert bucket.sent == [
        (
            f"POST /v1/AUTH_test/bucket/k?version-id={VERSION}",
            {"lock_mode": "GOVERNANCE", "lock_until": "1830297600.25000"},
        )
    ]
    status, _, body = pipeline.ask("GET", "/bucket/k?retention")
    assert (status, code_of(body)) == (404, "NoSuchObjectLockConfiguration")
    status, _, body = pipeline.ask("GET", "/bucket/k?legal-hold")
    assert (status, code_of(body)) == (404, "NoSuchObjectLockConfiguration")
    shown = Pipeline(
        Bucket(
            {
                "X-Backend-Lock-Mode": "COMPLIANCE",
                "X-Backend-Lock-Until": "1830297600.25000",
                "X-Backend-Lock-Hold": "on",
            }
        )
    )
    _, headers, _ = shown.ask("HEAD", "/bucket/k")
    assert headers[MODE_HEADER] == "COMPLIANCE"
    assert headers[UNTIL_HEADER] == UNTIL
    assert headers[HOLD_HEADER] == "ON"
    _, _, body = shown.ask("GET", "/bucket/k?retention")
    assert f"<RetainUntilDate>{UNTIL}<".encode() in body
    _, _, body = shown.ask("GET", "/bucket/k?legal-hold")
    assert b"<Status>ON<" in body


def test_a_document_needs_a_checksum() -> None:
    bucket = Bucket()
    for what in ("/bucket/k?retention", "/bucket/k?legal-hold", "/bucket?object-lock"):
        status, _, body = Pipeline(bucket).ask("PUT", what, {}, RETENTION.encode())
        assert (status, code_of(body)) == (400, "InvalidRequest")
    assert bucket.sent == []


def test_a_bucket_without_object_lock() -> None:
    bucket = Bucket(**{"X-Versions-Enabled": "True"})
    pipeline = Pipeline(bucket)
    hold = b"<LegalHold><Status>ON</Status></LegalHold>"
    assert put(pipeline, "/bucket/k?retention", RETENTION.encode()) == (400, "InvalidRequest")
    assert put(pipeline, "/bucket/k?legal-hold", hold) == (400, "InvalidRequest")
    assert put(pipeline, "/bucket/k", b"x", **{HOLD_HEADER: "ON"}) == (400, "InvalidRequest")
    assert bucket.sent == []
    status, _, body = pipeline.ask("GET", "/bucket?object-lock")
    assert (status, code_of(body)) == (404, "ObjectLockConfigurationNotFoundError")
    assert put(pipeline, "/bucket?object-lock", configuration("")) == (200, "")
    unversioned = Pipeline(Bucket(**{"X-Timestamp": "1"}))
    assert put(unversioned, "/bucket?object-lock", configuration("")) == (409, "InvalidBucketState")


def test_versioning_of_a_bucket_with_object_lock_stays() -> None:
    bucket = Bucket()
    body = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
    assert put(Pipeline(bucket), "/bucket?versioning", body) == (409, "InvalidBucketState")
    assert bucket.sent == []


def test_a_write_with_a_lock() -> None:
    bucket = Bucket()
    pipeline = Pipeline(bucket)
    until = time_text(time.time() + 1000)
    lock = {MODE_HEADER: "COMPLIANCE", UNTIL_HEADER: until, HOLD_HEADER: "OFF"}
    assert put(pipeline, "/bucket/k", b"x", **lock) == (200, "")
    (_, sent), *more = bucket.sent
    assert (sent["lock_mode"], sent["lock_hold"], more) == ("COMPLIANCE", "off", [])
    assert float(sent["lock_until"]) == parse_time(until)
    status, _, body = pipeline.ask("PUT", "/bucket/k", lock, b"x")
    assert (status, code_of(body)) == (400, "InvalidRequest")  # without a checksum


def test_a_locked_version_is_not_deleted() -> None:
    governed = {"X-Backend-Lock-Mode": "GOVERNANCE", "X-Backend-Lock-Until": "9999999999.00000"}
    bucket = Bucket(governed)
    pipeline = Pipeline(bucket)
    what = f"/bucket/k?versionId={VERSION}"
    status, _, body = pipeline.ask("DELETE", what)
    assert (status, code_of(body)) == (403, "AccessDenied")
    assert b"Access Denied because object protected by object lock." in body
    assert bucket.sent == []
    bypass = {"x-amz-bypass-governance-retention": "true"}
    assert pipeline.ask("DELETE", what, bypass)[0] == 204
    assert bucket.sent[0][1] == {"lock_bypass": "true"}


def test_a_refusal_of_the_object_servers_is_told_as_such() -> None:
    bucket = Bucket()
    bucket.refusal = {"X-Backend-Locked": "true"}
    status, _, body = Pipeline(bucket).ask("DELETE", f"/bucket/k?versionId={VERSION}")
    assert (status, code_of(body)) == (403, "AccessDenied")
    assert b"protected by object lock" in body
    bucket.refusal = {}
    status, _, body = Pipeline(bucket).ask("DELETE", f"/bucket/k?versionId={VERSION}")
    assert (status, code_of(body)) == (403, "AccessDenied")
    assert b"protected" not in body


def test_create_bucket_with_object_lock() -> None:
    seen: list[dict[str, str]] = []

    def answer(environ: Environ) -> Response:
        if environ["REQUEST_METHOD"] == "HEAD":
            return Response(404)
        seen.append({n: v for n, v in environ.items() if n.startswith("HTTP_X_")})
        return Response(201)

    header = "x-amz-bucket-object-lock-enabled"
    assert Pipeline(answer).ask("PUT", "/bucket", {header: "true"})[0] == 200
    assert seen[0]["HTTP_X_VERSIONS_ENABLED"] == "true"
    assert seen[0]["HTTP_X_CONTAINER_SYSMETA_OBJECT_LOCK"] == "on"
    assert Pipeline(answer).ask("PUT", "/bucket", {header: "false"})[0] == 200
    assert "HTTP_X_CONTAINER_SYSMETA_OBJECT_LOCK" not in seen[1]
    status, _, body = Pipeline(answer).ask("PUT", "/bucket", {header: "maybe"})
    assert (status, code_of(body)) == (400, "InvalidArgument")


class Parts:
    """Answers to requests about parts, in place of a call and its pipeline."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.sent: list[tuple[str, bool]] = []

    def request(self, method: str, container: str, name: str, *, headers: Any) -> Environ:
        assert (method, container, headers) == ("POST", "b+segments", {"X-Backend-Lock-Hold": "on"})
        return {}

    def send_or_refuse(
        self, environ: Environ, container: str, name: str, allowed: Iterable[int]
    ) -> tuple[int, Headers, list[bytes]]:
        self.sent.append((name, environ[LOCKS_AT_LEAST]))
        status = self.statuses.pop(0)
        if status != 202 and status not in allowed:
            raise S3Error("OperationAborted" if status == 409 else "AccessDenied")
        return status, Headers(), []


def test_a_part_that_another_request_locks_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is locked with a later timestamp, unless its lock is as strong."""
    slept: list[float] = []
    monkeypatch.setattr("proxy.s3.object_lock.time.sleep", slept.append)
    hold, part = {"X-Backend-Lock-Hold": "on"}, ("b+segments", "k/ID/1")
    parts: Any = Parts(409, 409, 202)
    lock_parts(parts, [part], hold)
    assert (parts.sent, len(slept)) == ([("k/ID/1", True)] * 3, 2)
    with pytest.raises(S3Error, match="AccessDenied"):
        lock_parts(Parts(403), [part], hold)  # type: ignore[arg-type]
    with pytest.raises(S3Error, match="OperationAborted"):
        lock_parts(Parts(*[409] * 4), [part], hold)  # type: ignore[arg-type]
