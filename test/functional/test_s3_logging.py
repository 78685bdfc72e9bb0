"""Access logs of buckets through a real proxy: lines become objects in the target bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from other_proxy import OtherProxy
from running_cluster import RunningCluster, await_true
from s3_client import new_bucket, s3_client

from cluster.confs import PIPELINE


def test_requests_are_in_the_log(cluster: RunningCluster, tmp_path: Path) -> None:
    section = {
        "use": "egg:martlet#s3api",
        "logging_dir": str(tmp_path / "lines"),
        "logging_interval": "0.5",
    }
    pipeline = PIPELINE.replace(" console ", " ")
    with OtherProxy(cluster, tmp_path, pipeline, {"filter:s3api": section}, workers=1) as proxy:
        s3 = s3_client(proxy.port)
        bucket, logs = new_bucket(s3), new_bucket(s3)
        enabled = {"TargetBucket": logs, "TargetPrefix": "of/"}
        status = {"LoggingEnabled": enabled}
        s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus=status)
        assert s3.get_bucket_logging(Bucket=bucket)["LoggingEnabled"] == enabled
        s3.put_object(Bucket=bucket, Key="ü k", Body=b"12345")
        s3.get_object(Bucket=bucket, Key="ü k", Range="bytes=1-3")["Body"].read()
        with pytest.raises(ClientError):
            s3.get_object(Bucket=bucket, Key="none")
        wanted = {
            "REST.PUT.OBJECT %C3%BC%20k 200 -",
            "REST.GET.OBJECT %C3%BC%20k 206 -",
            "REST.GET.OBJECT none 404 NoSuchKey",
        }
        await_true(lambda: wanted <= set(_lines(s3, logs)), "all lines")
        refused = {"LoggingEnabled": {**enabled, "TargetBucket": "no-such-bucket"}}
        with pytest.raises(ClientError) as caught:
            s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus=refused)
        assert caught.value.response["Error"]["Code"] == "InvalidTargetBucketForLogging"
        s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
        assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)


def _lines(s3: Any, logs: str) -> list[str]:
    """The operation, the key, the status and the error of each line."""
    found = []
    for row in s3.list_objects_v2(Bucket=logs, Prefix="of/").get("Contents", []):
        body = s3.get_object(Bucket=logs, Key=row["Key"])["Body"].read().decode()
        for line in body.splitlines():
            before, request, after = line.split('"')[:3]
            assert request.endswith("HTTP/1.1")
            found.append(" ".join([*before.split()[-2:], *after.split()[:2]]))
    return found
