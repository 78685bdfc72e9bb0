"""Signed requests of the S3 API that make no sense: an error document of S3, never a 5xx."""

from __future__ import annotations

import http.client
import random
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import fromstring

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from running_cluster import RunningCluster
from s3_client import KEY, REGION, USER, RawAnswer, new_bucket, s3_client, send

from cluster.ports import HOST

_METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH")
_PARAMETER_NAMES = """
    acl attributes continuation-token cors delete delimiter encoding-type encryption fetch-owner
    key-marker legal-hold lifecycle list-type location logging marker max-keys max-parts
    max-uploads notification object-lock ownershipControls part-number-marker partNumber policy
    policyStatus prefix publicAccessBlock requestPayment response-content-type restore retention
    select start-after tagging torrent upload-id-marker uploadId uploads version-id-marker
    versionId versioning versions website
"""
_PARAMETERS = _PARAMETER_NAMES.split()
_HEADER_NAMES = """
    content-encoding content-md5 content-type expires if-match if-modified-since if-none-match
    if-unmodified-since range x-amz-acl x-amz-checksum-algorithm x-amz-checksum-crc32
    x-amz-checksum-mode x-amz-checksum-sha256 x-amz-checksum-type x-amz-copy-source
    x-amz-copy-source-if-match x-amz-copy-source-range x-amz-decoded-content-length
    x-amz-expected-bucket-owner x-amz-grant-read x-amz-if-match-size x-amz-max-parts
    x-amz-meta-a x-amz-metadata-directive x-amz-object-attributes x-amz-sdk-checksum-algorithm
    x-amz-server-side-encryption x-amz-source-expected-bucket-owner x-amz-storage-class
    x-amz-tagging x-amz-tagging-directive x-amz-trailer x-amz-website-redirect-location
    x-delete-at
"""
_HEADERS = _HEADER_NAMES.split()
_WORDS = (
    "0", "1", "-1", "99999999999999999999", "nan", "", " ", "*", "null", "true", "url", "a=b&a=c",
    "a=1", "%00", "%ff", "/", "//", "../..", "k", "{bucket}/k", "/{bucket}/k?versionId=null",
    "{bucket}/none", "bytes=0-0", "bytes=5-2", "bytes=-1", '"d41d8cd98f00b204e9800998ecf8427e"',
    "1B2M2Y8AsgTpgAmY7PhCfg==", "CRC32", "SHA256", "FULL_OBJECT", "COMPOSITE", "REPLACE", "COPY",
    "STANDARD", "public-read", "ETag,ObjectParts", "x-amz-checksum-crc32", "AAAAAA==",
    "aws-chunked", "ENABLED", "1795289479.69636", "Sat, 21 Nov 2026 00:00:00 GMT", "x" * 300,
    "a;b,c", "AUTH_test",
)  # fmt: skip
_BODIES = (
    b"", b"x", b"\x00" * 9, b"<x/>", b"<Tagging/>", b"<Tagging><TagSet/></Tagging>",
    b"<Delete><Object><Key>k</Key></Object></Delete>", b"<Delete><Object/></Delete>",
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
    b"<VersioningConfiguration><Status>On</Status></VersioningConfiguration>",
    b"<AccessControlPolicy><AccessControlList/></AccessControlPolicy>",
    b"<RequestPaymentConfiguration><Payer/></RequestPaymentConfiguration>",
    b"<a>" * 5000, b'<?xml version="1.0" encoding="utf-7"?><Tagging/>', b"\xff\xfe<\x00", b"&a;",
    b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><Tagging/>', b"0\r\n\r\n",
    b"5;chunk-signature=0\r\nabcde\r\n",
)  # fmt: skip
_PAYLOADS = (
    "UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "STREAMING-X", "x", "0" * 64,
)  # fmt: skip


class _Auth(S3SigV4Auth):  # type: ignore[misc]
    """Signs a word in place of the hash of the body."""

    def __init__(self, word: str) -> None:
        super().__init__(Credentials(USER, KEY), "s3", REGION)
        self._word = word

    def payload(self, request: Any) -> str:
        return self._word


def signed(method: str, url: str, headers: dict[str, str], payload: str) -> dict[str, str]:
    request = AWSRequest(method=method, url=url, headers=headers, data=b"")
    _Auth(payload).add_auth(request)
    return dict(request.headers.items())


class _Nonsense:
    """Requests that a seed determines."""

    def __init__(self, port: int, bucket: str, seed: int) -> None:
        self._port, self._bucket, self._chance = port, bucket, random.Random(seed)

    def _word(self) -> str:
        return self._chance.choice(_WORDS).replace("{bucket}", self._bucket)

    def ask(self) -> tuple[str, RawAnswer]:
        chance = self._chance
        method = chance.choice(_METHODS)
        path = chance.choice(["/", f"/{self._bucket}", f"/{self._bucket}/k", f"/{self._bucket}/n"])
        names = chance.sample(_PARAMETERS, chance.choice([0, 1, 1, 2]))
        query = "&".join(f"{name}={quote(self._word(), safe='')}" for name in names)
        url = f"http://{HOST}:{self._port}{path}{'?' + query if query else ''}"
        names = chance.sample(_HEADERS, chance.choice([0, 1, 2, 3]))
        headers = {name: self._word().strip() for name in names}
        body = chance.choice(_BODIES)
        request = f"{method} {url} {headers} {body[:60]!r}"
        sent = signed(method, url, headers, chance.choice(_PAYLOADS))
        return request, send(self._port, method, url, sent, body)


@pytest.mark.parametrize("seed", [1, 2])
def test_nonsense_is_refused_in_the_words_of_s3(cluster: RunningCluster, seed: int) -> None:
    s3 = s3_client(cluster.port)
    bucket = new_bucket(s3)
    for key in ("k", "kept"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    nonsense = _Nonsense(cluster.port, bucket, seed)
    for _ in range(500):
        request, answer = nonsense.ask()
        assert answer.status < 500 or answer.status == 501, (request, answer)
        assert answer.status != 501 or answer.code in ("NotImplemented", ""), (request, answer)
        if answer.status >= 400 and answer.body:
            assert fromstring(answer.body).findtext("Code"), (request, answer)
    assert s3.get_object(Bucket=bucket, Key="kept")["Body"].read() == b"x"


def test_a_document_of_a_gigabyte_is_refused_unread(cluster: RunningCluster) -> None:
    bucket = new_bucket(s3_client(cluster.port))
    for query in ("versioning", "acl", "tagging", "delete"):
        method = "POST" if query == "delete" else "PUT"
        url = f"http://{HOST}:{cluster.port}/{bucket}?{query}"
        sums = {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
        headers = signed(method, url, sums, "UNSIGNED-PAYLOAD")
        connection = http.client.HTTPConnection(HOST, cluster.port, timeout=30)
        connection.putrequest(method, f"/{bucket}?{query}")
        for name, value in {**headers, "Content-Length": str(1 << 30)}.items():
            connection.putheader(name, value)
        connection.endheaders()  # and nothing of the body
        answer = connection.getresponse()
        assert answer.status == 400
        assert b"<Code>MaxMessageLengthExceeded</Code>" in answer.read()
        connection.close()


def test_a_header_that_is_there_twice(cluster: RunningCluster) -> None:
    """Which of them counts is not a matter of taste: the signature covers neither alone."""
    bucket = new_bucket(s3_client(cluster.port))
    url = f"http://{HOST}:{cluster.port}/{bucket}/k"
    headers = signed("PUT", url, {"x-amz-meta-a": "1"}, "UNSIGNED-PAYLOAD")
    connection = http.client.HTTPConnection(HOST, cluster.port, timeout=30)
    connection.putrequest("PUT", f"/{bucket}/k")
    for name, value in [*headers.items(), ("x-amz-meta-a", "2"), ("Content-Length", "0")]:
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 403
    assert b"<Code>SignatureDoesNotMatch</Code>" in answer.read()
    connection.close()
