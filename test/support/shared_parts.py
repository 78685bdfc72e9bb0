"""A second version of one multipart upload, as two completions at once make it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from multipart_parts import SECTION
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from swift_api import Account

from cluster.confs import PIPELINE

_NAME = "upload_of_header"
#: A filter right of the gatekeeper: clients cannot set system metadata.
_FILTER = """
def filter_factory(global_conf, **conf):
    def filter(app):
        def call(environ, start_response):
            upload_id = environ.pop("HTTP_X_TEST_UPLOAD", "")
            if upload_id:
                environ["HTTP_X_OBJECT_SYSMETA_S3API_UPLOAD_ID"] = upload_id
            return app(environ, start_response)
        return call
    return filter
"""


class Repeater:
    """Writes the object of an upload once more."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def repeat(self, bucket: str, upload_id: str, key: str = "k", *numbers: int) -> None:
        """Write the manifest of the parts ``numbers``, by default 1 and 2."""
        start = f"/{bucket}+segments/{key}/{upload_id}/"
        manifest = [{"path": f"{start}{number}"} for number in numbers or (1, 2)]
        query = {"multipart-manifest": "put"}
        url = self._account.url(bucket, key, **query)
        headers = {"X-Test-Upload": upload_id}
        answer = self._account.send("PUT", url, headers, json.dumps(manifest).encode())
        assert answer.status == 201, answer


@contextmanager
def repeater(cluster: RunningCluster, directory: Path) -> Iterator[Repeater]:
    """A `Repeater` with a proxy of its own."""
    (directory / f"{_NAME}.py").write_text(_FILTER)
    sections = {
        "filter:s3api": SECTION,
        f"filter:{_NAME}": {"paste.filter_factory": f"{_NAME}:filter_factory"},
    }
    pipeline = PIPELINE.replace(" slo ", f" {_NAME} slo ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(directory))
        proxy = OtherProxy(cluster, directory, pipeline, sections, workers=1)
        proxy.__enter__()
    try:
        with closing(Account(proxy.port)) as account:
            yield Repeater(account)
    finally:
        proxy.__exit__(None, None, None)


def versions_of(s3: Any, bucket: str, key: str = "k") -> list[str]:
    """The ids of the versions with data, newest first."""
    page = s3.list_object_versions(Bucket=bucket, Prefix=key)
    return [row["VersionId"] for row in page.get("Versions", []) if row["Key"] == key]


def read(s3: Any, bucket: str, version: str, key: str = "k") -> bytes:
    """The bytes of a version."""
    body: bytes = s3.get_object(Bucket=bucket, Key=key, VersionId=version)["Body"].read()
    return body
