"""The answer to a completion that is sent again."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
from s3_pipeline import INFO, Pipeline, code_of

from martlet.http.environ import MADE_BY_QUORUM, MADE_OF, Environ
from martlet.http.response import Response
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.s3 import uploads
from proxy.s3.object_headers import ETAG

PART = hashlib.md5(b"part").hexdigest()
WHOLE = hashlib.md5(bytes.fromhex(PART)).hexdigest() + "-1"
VERSION = "1795223541.91251"
BODY = (
    f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{PART}</ETag></Part>"
    "</CompleteMultipartUpload>"
).encode()


def completed_again(found: dict[str, str], info: dict[str, Any]) -> dict[str, str]:
    """The headers of the answer.

    :param found: the headers of the version of the upload, beside its ETag.
    :param info: that of the bucket.
    """

    def answer(environ: Environ) -> Response:
        if MADE_OF in environ:
            return Response(200, {ETAG: WHOLE, UPLOAD_ID: "ID", **found})
        return Response(404)

    pipeline = Pipeline(answer)
    pipeline.storage.infos["/v1/AUTH_test/bucket"] = info
    status, headers, body = pipeline.ask("POST", "/bucket/k?uploadId=ID", {}, BODY)
    assert status == 200
    assert WHOLE.encode() in body
    return headers


@pytest.mark.parametrize("name", ["X-Object-Version-Id", "X-Backend-Version-Id"])
def test_the_version_is_named(name: str) -> None:
    """Also while object_versioning cannot look up the bucket."""
    versioned = {**INFO, "sysmeta": {"versions-enabled": "True"}}
    assert completed_again({name: VERSION}, versioned)["x-amz-version-id"] == VERSION
    assert completed_again({}, versioned)["x-amz-version-id"] == "null"


def test_a_bucket_without_versions_has_no_ids() -> None:
    assert "x-amz-version-id" not in completed_again({}, INFO)


def completed_by_few(
    monkeypatch: pytest.MonkeyPatch, *answers: dict[str, str] | None
) -> tuple[int, str, float]:
    """The status, the code and the duration of a completion; the last answer stays.

    :param answers: to the questions for the version, each with the headers of one, or None.
    """
    passed = [0.0]
    left = list(answers)

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    def answer(environ: Environ) -> Response:
        if MADE_OF not in environ:
            return Response(404)
        assert environ[MADE_BY_QUORUM]
        found = left.pop(0) if len(left) > 1 else left[0]
        return Response(404) if found is None else Response(200, {UPLOAD_ID: "ID", **found})

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: passed[0])
    monkeypatch.setattr(uploads, "time", clock)
    pipeline = Pipeline(answer)
    status, _, body = pipeline.ask("POST", "/bucket/k?uploadId=ID", {}, BODY)
    return status, code_of(body), passed[0]


FEW, MANY = {ETAG: WHOLE, "X-Backend-Made-By-Few": "true"}, {ETAG: WHOLE}


def test_an_object_that_too_few_devices_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has to try again, after a bounded wait."""
    status, code, seconds = completed_by_few(monkeypatch, FEW)
    assert (status, code) == (503, "ServiceUnavailable")
    assert 1 < seconds <= 2


def test_an_object_that_other_devices_get_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, seconds = completed_by_few(monkeypatch, FEW, FEW, MANY)
    assert (status, seconds < 0.5) == (200, True)


@pytest.mark.parametrize("later", [None, {ETAG: "other-1"}])
def test_an_object_that_is_gone_meanwhile(
    monkeypatch: pytest.MonkeyPatch, later: dict[str, str] | None
) -> None:
    assert completed_by_few(monkeypatch, FEW, later)[:2] == (404, "NoSuchUpload")


def test_a_completion_with_other_parts_waits_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {ETAG: "other-1", "X-Backend-Made-By-Few": "true"}
    assert completed_by_few(monkeypatch, other) == (404, "NoSuchUpload", 0.0)
