"""CORS, forms and keys of clients by the S3 API, through real processes."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
import requests
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


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_browser_posts_a_form(bucket: str, cluster: RunningCluster, version: str) -> None:
    s3 = s3_client(cluster.port, signature_version=version)
    conditions: list[Any] = [
        ["content-length-range", 3, 300_000],
        ["starts-with", "$Content-Type", "text/"],
        {"x-amz-meta-a": "b"},
        {"success_action_status": "201"},
    ]
    more = {"x-amz-meta-a": "b", "success_action_status": "201", "Content-Type": "text/x"}
    form = s3.generate_presigned_post(bucket, "up/${filename}", more, conditions)

    def post(body: bytes, **changed: str) -> requests.Response:
        fields = {**form["fields"], **changed}
        files = {"file": ("a b.txt", body)}
        return requests.post(form["url"], data=fields, files=files, timeout=60)

    data = bytes(range(256)) * 1000
    answer = post(data)
    assert (answer.status_code, "<PostResponse>" in answer.text) == (201, True), answer.text
    stored = s3.get_object(Bucket=bucket, Key="up/a b.txt")
    assert (stored["Body"].read(), stored["ContentType"]) == (data, "text/x")
    assert (stored["Metadata"], stored["ETag"]) == ({"a": "b"}, answer.headers["ETag"])
    for changed, body, code in (
        ({"key": "up/large"}, b"x" * 300_001, "EntityTooLarge"),
        ({"key": "up/small"}, b"xx", "EntityTooSmall"),
        ({"key": "down"}, b"xxx", "AccessDenied"),
        ({name: "0" for name in form["fields"] if "ignature" in name}, b"xxx",
         "SignatureDoesNotMatch"),
    ):  # fmt: skip
        assert f"<Code>{code}</Code>" in post(body, **changed).text
    assert [found["Key"] for found in s3.list_objects(Bucket=bucket)["Contents"]] == ["up/a b.txt"]


def test_a_customers_key(s3: Any, bucket: str) -> None:
    def come_by_tls(request: Any, **_: Any) -> None:
        request.headers["X-Forwarded-Proto"] = "https"

    s3.meta.events.register("before-sign.s3", come_by_tls)
    key, other = {"SSECustomerAlgorithm": "AES256"}, {"SSECustomerAlgorithm": "AES256"}
    key["SSECustomerKey"], other["SSECustomerKey"] = "k" * 32, "o" * 32
    at, body = {"Bucket": bucket, "Key": "k"}, bytes(range(251)) * 4000
    put = s3.put_object(**at, Body=body, **key)
    assert put["SSECustomerAlgorithm"] == "AES256"
    assert s3.get_object(**at, **key)["Body"].read() == body
    part = s3.get_object(**at, **key, Range="bytes=100001-700000")
    assert part["Body"].read() == body[100001:700001]
    assert s3.head_object(**at, **key)["ETag"] == put["ETag"]
    for wrong, status in (({}, 400), (other, 403)):
        with pytest.raises(ClientError) as caught:
            s3.get_object(**at, **wrong)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    sealed_again = in_parts(s3, bucket, body, key)
    got = s3.get_object(Bucket=bucket, Key="parts", **key)
    assert got["Body"].read() == sealed_again
    across = f"bytes={len(sealed_again) - 600_000}-{len(sealed_again) - 400_000}"
    got = s3.get_object(Bucket=bucket, Key="parts", **key, Range=across)
    assert got["Body"].read() == sealed_again[-600_000:-399_999]
    second = s3.get_object(Bucket=bucket, Key="parts", **key, PartNumber=2, ChecksumMode="ENABLED")
    assert second["Body"].read() == body[1000:501_000]
    sum_of_part = hashlib.sha256(body[1000:501_000]).digest()
    assert base64.b64decode(second["ChecksumSHA256"]) == sum_of_part
    of_source = {f"CopySource{name}": value for name, value in key.items()}
    for name, wanted in (("same", key), ("other", other), ("plain", {})):
        for source, expected in (("k", body), ("parts", sealed_again)):
            s3.copy_object(
                Bucket=bucket, Key=name, CopySource=f"{bucket}/{source}", **of_source, **wanted
            )
            got = s3.get_object(Bucket=bucket, Key=name, **wanted)
            assert got["Body"].read() == expected
            sha256 = base64.b64encode(hashlib.sha256(expected).digest()).decode()
            answer = s3.copy_object(
                Bucket=bucket,
                Key=name,
                CopySource=f"{bucket}/{source}",
                ChecksumAlgorithm="SHA256",
                **of_source,
                **wanted,
            )
            assert answer["CopyObjectResult"]["ChecksumSHA256"] == sha256
            got = s3.get_object(Bucket=bucket, Key=name, **wanted, ChecksumMode="ENABLED")
            assert (got["Body"].read(), got["ChecksumSHA256"]) == (expected, sha256)


def in_parts(s3: Any, bucket: str, body: bytes, key: dict[str, str]) -> bytes:
    """Upload ``parts`` in two parts: new bytes, and a range of the object ``k``."""
    first = bytes(range(253)) * 21_000
    at = {"Bucket": bucket, "Key": "parts"}
    upload = s3.create_multipart_upload(**at, **key, ChecksumAlgorithm="SHA256")
    assert upload["SSECustomerAlgorithm"] == "AES256"
    at["UploadId"] = upload["UploadId"]
    with pytest.raises(ClientError, match="requested encryption"):
        s3.upload_part(**at, PartNumber=1, Body=first)
    put = s3.upload_part(**at, PartNumber=1, Body=first, ChecksumAlgorithm="SHA256", **key)
    copied = s3.upload_part_copy(
        **at,
        PartNumber=2,
        CopySource=f"{bucket}/k",
        CopySourceRange="bytes=1000-500999",
        **{f"CopySource{name}": value for name, value in key.items()},
        **key,
    )
    second = body[1000:501_000]
    sums = [hashlib.sha256(part).digest() for part in (first, second)]
    of_copy = copied["CopyPartResult"]
    assert base64.b64decode(of_copy["ChecksumSHA256"]) == sums[1]
    parts = [
        {"PartNumber": number, "ETag": one["ETag"], "ChecksumSHA256": one["ChecksumSHA256"]}
        for number, one in enumerate((put, of_copy), 1)
    ]
    done = s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts})
    whole = base64.b64encode(hashlib.sha256(b"".join(sums)).digest()).decode()
    assert done["ChecksumSHA256"] == f"{whole}-2"
    return first + second
