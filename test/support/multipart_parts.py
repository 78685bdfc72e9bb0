"""Multipart uploads, passes of the expirer, and a proxy that has unused parts deleted at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from expirer_pass import expire
from other_proxy import OtherProxy
from running_cluster import RunningCluster, await_true
from s3_client import s3_client
from swift_api import Account

from cluster.confs import PIPELINE

SECTION = {"use": "egg:martlet#s3api", "min_segment_size": "1", "replaced_parts_delay": "0"}


@contextmanager
def prompt_s3(cluster: RunningCluster, directory: Path, **arguments: Any) -> Iterator[Any]:
    """A client of a proxy that has unused parts deleted at once, and takes small ones.

    :param arguments: of `s3_client`.
    """
    with OtherProxy(cluster, directory, PIPELINE, {"filter:s3api": SECTION}, workers=1) as proxy:
        yield s3_client(proxy.port, **arguments)


def put(s3: Any, bucket: str) -> None:
    """Write over the object."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"new")


def upload(s3: Any, bucket: str, key: str = "k", *bodies: bytes) -> str:
    """Write an object of two parts, or of the parts ``bodies``; return the upload's id."""
    target = {"Bucket": bucket, "Key": key}
    target["UploadId"] = s3.create_multipart_upload(**target)["UploadId"]
    parts = []
    for number, body in enumerate(bodies or (b"one", b"two"), 1):
        etag = s3.upload_part(**target, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    s3.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})
    return target["UploadId"]


def parts_in(account: Account, bucket: str) -> list[str]:
    return account.call("GET", f"{bucket}+segments").lines


def await_parts(cluster: RunningCluster, account: Account, bucket: str, names: list[str]) -> None:
    """Run passes until these parts are left."""

    def is_done() -> bool:
        expire(cluster)
        return parts_in(account, bucket) == names

    await_true(is_done, f"the parts {names}")


def await_later_parts(cluster: RunningCluster, s3: Any, account: Account, bucket: str) -> None:
    """Run passes until parts are gone that were replaced after those of the bucket.

    They are in another container of the queue. So there are several, and two passes more.
    """
    for number in range(3):
        later = f"{bucket}-later-{number}"
        s3.create_bucket(Bucket=later)
        upload(s3, later)
        put(s3, later)
        await_parts(cluster, account, later, [])
    for _ in range(2):
        expire(cluster)
