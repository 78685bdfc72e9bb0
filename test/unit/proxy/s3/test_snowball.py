"""PUT of an archive whose files become objects: which are stored, as whom, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import tarfile

import pytest
from policed_bucket import HOST, REFUSED, Cluster, allow, deny
from s3_pipeline import Pipeline, code_of, stored

from martlet.conf.constraints import Constraints
from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.s3 import snowball

SWITCH = {"X-Amz-Meta-Snowball-Auto-Extract": "true"}
PATH = "/bucket/snowball.tar"


def archive(*files: tuple[str, bytes], pax: dict[str, str] | None = None) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, body in files:
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(body), pax or {}
            tar.addfile(member, io.BytesIO(body))
    return made.getvalue()


FILES = archive(("a/b.txt", b"one"), ("./c", b""), ("ü", b"x" * 100_000))


def writes(pipeline: Pipeline) -> dict[str, bytes]:
    return {
        path.removeprefix("PUT ").encode("latin-1").decode(): body
        for path, body in zip(pipeline.storage.calls, pipeline.storage.bodies, strict=True)
        if path.startswith("PUT ")
    }


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_each_file_becomes_an_object(pack: type[bytes]) -> None:
    pipeline, body = Pipeline(stored), pack(FILES)
    status, headers, _ = pipeline.ask("PUT", PATH, SWITCH, body)
    assert (status, headers["etag"]) == (200, f'"{hashlib.md5(body).hexdigest()}"')
    assert writes(pipeline) == {
        "/v1/AUTH_test/bucket/a/b.txt": b"one",
        "/v1/AUTH_test/bucket/c": b"",
        "/v1/AUTH_test/bucket/ü": b"x" * 100_000,
    }


def test_a_prefix_and_metadata() -> None:
    pipeline = Pipeline(stored)
    pax = {"minio.metadata.X-Amz-Meta-Kind": "cat", "minio.metadata.Content-Type": "image/x"}
    headers = {**SWITCH, "X-Amz-Meta-Minio-Snowball-Prefix": "/in/", "X-Amz-Meta-All": "1"}
    status, *_ = pipeline.ask("PUT", PATH, headers, archive(("f", b"1"), pax=pax))
    assert status == 200
    written = next(e for e in pipeline.storage.seen if e["REQUEST_METHOD"] == "PUT")
    assert written["PATH_INFO"] == "/v1/AUTH_test/bucket/in/f"
    shown = {k: v for k, v in written.items() if k.startswith("HTTP_X_OBJECT_META_")}
    assert shown == {"HTTP_X_OBJECT_META_KIND": "cat", "HTTP_X_OBJECT_META_ALL": "1"}
    assert written["CONTENT_TYPE"] == "image/x"
    assert "HTTP_ETAG" not in written


def refuse_c(environ: Environ) -> Response:
    return Response(507) if environ["PATH_INFO"].endswith("/c") else stored(environ)


@pytest.mark.parametrize(("is_ignored", "expected"), [("true", 200), ("false", 503)])
def test_files_that_cannot_be_stored(is_ignored: str, expected: int) -> None:
    pipeline = Pipeline(refuse_c)
    headers = {**SWITCH, "X-Amz-Meta-Minio-Snowball-Ignore-Errors": is_ignored}
    status, _, body = pipeline.ask("PUT", PATH, headers, FILES)
    assert status == expected
    assert "/v1/AUTH_test/bucket/a/b.txt" in writes(pipeline)
    if expected != 200:
        assert b"1 files of the archive were not stored. The first: bucket/c: 503" in body


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"no archive", "InvalidRequest"),
        (FILES[:-60000], "InvalidRequest"),
        (archive(), "InvalidRequest"),
        (b"\x28\xb5\x2f\xfdzstd", "NotImplemented"),
        (gzip.compress(FILES)[:-20], "InvalidRequest"),
    ],
)
def test_bodies_that_are_no_archive(body: bytes, code: str) -> None:
    status, _, answer = Pipeline(stored).ask("PUT", PATH, SWITCH, body)
    assert (status < 502, code_of(answer)) == (True, code)


@pytest.mark.parametrize(
    "header", [{"X-Amz-Checksum-CRC32": "AAAAAA=="}, {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}]
)
def test_nothing_is_stored_of_a_body_that_is_another(header: dict[str, str]) -> None:
    pipeline = Pipeline(stored)
    status, _, body = pipeline.ask("PUT", PATH, {**SWITCH, **header}, FILES)
    assert (status, code_of(body)) == (400, "BadDigest")
    assert writes(pipeline) == {}


def test_strangers_store_nothing() -> None:
    pipeline = Pipeline(stored)
    status, _, body = pipeline.ask("PUT", PATH, SWITCH, FILES, key="wrong")
    assert (status, code_of(body)) == (403, "SignatureDoesNotMatch")
    status, _, body = pipeline.ask("PUT", PATH, SWITCH, FILES, user="test:other", key="otherkey")
    assert status == 400
    assert b"403 Forbidden" in body


def test_without_the_header_it_is_an_object() -> None:
    pipeline = Pipeline(stored)
    assert pipeline.ask("PUT", PATH, {}, FILES)[0] == 200
    assert writes(pipeline) == {"/v1/AUTH_test/bucket/snowball.tar": FILES}


@pytest.mark.parametrize(("name", "status"), [("open/a", 200), ("secret/b", 400)])
def test_a_policy_counts_for_each_file(name: str, status: int) -> None:
    cluster = Cluster(deny("PutObject", Resource="arn:aws:s3:::box/secret/*"))
    body = archive((name, b"1"))
    assert cluster.ask("blue:ann", "PUT", "/box/snowball.tar", SWITCH, body)[0] == status


def test_a_prefix_that_is_not_utf_8() -> None:
    headers = {**SWITCH, "X-Amz-Meta-Minio-Snowball-Prefix": "\xff"}
    cluster = Cluster(allow("PutObject"))
    assert cluster.ask(None, "PUT", "/box/a.tar", headers, FILES) == (400, "InvalidArgument")


def test_an_archive_is_not_larger_than_an_object_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snowball, "Constraints", lambda: Constraints(max_file_size=100))
    pipeline = Pipeline(stored)
    status, _, body = pipeline.ask("PUT", PATH, SWITCH, FILES)
    assert (status, code_of(body)) == (400, "EntityTooLarge")
    assert writes(pipeline) == {}


def test_an_archive_needs_a_signature() -> None:
    """Even where all may write: it takes room on the proxy's host."""
    cluster = Cluster(allow("PutObject"))
    sent = {"Host": HOST, **SWITCH}
    assert cluster.send(cluster.app, "PUT", "/box/o", {"Host": HOST}, b"1")[0] == 200
    assert cluster.send(cluster.app, "PUT", "/box/a.tar", sent, FILES) == REFUSED
