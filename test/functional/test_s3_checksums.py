"""Checksums of multipart uploads by the S3 API, through real processes."""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from typing import Any

import pytest
from awscrt import checksums
from botocore.exceptions import ClientError
from running_cluster import RunningCluster
from s3_client import new_bucket, s3_client
from swift_api import Account

BODIES = [os.urandom(5 << 20), os.urandom(1000)]


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """A client that adds no checksums of its own accord."""
    return s3_client(cluster.port, request_checksum_calculation="when_required")


@pytest.fixture
def at(s3: Any) -> dict[str, str]:
    return {"Bucket": new_bucket(s3), "Key": "k"}


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def begin(s3: Any, at: dict[str, str], *, states: bool = True, **kind: str) -> dict[str, Any]:
    """Upload the parts; the arguments that complete the upload."""
    upload = {**at, "UploadId": s3.create_multipart_upload(**at, **kind)["UploadId"]}
    algorithm = kind.get("ChecksumAlgorithm", "CRC32")
    stated = {"ChecksumAlgorithm": algorithm} if states else {}
    parts = []
    for number, body in enumerate(BODIES, 1):
        answer = s3.upload_part(**upload, PartNumber=number, Body=body, **stated)
        part = {"PartNumber": number, "ETag": answer["ETag"]}
        if states:
            part[f"Checksum{algorithm}"] = answer[f"Checksum{algorithm}"]
        parts.append(part)
    return {**upload, "MultipartUpload": {"Parts": parts}}


@pytest.mark.parametrize(
    ("algorithm", "of_type"),
    [
        ("CRC32", "COMPOSITE"),
        ("CRC32", "FULL_OBJECT"),
        ("CRC32C", "FULL_OBJECT"),
        ("CRC64NVME", "FULL_OBJECT"),
        ("SHA1", "COMPOSITE"),
        ("SHA256", "COMPOSITE"),
        ("XXHASH128", "COMPOSITE"),
    ],
)
@pytest.mark.parametrize("states", [True, False], ids=["stated", "computed"])
def test_the_whole_has_a_checksum(
    s3: Any, at: dict[str, str], algorithm: str, of_type: str, states: bool
) -> None:
    name = f"Checksum{algorithm}"
    done = begin(s3, at, states=states, ChecksumAlgorithm=algorithm, ChecksumType=of_type)
    listed = s3.list_parts(**at, UploadId=done["UploadId"])
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, of_type)
    of_parts = [part[name] for part in listed["Parts"]]
    for _ in range(2):  # the second time the upload is completed already
        answer = s3.complete_multipart_upload(**done)
        assert answer["ChecksumType"] == of_type
    head = s3.head_object(**at, ChecksumMode="ENABLED")
    assert (head[name], head["ChecksumType"]) == (answer[name], of_type)
    assert head[name].endswith("-2") == (of_type == "COMPOSITE")
    body = s3.get_object(**at, ChecksumMode="ENABLED")["Body"].read()  # boto3 compares a full one
    assert body == b"".join(BODIES)
    wanted = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    found = s3.get_object_attributes(**at, ObjectAttributes=wanted)
    assert found["Checksum"] == {name: head[name].removesuffix("-2"), "ChecksumType": of_type}
    assert found["ObjectSize"] == len(body)
    assert found["ETag"] == head["ETag"].strip('"')
    assert [part[name] for part in found["ObjectParts"]["Parts"]] == of_parts
    page = s3.get_object_attributes(**at, ObjectAttributes=["ObjectParts"], MaxParts=1)
    assert page["ObjectParts"]["IsTruncated"]
    assert len(page["ObjectParts"]["Parts"]) == 1


def test_what_the_client_states_must_hold(s3: Any, at: dict[str, str]) -> None:
    kind: dict[str, Any] = {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}
    done = begin(s3, at, **kind)
    complete = s3.complete_multipart_upload
    own = base64.b64encode(zlib.crc32(b"".join(BODIES)).to_bytes(4, "big")).decode()
    assert refused(complete, **done, ChecksumCRC32="AAAAAA==") == "BadDigest"
    assert refused(complete, **done, ChecksumType="COMPOSITE") == "InvalidRequest"
    wrong = [{**part, "ChecksumCRC32": "AAAAAA=="} for part in done["MultipartUpload"]["Parts"]]
    assert refused(complete, **{**done, "MultipartUpload": {"Parts": wrong}}) == "InvalidPart"
    upload = {**at, "UploadId": done["UploadId"]}
    more = {"PartNumber": 3, "Body": b"x", "ChecksumAlgorithm": "SHA1"}
    assert refused(s3.upload_part, **upload, **more) == "InvalidRequest"
    assert refused(s3.head_object, **at) == "404"
    answer = complete(**done, ChecksumCRC32=own, ChecksumType="FULL_OBJECT")
    assert answer["ChecksumCRC32"] == own


def test_uploads_without_a_checksum(s3: Any, at: dict[str, str]) -> None:
    """As at Amazon, they have one of CRC64NVME over the whole body."""
    done = begin(s3, at, states=False)
    whole = crc64(b"".join(BODIES))
    complete = s3.complete_multipart_upload
    assert refused(complete, **done, ChecksumCRC64NVME=crc64(b"")) == "BadDigest"
    for _ in range(2):  # the second time the upload is completed already
        answer = complete(**done, ChecksumCRC32="AAAAAA==")  # which it has not
        assert answer["ChecksumCRC64NVME"] == whole
    assert shown(s3, at) == {"ChecksumCRC64NVME": whole, "ChecksumType": "FULL_OBJECT"}
    found = s3.get_object_attributes(**at, ObjectAttributes=["Checksum", "ObjectParts"])
    assert found["Checksum"] == {"ChecksumCRC64NVME": whole, "ChecksumType": "FULL_OBJECT"}
    assert found["ObjectParts"]["TotalPartsCount"] == 2
    of_parts = [part["ChecksumCRC64NVME"] for part in found["ObjectParts"]["Parts"]]
    assert of_parts == [crc64(body) for body in BODIES]
    assert refused(s3.get_object_attributes, **at, ObjectAttributes=["X"]) == "InvalidArgument"
    wrong = {"ChecksumAlgorithm": "SHA1", "ChecksumType": "FULL_OBJECT"}
    assert refused(s3.create_multipart_upload, **at, **wrong) == "InvalidRequest"


def test_parts_of_different_checksums_have_none_together(s3: Any, at: dict[str, str]) -> None:
    upload = {**at, "UploadId": s3.create_multipart_upload(**at)["UploadId"]}
    parts = []
    for number, more in enumerate(({}, {"ChecksumAlgorithm": "CRC32"}), 1):
        part = s3.upload_part(**upload, PartNumber=number, Body=BODIES[number - 1], **more)
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    answer = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert "ChecksumType" not in answer
    assert shown(s3, at) == {}
    assert s3.get_object(**at, ChecksumMode="ENABLED")["Body"].read() == b"".join(BODIES)


def test_a_copied_part_keeps_the_checksum_of_a_whole_source(s3: Any, at: dict[str, str]) -> None:
    source = f"{at['Bucket']}/{at['Key']}"
    s3.put_object(**at, Body=BODIES[0])
    for more, has_sum in (({}, True), ({"CopySourceRange": "bytes=0-9"}, False)):
        there = {**at, "Key": "joined"}
        upload = {**there, "UploadId": s3.create_multipart_upload(**there)["UploadId"]}
        part = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source, **more)
        parts = [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        assert shown(s3, there).get("ChecksumCRC64NVME") == (crc64(BODIES[0]) if has_sum else None)


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_an_object_without_a_checksum_gets_one(s3: Any, at: dict[str, str], size: int) -> None:
    body = b"x" * size
    answer = s3.put_object(**at, Body=body)
    assert (answer["ChecksumCRC64NVME"], answer["ChecksumType"]) == (crc64(body), "FULL_OBJECT")
    assert shown(s3, at) == {"ChecksumCRC64NVME": crc64(body), "ChecksumType": "FULL_OBJECT"}
    assert s3.get_object(**at, ChecksumMode="ENABLED")["Body"].read() == body
    s3.put_object(**at, Body=body, IfMatch=answer["ETag"])
    assert shown(s3, at)["ChecksumCRC64NVME"] == crc64(body)


def test_attributes_of_an_object_in_one_part(s3: Any, at: dict[str, str]) -> None:
    s3.put_object(**at, Body=b"x", ChecksumAlgorithm="SHA256")
    wanted = ["Checksum", "ObjectParts", "ObjectSize"]
    found = s3.get_object_attributes(**at, ObjectAttributes=wanted)
    assert found["Checksum"]["ChecksumType"] == "FULL_OBJECT"
    assert found["ObjectSize"] == 1
    assert "ObjectParts" not in found
    missing = {"Bucket": at["Bucket"], "Key": "absent", "ObjectAttributes": ["ETag"]}
    assert refused(s3.get_object_attributes, **missing) == "NoSuchKey"


def crc64(body: bytes) -> str:
    return base64.b64encode(checksums.crc64nvme(body).to_bytes(8, "big")).decode()


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def shown(s3: Any, at: dict[str, str]) -> dict[str, str]:
    """The checksums that a HEAD shows."""
    answer = s3.head_object(**at, ChecksumMode="ENABLED")
    return {name: value for name, value in answer.items() if name.startswith("Checksum")}


def copied(s3: Any, at: dict[str, str], **arguments: str) -> dict[str, str]:
    """Copy the object; the checksums in the answer, which are those of the copy."""
    there = {**at, "Key": "copy"}
    answer = s3.copy_object(**there, CopySource=f"{at['Bucket']}/{at['Key']}", **arguments)
    result = answer["CopyObjectResult"]
    sums = {name: value for name, value in result.items() if name.startswith("Checksum")}
    assert shown(s3, there) == sums
    assert s3.get_object(**there)["Body"].read() == s3.get_object(**at)["Body"].read()
    return sums


@pytest.mark.parametrize("body", [b"", b"x" * 100_000], ids=["empty", "full"])
def test_a_copy_has_the_checksum_of_its_source_or_a_new_one(
    s3: Any, at: dict[str, str], body: bytes
) -> None:
    s3.put_object(**at, Body=body, ChecksumAlgorithm="CRC32", Metadata={"a": "1"})
    own = {"ChecksumCRC32": crc32(body), "ChecksumType": "FULL_OBJECT"}
    sha256 = base64.b64encode(hashlib.sha256(body).digest()).decode()
    new = {"ChecksumSHA256": sha256, "ChecksumType": "FULL_OBJECT"}
    assert copied(s3, at) == own
    assert copied(s3, at, ChecksumAlgorithm="CRC32") == own
    assert copied(s3, at, ChecksumAlgorithm="SHA256") == new
    assert s3.head_object(**at | {"Key": "copy"})["Metadata"] == {"a": "1"}
    for algorithm, sums in (("CRC32", own), ("SHA256", new)):
        wanted = {"MetadataDirective": "REPLACE", "ChecksumAlgorithm": algorithm}
        assert copied(s3, at, **wanted) == sums
        assert s3.head_object(**at | {"Key": "copy"})["Metadata"] == {}
    s3.put_object(**at, Body=body)
    assert copied(s3, at) == {"ChecksumCRC64NVME": crc64(body), "ChecksumType": "FULL_OBJECT"}
    assert copied(s3, at, ChecksumAlgorithm="SHA256") == new
    there = {**at, "Key": "copy", "CopySource": f"{at['Bucket']}/k"}
    assert refused(s3.copy_object, **there, ChecksumAlgorithm="CRC16") == "InvalidRequest"


def test_a_copy_of_an_old_version_with_another_checksum(s3: Any, at: dict[str, str]) -> None:
    s3.put_bucket_versioning(Bucket=at["Bucket"], VersioningConfiguration={"Status": "Enabled"})
    old = s3.put_object(**at, Body=b"old")["VersionId"]
    new = s3.put_object(**at, Body=b"new")["VersionId"]
    source, there = f"{at['Bucket']}/{at['Key']}", {**at, "Key": "copy"}
    for version, copy_source in ((old, f"{source}?versionId={old}"), (new, source)):
        answer = s3.copy_object(**there, CopySource=copy_source, ChecksumAlgorithm="SHA256")
        assert answer["CopySourceVersionId"] == version
        body = s3.get_object(**there, VersionId=answer["VersionId"])["Body"].read()
        assert body == (b"old" if version == old else b"new")


@pytest.mark.parametrize("of_type", ["COMPOSITE", "FULL_OBJECT"])
def test_a_copy_of_parts_has_a_checksum_of_the_whole(
    s3: Any, at: dict[str, str], account: Account, of_type: str
) -> None:
    """The body goes through the S3 filter then. The expiry, which Swift's API set, goes along."""
    begun = begin(s3, at, ChecksumAlgorithm="CRC32", ChecksumType=of_type)
    s3.complete_multipart_upload(**begun)
    expires = {"X-Delete-After": "9999"}
    assert account.call("POST", at["Bucket"], at["Key"], headers=expires).status == 202
    whole = {"ChecksumCRC32": crc32(b"".join(BODIES)), "ChecksumType": "FULL_OBJECT"}
    assert copied(s3, at) == whole
    assert copied(s3, at, ChecksumAlgorithm="CRC32") == whole
    assert "expiry-date" in s3.head_object(**at | {"Key": "copy"})["Expiration"]


@pytest.mark.parametrize("of_type", ["COMPOSITE", "FULL_OBJECT"])
def test_copied_parts_have_checksums(s3: Any, at: dict[str, str], of_type: str) -> None:
    source = f"{at['Bucket']}/source"
    body = b"".join(BODIES)
    s3.put_object(**at | {"Key": "source"}, Body=body, ChecksumAlgorithm="CRC32")
    kind = {"ChecksumAlgorithm": "CRC32", "ChecksumType": of_type}
    upload = {**at, "UploadId": s3.create_multipart_upload(**at, **kind)["UploadId"]}
    ranges = [{}, {"CopySourceRange": f"bytes=7-{len(body) - 1}"}]
    bodies = [body, body[7:], BODIES[1]]
    sums = []
    for number, ranged in enumerate(ranges, 1):
        answer = s3.upload_part_copy(**upload, PartNumber=number, CopySource=source, **ranged)
        sums.append(answer["CopyPartResult"])
    sums.append(s3.upload_part(**upload, PartNumber=3, Body=BODIES[1], ChecksumAlgorithm="CRC32"))
    assert [one["ChecksumCRC32"] for one in sums] == [crc32(body) for body in bodies]
    listed = s3.list_parts(**upload)["Parts"]
    assert [part["ChecksumCRC32"] for part in listed] == [crc32(body) for body in bodies]
    parts = [
        {"PartNumber": number, "ETag": one["ETag"], "ChecksumCRC32": one["ChecksumCRC32"]}
        for number, one in enumerate(sums, 1)
    ]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    joined = b"".join(base64.b64decode(crc32(body)) for body in bodies)
    whole = f"{crc32(joined)}-3" if of_type == "COMPOSITE" else crc32(b"".join(bodies))
    assert (done["ChecksumCRC32"], done["ChecksumType"]) == (whole, of_type)
    for number, body in enumerate(bodies, 1):
        wanted = {"PartNumber": number, "ChecksumMode": "ENABLED"}
        got = s3.get_object(**at, **wanted)
        assert got["Body"].read() == body  # botocore compares it with the checksum
        assert (got["ChecksumCRC32"], got["ChecksumType"]) == (crc32(body), of_type)
        assert s3.head_object(**at, **wanted)["ChecksumCRC32"] == crc32(body)
    ranged = s3.get_object(**at, Range="bytes=0-9", ChecksumMode="ENABLED")
    assert "ChecksumCRC32" not in ranged
