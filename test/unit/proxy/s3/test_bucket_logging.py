"""Access logs of buckets: the setting, the line about a request, and the delivery."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from s3_pipeline import INFO, Pipeline, code_of, stored
from storage_app import StorageApp

from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from proxy.s3.log_delivery import LogDelivery, Place
from proxy.s3.wire.access_line import Access, line_of, operation_name
from proxy.s3.wire.bucket_logging import SETTING, LogTarget, target_of_xml, xml_of_target
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.stored_documents import SYSMETA, headers_of

NONE = b"<BucketLoggingStatus/>"


def document(inner: str) -> bytes:
    enabled = f"<LoggingEnabled>{inner}</LoggingEnabled>"
    return f"<BucketLoggingStatus>{enabled}</BucketLoggingStatus>".encode()


TO_LOGS = document("<TargetBucket>logs</TargetBucket><TargetPrefix>in/</TargetPrefix>")
SYSMETA_OF_LOGS = {
    name.removeprefix(SYSMETA).lower(): value
    for name, value in headers_of(SETTING, TO_LOGS).items()
}


def test_a_document_and_its_target() -> None:
    assert target_of_xml(NONE) is None
    assert target_of_xml(TO_LOGS) == LogTarget("logs", "in/")
    for target in (None, LogTarget("logs", " <in>/")):
        assert target_of_xml(xml_of_target(target)) == target


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<Other/>", "MalformedXML"),
        (b"<BucketLoggingStatus><Any/></BucketLoggingStatus>", "MalformedXML"),
        (document("<TargetBucket>logs</TargetBucket>"), "MalformedXML"),
        (document("<TargetPrefix/>"), "MalformedXML"),
        (document("<TargetGrants><Grant/></TargetGrants>"), "NotImplemented"),
        (
            document("<TargetObjectKeyFormat><PartitionedPrefix/></TargetObjectKeyFormat>"),
            "NotImplemented",
        ),
        (
            document(f"<TargetBucket>l</TargetBucket><TargetPrefix>{'x' * 801}</TargetPrefix>"),
            "InvalidArgument",
        ),
    ],
)
def test_what_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        target_of_xml(body)
    assert refused.value.code == code


def _answer(environ: Environ) -> Response:
    if environ["REQUEST_METHOD"] == "HEAD":
        status = 404 if environ["PATH_INFO"].endswith("/none") else 204
        return Response(status)
    return stored(environ)


def test_the_setting_is_stored(tmp_path: Path) -> None:
    pipeline = Pipeline(_answer, logging_dir=str(tmp_path))
    status, _, body = pipeline.ask("GET", "/bucket?logging")
    assert (status, b"LoggingEnabled" in body) == (200, False)
    assert pipeline.ask("PUT", "/bucket?logging", body=TO_LOGS)[0] == 200
    key = "HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_LOGGING"
    assert pipeline.storage.environ[key].startswith("1:")
    assert pipeline.ask("PUT", "/bucket?logging", body=NONE)[0] == 200
    assert pipeline.storage.environ[key] == ""


def test_a_target_must_be_there(tmp_path: Path) -> None:
    pipeline = Pipeline(_answer, logging_dir=str(tmp_path))
    body = TO_LOGS.replace(b">logs<", b">none<")
    status, _, answer = pipeline.ask("PUT", "/bucket?logging", body=body)
    assert (status, code_of(answer)) == (400, "InvalidTargetBucketForLogging")


def test_without_a_directory_it_is_not_implemented() -> None:
    status, _, body = Pipeline(_answer).ask("PUT", "/bucket?logging", body=TO_LOGS)
    assert (status, code_of(body)) == (501, "NotImplemented")


ACCESS = Access(
    owner="AUTH_test",
    bucket="bucket",
    received=1_700_000_000.0,
    address="192.0.2.7",
    requester="test:tester",
    request_id="tx1",
    operation="REST.GET.OBJECT",
    key="ü k/1",
    request_line="GET /bucket/%C3%BC%20k/1?x=1 HTTP/1.1",
    status=206,
    error_code="",
    bytes_sent=5,
    object_size=100,
    seconds=0.0504,
    turn_around=0.02,
    referer="",
    user_agent='curl "8"\n',
    version="",
    signature_version="SigV4",
    authentication="AuthHeader",
    host="127.0.0.1:8080",
)


def test_the_line_has_amazons_form() -> None:
    assert line_of(ACCESS) == (
        "AUTH_test bucket [14/Nov/2023:22:13:20 +0000] 192.0.2.7 test:tester tx1 REST.GET.OBJECT "
        '%C3%BC%20k/1 "GET /bucket/%C3%BC%20k/1?x=1 HTTP/1.1" 206 - 5 100 50 20 "-" '
        '"curl %228%22%0A" - tx1 SigV4 - AuthHeader 127.0.0.1:8080 - - -'
    )


@pytest.mark.parametrize("field", ["requester", "host", "version", "address", "error_code"])
def test_a_text_cannot_break_out_of_its_field(field: str) -> None:
    line = line_of(ACCESS._replace(**{field: 'a b"\n]'}))
    assert len(shlex.split(line)) == len(shlex.split(line_of(ACCESS)))
    assert "\n" not in line


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (("GET", "", True, False), "REST.GET.OBJECT"),
        (("HEAD", "", False, False), "REST.HEAD.BUCKET"),
        (("PUT", "", True, True), "REST.COPY.OBJECT"),
        (("PUT", "uploadId", True, True), "REST.COPY.PART"),
        (("PUT", "uploadId", True, False), "REST.PUT.PART"),
        (("POST", "uploadId", True, False), "REST.POST.UPLOAD"),
        (("POST", "uploads", True, False), "REST.POST.UPLOADS"),
        (("POST", "delete", False, False), "REST.POST.MULTI_OBJECT_DELETE"),
        (("PUT", "tagging", True, False), "REST.PUT.OBJECT_TAGGING"),
        (("GET", "versioning", False, False), "REST.GET.VERSIONING"),
    ],
)
def test_names_of_operations(asked: tuple[str, str, bool, bool], name: str) -> None:
    assert operation_name(*asked) == name


def _logging(
    tmp_path: Path, answer: Callable[[Environ], Response], **options: Any
) -> tuple[Pipeline, list[tuple[Place, str]]]:
    """A pipeline whose bucket has the setting, and the lines that requests make."""
    pipeline = Pipeline(answer, logging_dir=str(tmp_path), **options)
    pipeline.storage.infos["/v1/AUTH_test/bucket"] = {**INFO, "sysmeta": SYSMETA_OF_LOGS}
    lines: list[tuple[Place, str]] = []
    assert pipeline.app._logs is not None
    pipeline.app._logs.delivery.put = lambda place, line: lines.append((place, line))  # type: ignore[method-assign]
    return pipeline, lines


def _logged(tmp_path: Path, **asked: Any) -> list[tuple[Place, str]]:
    """The lines that a request makes in a bucket with the setting."""
    body = asked.pop("answer", b"hello")
    pipeline, lines = _logging(
        tmp_path,
        lambda _: Response(asked["status"], {"Etag": "e", "Content-Length": "5"}, body),
    )
    pipeline.ask(asked["method"], asked["path"])
    return lines


def test_a_request_makes_a_line(tmp_path: Path) -> None:
    ((place, line),) = _logged(tmp_path, method="GET", path="/bucket/k?x=1", status=200)
    assert place == Place("AUTH_test", "logs", "in/")
    fields = shlex.split(re.sub(r"\[[^]]*\]", "time", line))
    assert fields[:8] == [
        *("AUTH_test", "bucket", "time", "-", "test:tester", "tx1", "REST.GET.OBJECT", "k"),
    ]
    assert fields[8:13] == ["GET /bucket/k?x=1 HTTP/1.0", "200", "-", "5", "5"]
    assert fields[19:22] == ["SigV4", "-", "AuthHeader"]


def test_a_refusal_has_its_code(tmp_path: Path) -> None:
    ((_, line),) = _logged(tmp_path, method="GET", path="/bucket/k", status=404)
    assert " 404 NoSuchKey " in line
    ((_, line),) = _logged(tmp_path, method="DELETE", path="/bucket/k", status=503, answer=b"")
    assert " REST.DELETE.OBJECT k " in line
    assert " 503 ServiceUnavailable " in line


@pytest.mark.parametrize("waits", ["/k", "/from"])
def test_a_late_error_has_its_code(tmp_path: Path, waits: str) -> None:
    """A copy fails after the status 200 has been sent, maybe before the client's account is known.

    :param waits: the object whose request waits for the status. That of the source is the first.
    """
    is_sent = Event()

    def answer(environ: Environ) -> Response:
        return Response(503) if environ["REQUEST_METHOD"] == "PUT" else stored(environ)

    pipeline, lines = _logging(tmp_path, answer, yield_frequency=0.001)
    app, auth = pipeline.app, pipeline.app._app

    def waiting_auth(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].endswith(waits):
            assert is_sent.wait(60)
        return auth(environ, start_response)

    def send(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = app(environ, start_response)
        is_sent.set()
        return body

    app._app = waiting_auth
    pipeline.app = send  # type: ignore[assignment]
    status, _, body = pipeline.ask("PUT", "/bucket/k", {"x-amz-copy-source": "bucket/from"})
    assert (status, code_of(body)) == (200, "ServiceUnavailable")
    ((_, line),) = lines
    assert " 200 ServiceUnavailable " in line


def test_other_buckets_make_none(tmp_path: Path) -> None:
    pipeline = Pipeline(stored, logging_dir=str(tmp_path))
    assert pipeline.app._logs is not None
    pipeline.app._logs.delivery.put = lambda *_: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    assert pipeline.ask("GET", "/bucket/k")[0] == 200
    assert pipeline.ask("GET", "/other/k")[0] == 200


# --- the delivery


class Target:
    """A delivery to a storage that answers with ``status``."""

    def __init__(self, directory: Path, status: int = 201, bytes_max: int = 10**6) -> None:
        self.status = status
        self.storage = StorageApp({}, lambda environ: Response(self.status))
        app, clock = self.storage, lambda: 1_700_000_000.0
        self.delivery = LogDelivery(app, directory / "lines", 300.0, bytes_max, clock)
        self.delivery._is_started = True  # no thread
        self.directory = directory / "lines"

    def put(self, *lines: str, bucket: str = "logs") -> None:
        for line in lines:
            self.delivery.put(Place("AUTH_ü", bucket, "in/"), line)
        self.delivery.store()

    @property
    def files(self) -> list[Path]:
        return list(self.directory.iterdir())


def test_lines_of_a_target_become_one_object(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.put("one", "two")
    target.put("three")
    target.put("other", bucket="more")
    target.delivery.deliver()
    assert target.storage.bodies == [b"one\ntwo\nthree\n", b"other\n"]
    path = target.storage.seen[0]["PATH_INFO"].encode("latin-1").decode()
    assert re.fullmatch(r"/v1/AUTH_ü/logs/in/2023-11-14-22-13-20-[0-9A-F]{16}", path)
    assert target.storage.seen[0]["swift.authorize_override"] is True
    assert target.files == []
    target.delivery.deliver()
    assert len(target.storage.seen) == 2
    assert target.delivery.counts == {"stored": 4, "failed": 0, "lost": 0}


def test_lines_wait_for_servers(tmp_path: Path) -> None:
    target = Target(tmp_path, status=503)
    target.put("one")
    target.delivery.deliver()
    assert len(target.files) == 1
    target.status = 201
    target.put("two")
    target.delivery.deliver()
    assert target.storage.bodies[1:] == [b"one\n", b"two\n"]
    assert target.files == []


@pytest.mark.parametrize("status", [403, 404, 413])
def test_a_target_that_is_gone_holds_no_others(tmp_path: Path, status: int) -> None:
    target = Target(tmp_path, status)
    target.put("one")
    target.delivery.deliver()
    assert target.files == []
    assert target.delivery.counts == {"stored": 0, "failed": 0, "lost": 1}


def test_lines_of_a_process_that_has_ended(tmp_path: Path) -> None:
    line = b'["a","logs","","one"]\n'
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1-1.events").write_bytes(b"%020d\n" % 21 + line + b"torn\n" + line[:5])
    target = Target(tmp_path)
    target.delivery.deliver()
    assert target.storage.bodies == [b"one\n"]
    assert target.files == []


def test_lines_without_room_are_counted(tmp_path: Path) -> None:
    target = Target(tmp_path, bytes_max=50)
    target.put("x" * 10, "y" * 10)
    assert target.delivery.counts["lost"] == 1
    target.delivery.deliver()
    assert target.storage.bodies == [b"x" * 10 + b"\n"]


@pytest.mark.parametrize(
    "options",
    [
        {"logging_dir": "here"},
        {"logging_interval": 0.0},
        {"logging_bytes_max": 5},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="logging_"):
        Pipeline(stored, **options)
