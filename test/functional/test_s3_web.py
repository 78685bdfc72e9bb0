"""What browsers do with the S3 API, through real processes."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from running_cluster import RunningCluster
from s3_client import new_bucket, s3_client, send

ORIGIN = {"Origin": "https://page.example.com"}


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    return s3_client(cluster.port)


@pytest.fixture
def bucket(s3: Any) -> str:
    return new_bucket(s3)


def test_a_script_uploads_with_a_presigned_url(
    s3: Any, bucket: str, cluster: RunningCluster
) -> None:
    rules = [
        {
            "ID": "pages",
            "AllowedOrigins": ["https://*.example.com"],
            "AllowedMethods": ["PUT", "GET"],
            "AllowedHeaders": ["content-*"],
            "ExposeHeaders": ["ETag"],
            "MaxAgeSeconds": 300,
        }
    ]
    params = {"Bucket": bucket, "Key": "k", "ContentType": "text/x"}
    url = s3.generate_presigned_url("put_object", params)
    asked = {
        **ORIGIN,
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "content-type",
    }
    before = send(cluster.port, "OPTIONS", url, asked)
    assert (before.status, before.code) == (403, "AccessForbidden")
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == rules
    answer = send(cluster.port, "OPTIONS", url, asked)
    assert (answer.status, answer.headers["access-control-max-age"]) == (200, "300")
    assert answer.headers["access-control-allow-origin"] == ORIGIN["Origin"]
    put = send(cluster.port, "PUT", url, {**ORIGIN, "Content-Type": "text/x"}, b"from a page")
    assert (put.status, put.headers["access-control-expose-headers"]) == (200, "ETag")
    missing = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "no"})
    refused = send(cluster.port, "GET", missing, ORIGIN)
    assert (refused.status, refused.code) == (404, "NoSuchKey")
    assert refused.headers["access-control-allow-origin"] == ORIGIN["Origin"]
    s3.delete_bucket_cors(Bucket=bucket)
    with pytest.raises(ClientError, match="NoSuchCORSConfiguration"):
        s3.get_bucket_cors(Bucket=bucket)
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    got = send(cluster.port, "GET", url, ORIGIN)
    assert got.body == b"from a page"
    assert "access-control-allow-origin" not in got.headers
