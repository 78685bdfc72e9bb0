"""Steps of tests about the null version of a key, with boto3."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from running_cluster import RunningCluster

NULL = {"VersionId": "null"}


def versioning(s3: Any, at: dict[str, str], status: str) -> None:
    """Enable or suspend versioning of the key's bucket."""
    configuration = {"VersioningConfiguration": {"Status": status}}
    s3.put_bucket_versioning(Bucket=at["Bucket"], **configuration)


def put(s3: Any, at: dict[str, str], body: bytes) -> str:
    """Write the key and return the id of the version."""
    return str(s3.put_object(**at, Body=body).get("VersionId"))


def put_upload(s3: Any, at: dict[str, str], body: bytes) -> None:
    """Write the key as a multipart upload with one part."""
    upload = {**at, "UploadId": s3.create_multipart_upload(**at)["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=body)
    parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})


def listed(s3: Any, at: dict[str, str]) -> list[tuple[str, str, bool]]:
    """Each version as its kind, id, and whether it is the latest; delete markers first."""
    page = s3.list_object_versions(Bucket=at["Bucket"], Prefix=at["Key"])
    return [
        (kind, row["VersionId"], row["IsLatest"])
        for kind in ("DeleteMarkers", "Versions")
        for row in page.get(kind, [])
    ]


def body(s3: Any, at: dict[str, str], **version: str) -> bytes:
    """The body of a version, or the code of the refusal."""
    try:
        return bytes(s3.get_object(**at, **version)["Body"].read())
    except ClientError as error:
        return str(error.response["Error"]["Code"]).encode()


def missed_by(
    cluster: RunningCluster, node: int, write: Callable[[], Any], *, is_known: bool = False
) -> None:
    """Write while the object server of a node is stopped; it never gets the write.

    :param is_known: the proxy remembers that the node failed, and asks it last.
    """
    server = f"object-server-node{node}"
    os.kill(cluster.pid_of(server), signal.SIGSTOP)
    try:
        write()
    finally:
        cluster.kill_and_await_restart(server, *([] if is_known else ["proxy-server"]))
