"""Encryption with keys of clients, and by the server: what is stored, and who may read it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from s3_pipeline import Pipeline, code_of

from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.info_registry import clear_info, register_info
from proxy.middleware.encryption.cipher import Transform, transform
from proxy.s3.customer_keys import decrypted_parts
from proxy.s3.wire.customer_key import COPY_PREFIX, PREFIX, key_of_headers, seal, unseal
from proxy.s3.wire.errors import S3Error

KEY, OTHER = b"k" * 32, b"o" * 32
SECURE = {"X-Forwarded-Proto": "https"}


def headers_of(key: bytes, prefix: str = PREFIX) -> dict[str, str]:
    return {
        f"{prefix}algorithm": "AES256",
        f"{prefix}key": base64.b64encode(key).decode(),
        f"{prefix}key-md5": base64.b64encode(hashlib.md5(key).digest()).decode(),
    }


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_a_key_is_known_again(key: bytes, other: bytes) -> None:
    first, second = seal(key), seal(key)
    assert unseal(key, first.stored) == first
    assert first.key != second.key
    assert (unseal(other, first.stored) is None) == (key != other)
    assert base64.b64encode(key).decode() not in first.stored


def test_what_is_stored_has_a_form() -> None:
    """The example of doc/formats/s3-customer-key.md."""
    stored = "1:AAECAwQFBgcICQoLDA0ODw==:W/pr/62TrXcbkUTyzUKzwCiSZnB4ouPSktUfHn93w0Y="
    found = unseal(bytes(range(32)), stored)
    assert found is not None
    assert transform(found.key, found.iv).update(b"martlet").hex() == "76837a396311b9"
    for wrong in ("", "2" + stored[1:], "1:AA==:x", stored[:20]):
        with pytest.raises(ValueError, match="malformed"):
            unseal(KEY, wrong)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("algorithm", "AES128", "valid encryption algorithm"),
        ("algorithm", None, "valid encryption algorithm"),
        ("key", None, "appropriate secret key"),
        ("key", "!", "invalid for the specified algorithm"),
        ("key", "AAAA", "invalid for the specified algorithm"),
        ("key-md5", None, "client calculated MD5"),
        ("key-md5", "AAAA", "did not match"),
    ],
)
def test_malformed_keys(name: str, value: str | None, text: str) -> None:
    headers = headers_of(KEY)
    if value is None:
        del headers[PREFIX + name]
    else:
        headers[PREFIX + name] = value
    with pytest.raises(S3Error, match=text) as caught:
        key_of_headers(headers)
    assert caught.value.code == "InvalidArgument"


class Bucket:
    """A storage of one bucket, with ranges of one part."""

    def __init__(self, **options: Any) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.pipeline = Pipeline(self._answer, **options)

    def _answer(self, environ: Environ) -> Response:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] == "PUT":
            body, kept = self.pipeline.storage.bodies[-1], _kept(environ)
            if "HTTP_X_COPY_FROM" in environ:
                source = f"/v1/AUTH_test/{environ['HTTP_X_COPY_FROM']}"
                body, kept = self.objects[source][0], {**self.objects[source][1], **kept}
            self.objects[path] = body, kept
            return Response(201, {"Etag": hashlib.md5(body).hexdigest()})
        if path.count("/") == 3:
            return Response(204)
        if path not in self.objects:
            return Response(404)
        body, kept = self.objects[path]
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", environ.get("HTTP_RANGE", ""))
        headers = {**kept, "Etag": hashlib.md5(body).hexdigest()}
        if not found:
            return Response(200, {**headers, "Content-Length": str(len(body))}, body)
        first, last = int(found[1]), int(found[2])
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        return Response(206, headers, body[first : last + 1])

    def ask(self, method: str, key: str = "k", body: bytes = b"", **more: Any) -> Any:
        headers = {**SECURE, **more.pop("headers", {})}
        return self.pipeline.ask(method, f"/bucket/{key}", headers, body)


def _kept(environ: Environ) -> dict[str, str]:
    names = ("HTTP_X_OBJECT_SYSMETA_", "HTTP_X_OBJECT_META_")
    found = {k: v for k, v in environ.items() if k.startswith(names) and v}
    return {k.removeprefix("HTTP_").replace("_", "-"): v for k, v in found.items()}


# Of one byte, the ciphertext is the plain text once in 256 times: 16 bytes are never.
@pytest.mark.parametrize("size", [0, 16, 70_000])
def test_the_storage_sees_ciphertext_alone(size: int) -> None:
    bucket, body = Bucket(), b"p" * size
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    sent = {**headers_of(KEY), "Content-MD5": md5, "x-amz-meta-a": "b"}
    status, headers, _ = bucket.ask("PUT", body=body, headers=sent)
    assert (status, headers[f"{PREFIX}algorithm"]) == (200, "AES256")
    assert headers[f"{PREFIX}key-md5"] == headers_of(KEY)[f"{PREFIX}key-md5"]
    ((stored, kept),) = bucket.objects.values()
    assert len(stored) == size
    assert not size or stored != body
    assert headers["etag"] == f'"{hashlib.md5(stored).hexdigest()}"'
    key_text = headers_of(KEY)[f"{PREFIX}key"]
    assert all(key_text not in str(environ) for environ in bucket.pipeline.storage.seen)
    assert kept["X-OBJECT-META-A"] == "b"
    status, headers, found = bucket.ask("GET", headers=headers_of(KEY))
    assert (status, found) == (200, body)
    assert headers[f"{PREFIX}algorithm"] == "AES256"


@pytest.mark.parametrize("span", [(0, 0), (15, 16), (5, 4000), (4096, 4999)])
def test_ranges(span: tuple[int, int]) -> None:
    bucket, body = Bucket(), bytes(range(250)) * 20
    bucket.ask("PUT", body=body, headers=headers_of(KEY))
    sent = {**headers_of(KEY), "Range": f"bytes={span[0]}-{span[1]}"}
    status, _, found = bucket.ask("GET", headers=sent)
    assert (status, found) == (206, body[span[0] : span[1] + 1])
    several = {**headers_of(KEY), "Range": "bytes=0-1,4-5"}
    assert bucket.ask("GET", headers=several)[::2] == (200, body)


def test_who_may_read() -> None:
    bucket = Bucket()
    bucket.ask("PUT", body=b"secret", headers=headers_of(KEY))
    bucket.ask("PUT", "plain", b"x")
    for method in ("GET", "HEAD"):
        for key, sent, status in (
            ("k", {}, 400),
            ("k", headers_of(OTHER), 403),
            ("plain", headers_of(KEY), 400),
        ):
            found, _, body = bucket.ask(method, key, headers=sent)
            assert (found, b"secret" in body) == (status, False)
    assert bucket.ask("HEAD", headers=headers_of(KEY))[0] == 200


def test_a_body_that_is_not_what_was_stated_stores_nothing() -> None:
    bucket = Bucket()
    md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    for body in (b"data", b""):
        sent = {**headers_of(KEY), "Content-MD5": md5}
        _, _, answer = bucket.ask("PUT", body=body, headers=sent)
        if body:
            assert code_of(answer) == "BadDigest"
            assert bucket.objects == {}
    assert bucket.pipeline.storage.environ["HTTP_ETAG"] == hashlib.md5(b"other").hexdigest()


def test_a_key_needs_tls() -> None:
    status, _, body = Bucket().pipeline.ask("PUT", "/bucket/k", headers_of(KEY), b"x")
    assert (status, code_of(body)) == (400, "InvalidRequest")
    relaxed = Bucket(allow_customer_keys_over_http=True).pipeline
    assert relaxed.ask("PUT", "/bucket/k", headers_of(KEY), b"x")[0] == 200


@pytest.mark.parametrize("old", [None, KEY])
@pytest.mark.parametrize("new", [None, KEY, OTHER])
def test_copies(old: bytes | None, new: bytes | None) -> None:
    bucket, body = Bucket(), b"copied" * 100
    more = {"x-amz-meta-a": "b"}
    bucket.ask("PUT", body=body, headers={**more, **(headers_of(old) if old else {})})
    sent = {"x-amz-copy-source": "/bucket/k", **(headers_of(new) if new else {})}
    if old:
        assert bucket.ask("PUT", "c", headers=sent)[0] == 400
        wrong = {**sent, **headers_of(OTHER, COPY_PREFIX)}
        assert bucket.ask("PUT", "c", headers=wrong)[0] == 403
        sent |= headers_of(old, COPY_PREFIX)
    status, headers, answer = bucket.ask("PUT", "c", headers=sent)
    assert status == 200, answer
    assert (f"{PREFIX}algorithm" in headers) == (new is not None)
    found = bucket.ask("GET", "c", headers=headers_of(new) if new else {})
    assert (found[0], found[2], found[1]["x-amz-meta-a"]) == (200, body, "b")
    stored = bucket.objects["/v1/AUTH_test/bucket/c"][0]
    assert (stored == body) == (new is None)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 99), st.integers(1, 50))
def test_parts_are_decrypted_from_any_byte_in_any_pieces(
    sizes: list[int], start: int, piece: int
) -> None:
    plain = bytes(range(250))[: sum(sizes)]
    start = min(start, len(plain) - 1)
    keys = [seal(KEY) for _ in sizes]
    sealed, at = b"", 0
    for size, part in zip(sizes, keys, strict=True):
        sealed += transform(part.key, part.iv).update(plain[at : at + size])
        at += size

    def parts() -> Iterator[tuple[int, Transform]]:
        skipped = start
        for size, part in zip(sizes, keys, strict=True):
            if skipped < size:
                yield size - skipped, transform(part.key, part.iv, skipped)
            skipped = max(0, skipped - size)

    chunks = [sealed[n : n + piece] for n in range(start, len(sealed), piece)]
    assert b"".join(decrypted_parts(chunks, parts())) == plain[start:]
    with pytest.raises(OSError, match="longer"):
        list(decrypted_parts([*chunks, b"x"], parts()))


def test_a_part_needs_the_key_of_its_upload() -> None:
    begun = {"Etag": "e", "X-Object-Sysmeta-S3Api-Customer-Key": seal(KEY).stored}
    for stored, sent, text in (
        (begun, {}, b"did not|initiate requested encryption"),
        (begun, headers_of(OTHER), b"did not match the ones used originally"),
        ({"Etag": "e"}, headers_of(KEY), b"initiate did not request encryption"),
    ):
        pipeline = Pipeline(lambda environ, stored=stored: Response(200, stored))
        path = "/bucket/k?uploadId=x&partNumber=1"
        status, _, body = pipeline.ask("PUT", path, {**SECURE, **sent}, b"x")
        assert (status, code_of(body)) == (400, "InvalidRequest")
        assert re.search(text, body)
        assert all(call.startswith("HEAD") for call in pipeline.storage.calls)


# --- encryption by the server

SSE = "x-amz-server-side-encryption"


@pytest.fixture
def encrypting() -> Iterator[None]:
    register_info("encryption", admin=True, enabled=True)
    yield
    clear_info()


def rule(algorithm: str, more: str = "") -> bytes:
    inner = f"<SSEAlgorithm>{algorithm}</SSEAlgorithm>{more}"
    default = f"<ApplyServerSideEncryptionByDefault>{inner}</ApplyServerSideEncryptionByDefault>"
    root = "ServerSideEncryptionConfiguration"
    return f"<{root}><Rule>{default}</Rule></{root}>".encode()


def test_without_the_filter_nothing_is_promised() -> None:
    clear_info()
    pipeline = Bucket().pipeline
    _, _, body = pipeline.ask("PUT", "/bucket/k", {SSE: "AES256"}, b"x")
    assert code_of(body) == "NotImplemented"
    _, _, body = pipeline.ask("PUT", "/bucket?encryption", body=rule("AES256"))
    assert code_of(body) == "NotImplemented"
    assert SSE not in pipeline.ask("PUT", "/bucket/k", body=b"x")[1]


@pytest.mark.usefixtures("encrypting")
def test_with_the_filter_all_objects_are_encrypted() -> None:
    pipeline = Bucket().pipeline
    for headers in ({SSE: "AES256"}, {}):
        status, shown, _ = pipeline.ask("PUT", "/bucket/k", headers, b"x")
        assert (status, shown[SSE]) == (200, "AES256")
    assert SSE not in pipeline.ask("GET", "/bucket/k")[1]  # the filter has decrypted nothing
    for value, code in (("aws:kms", "NotImplemented"), ("DES", "InvalidEncryptionAlgorithmError")):
        assert code_of(pipeline.ask("PUT", "/bucket/k", {SSE: value}, b"x")[2]) == code
    both = {**SECURE, **headers_of(KEY), SSE: "AES256"}
    assert code_of(pipeline.ask("PUT", "/bucket/k", both, b"x")[2]) == "InvalidArgument"


def test_reads_tell_that_the_filter_has_decrypted() -> None:
    pipeline = Pipeline(lambda environ: Response(200, {"X-Backend-Crypto-Cipher": "AES_CTR_256"}))
    assert pipeline.ask("GET", "/bucket/k")[1][SSE] == "AES256"


@pytest.mark.usefixtures("encrypting")
def test_the_default_of_buckets() -> None:
    pipeline = Pipeline()
    assert pipeline.ask("PUT", "/bucket?encryption", body=rule("AES256"))[0] == 200
    assert b"<SSEAlgorithm>AES256<" in pipeline.ask("GET", "/bucket?encryption")[2]
    assert pipeline.ask("DELETE", "/bucket?encryption")[0] == 204
    for body, code in (
        (rule("aws:kms"), "NotImplemented"),
        (rule("x"), "MalformedXML"),
        (rule("AES256", "<KMSMasterKeyID>a</KMSMasterKeyID>"), "InvalidArgument"),
        (b"<ServerSideEncryptionConfiguration/>", "MalformedXML"),
    ):
        assert code_of(pipeline.ask("PUT", "/bucket?encryption", body=body)[2]) == code
