"""The answer to a completion that is sent again."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from s3_pipeline import INFO, Pipeline

from martlet.http.environ import MADE_OF, Environ
from martlet.http.response import Response
from proxy.replicas.gone_uploads import UPLOAD_ID
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
