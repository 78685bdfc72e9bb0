"""Checksums of objects in parts, compared with those of the whole body."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.checksums import ALGORITHMS
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.part_checksums import (
    COMPOSITE,
    FULL,
    Kind,
    PartSum,
    kind_of_upload,
    stated_whole,
    type_of,
    whole_checksum,
)


def checksum(algorithm: str, body: bytes) -> str:
    digest = ALGORITHMS[algorithm]()
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()


@given(st.sampled_from(["crc32", "crc32c", "crc64nvme"]), st.lists(st.binary(), min_size=1))
def test_full_checksums_are_those_of_the_body(algorithm: str, bodies: list[bytes]) -> None:
    parts = [PartSum(checksum(algorithm, body), len(body)) for body in bodies]
    whole = whole_checksum(Kind(algorithm, FULL), parts)
    assert whole == checksum(algorithm, b"".join(bodies))
    assert type_of(whole) == FULL


def test_composite_checksums_are_those_of_checksums() -> None:
    bodies = [b"a" * 10, b"b"]
    parts = [PartSum(checksum("sha256", body), len(body)) for body in bodies]
    raw = hashlib.sha256(b"".join(hashlib.sha256(body).digest() for body in bodies)).digest()
    whole = whole_checksum(Kind("sha256", COMPOSITE), parts)
    assert whole == f"{base64.b64encode(raw).decode()}-2"
    assert type_of(whole) == COMPOSITE


@pytest.mark.parametrize(
    ("algorithm", "of_type", "expected"),
    [
        ("CRC32", None, COMPOSITE),
        ("CRC32", FULL, FULL),
        ("CRC64NVME", None, FULL),
        ("SHA1", None, COMPOSITE),
        ("SHA256", FULL, "InvalidRequest"),
        ("CRC64NVME", COMPOSITE, "InvalidRequest"),
        ("CRC32", "WHOLE", "InvalidRequest"),
        ("XXHASH3", None, COMPOSITE),
        ("SHA512", FULL, "InvalidRequest"),
        ("CRC16", None, "InvalidRequest"),
        (None, FULL, "InvalidRequest"),
    ],
)
def test_kinds(algorithm: str | None, of_type: str | None, expected: str) -> None:
    stated = {"x-amz-checksum-algorithm": algorithm, "x-amz-checksum-type": of_type}
    headers = {name: value for name, value in stated.items() if value is not None}
    if expected == "InvalidRequest":
        with pytest.raises(S3Error, match=expected):
            kind_of_upload(headers)
        return
    kind = kind_of_upload(headers)
    assert kind is not None
    assert kind.type == expected
    assert Kind.parse(str(kind)) == kind


@pytest.mark.parametrize("text", [None, "", "crc32", "crc16 COMPOSITE", "crc32 OTHER"])
def test_no_kind(text: str | None) -> None:
    assert Kind.parse(text) is None
    assert kind_of_upload({}) is None


def refuse(call: Callable[[], object]) -> None:
    with pytest.raises(S3Error, match="InvalidRequest"):
        call()


def test_stated_checksums() -> None:
    value = checksum("crc32", b"x")
    assert stated_whole({"x-amz-checksum-crc32": value}) == ("crc32", value)
    assert stated_whole({"x-amz-checksum-crc32": f"{value}-3"}) == ("crc32", f"{value}-3")
    assert stated_whole({"x-amz-checksum-type": FULL}) is None
    refuse(lambda: stated_whole({"x-amz-checksum-crc32": "x"}))
    refuse(lambda: stated_whole({"x-amz-checksum-crc32": value, "x-amz-checksum-sha1": value}))
