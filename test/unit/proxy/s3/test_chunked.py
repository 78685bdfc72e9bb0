"""Bodies in chunks: Amazon's examples, and what is changed, cut, repeated or moved in them."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.claims import claim_of
from proxy.s3.options import S3Options
from proxy.s3.wire.checksums import ALGORITHMS
from proxy.s3.wire.chunked import ChunkedSource, ChunkSigner
from proxy.s3.wire.credentials import Chunks, Message
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.payload import (
    STREAMING_SIGNED_TRAILER,
    STREAMING_UNSIGNED_TRAILER,
    CheckedBody,
    RefusedBody,
    framing_of,
)
from proxy.s3.wire.signature_v4 import signing_key_of

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SCOPE = "20130524/us-east-1/s3/aws4_request"
PIECES = [b"a" * 65536, b"a" * 1024, b""]
PLAIN_SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
PLAIN = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
]
TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
WITH_TRAILER = [
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
]
TRAILER = (
    b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"
)


def chunk(data: bytes, signature: str) -> bytes:
    end = b"" if not data else data + b"\r\n"
    return f"{len(data):x};chunk-signature={signature}\r\n".encode() + end


def signed(chunks: list[bytes], seed: str = PLAIN_SEED, trailer: bytes = b"") -> ChunkedSource:
    key = signing_key_of(SECRET, "20130524", "us-east-1")
    signer = ChunkSigner(Chunks("20130524T000000Z", SCOPE, seed), lambda: key)
    body = b"".join(chunks) + trailer + b"\r\n"
    return ChunkedSource(BytesIO(body), signer, has_trailer=bool(trailer))


def read_all(source: ChunkedSource, size: int = 10000) -> bytes:
    return b"".join(iter(lambda: source.read(size), b""))


def plain_chunks() -> list[bytes]:
    return [chunk(data, signature) for data, signature in zip(PIECES, PLAIN, strict=True)]


def trailer_chunks() -> list[bytes]:
    return [chunk(data, signature) for data, signature in zip(PIECES, WITH_TRAILER, strict=True)]


def test_the_example_of_amazon() -> None:
    assert read_all(signed(plain_chunks())) == b"a" * 66560


def test_the_example_of_amazon_with_a_trailer() -> None:
    source = signed(trailer_chunks(), TRAILER_SEED, TRAILER)
    assert read_all(source) == b"a" * 66560
    assert source.trailers == {"x-amz-checksum-crc32c": "sOO8/Q=="}


def test_a_trailer_in_the_form_of_minio_go() -> None:
    """Trailing headers end as in the text that is signed, and an empty line follows them."""
    trailer = TRAILER.replace(b"sOO8/Q==\r\n", b"sOO8/Q==\n\r\n")
    source = signed(trailer_chunks(), TRAILER_SEED, trailer)
    assert read_all(source) == b"a" * 66560
    assert source.trailers == {"x-amz-checksum-crc32c": "sOO8/Q=="}


def test_a_trailer_in_the_form_of_minio_go_without_signatures() -> None:
    body = b"0\r\nx-amz-checksum-crc32:AAAAAA==\n\r\n\r\n"
    source = ChunkedSource(BytesIO(body), None, has_trailer=True)
    assert read_all(source) == b""
    assert source.trailers == {"x-amz-checksum-crc32": "AAAAAA=="}


def test_that_form_has_an_end() -> None:
    body = b"0\r\nx-amz-checksum-crc32:AAAAAA==\n\r\n"
    with pytest.raises(S3Error) as caught:
        read_all(ChunkedSource(BytesIO(body), None, has_trailer=True))
    assert caught.value.code == "IncompleteBody"


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ([0, 0, 1, 2], "SignatureDoesNotMatch"),
        ([1, 0, 2], "SignatureDoesNotMatch"),
        ([0, 2], "SignatureDoesNotMatch"),
        ([0, 1], "IncompleteBody"),
    ],
)
def test_replayed_moved_and_lost_chunks_are_refused(order: list[int], code: str) -> None:
    chunks = plain_chunks()
    with pytest.raises(S3Error) as caught:
        read_all(signed([chunks[number] for number in order]))
    assert caught.value.code == code


@given(st.integers(0, 66900), st.integers(1, 255))
def test_any_changed_byte_is_found(position: int, change: int) -> None:
    body = bytearray(b"".join(plain_chunks()))
    position %= len(body)
    body[position] ^= change
    try:
        data = read_all(signed([bytes(body)]))
    except S3Error:
        return
    assert data == b"a" * 66560  # a digit of a size in the other case, which is the same size


@pytest.mark.parametrize(
    ("trailer", "code"),
    [
        (TRAILER.replace(b"sOO8", b"sOO9"), "SignatureDoesNotMatch"),
        (TRAILER.partition(b"\r\n")[0] + b"\r\n", "IncompleteBody"),
        (b"no colon\r\n", "MalformedTrailerError"),
        (TRAILER.partition(b"\r\n")[0] + b"\r\n" + TRAILER, "SignatureDoesNotMatch"),
        (b"a:" + b"x" * 5000 + b"\r\n", "MalformedTrailerError"),
    ],
)
def test_changed_trailers_are_refused(trailer: bytes, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        read_all(signed(trailer_chunks(), TRAILER_SEED, trailer))
    assert caught.value.code == code


def test_a_small_chunk_may_only_be_the_last() -> None:
    body = b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    with pytest.raises(S3Error) as caught:
        read_all(ChunkedSource(BytesIO(body), None, has_trailer=False))
    assert caught.value.code == "InvalidChunkSizeError"


@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes_are_decoded_or_refused(body: bytes, size: int) -> None:
    with suppress(S3Error):  # any other error fails the test
        read_all(ChunkedSource(BytesIO(body), None, has_trailer=True), size)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("is_right", [True, False])
def test_trailing_checksums(algorithm: str, is_right: bool) -> None:
    data = b"x" * 10000
    digest = ALGORITHMS[algorithm]()
    digest.update(data if is_right else b"y")
    stated = base64.b64encode(digest.digest())
    body = b"2710\r\n%s\r\n0\r\nx-amz-checksum-%s:%s\r\n\r\n" % (data, algorithm.encode(), stated)
    headers = {
        "x-amz-trailer": f"x-amz-checksum-{algorithm}",
        "x-amz-decoded-content-length": str(len(data)),
    }
    form = framing_of(headers, STREAMING_UNSIGNED_TRAILER, len(body), True)
    source = ChunkedSource(BytesIO(body), None, has_trailer=True)
    checked = CheckedBody(source, form, source.trailers)
    if is_right:
        assert checked.read(10000) == data
        assert checked.checksum == stated.decode()
        assert checked.read(1) == b""
    else:
        # The write has not got the last byte when it learns that the body is wrong.
        with pytest.raises(RefusedBody):
            checked.read(10000)
        assert checked.failure is not None
        assert checked.failure.code == "BadDigest"


@pytest.mark.parametrize(
    ("algorithm", "digits"),
    [
        ("crc32", "cbf43926"),
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("md5", "25f9e794323b453885f5181f1b624d0b"),
        ("xxhash64", "8cb841db40e6ae83"),
    ],
)
def test_the_check_values_of_checksums(algorithm: str, digits: str) -> None:
    digest = ALGORITHMS[algorithm]()
    for byte in b"123456789":
        digest.update(bytes([byte]))
    assert digest.digest().hex() == digits


@pytest.mark.parametrize(
    ("algorithm", "digits"),
    [("xxhash3", "2d06800538d394c2"), ("xxhash128", "99aa06d3014798d86001c324468d497f")],
)
def test_the_checksums_of_no_bytes(algorithm: str, digits: str) -> None:
    assert ALGORITHMS[algorithm]().digest().hex() == digits


def test_a_hash_of_other_bytes_is_refused_with_the_last_bytes() -> None:
    form = framing_of({}, hashlib.sha256(b"right").hexdigest(), 5, True)
    assert CheckedBody(BytesIO(b"right"), form).read() == b"right"
    wrong = CheckedBody(BytesIO(b"wrong"), form)
    assert wrong.read(4) == b"wron"
    with pytest.raises(RefusedBody):
        wrong.read(4)
    assert wrong.failure is not None
    assert wrong.failure.code == "XAmzContentSHA256Mismatch"
    with pytest.raises(RefusedBody):
        wrong.read(4)


@pytest.mark.parametrize(
    ("headers", "sha256", "code"),
    [
        ({}, "abc", "InvalidArgument"),
        ({}, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "NotImplemented"),
        ({}, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "MissingContentLength"),
        ({"x-amz-trailer": "x-amz-checksum-crc32"}, "UNSIGNED-PAYLOAD", "MalformedTrailerError"),
        ({"x-amz-trailer": "x-other"}, STREAMING_SIGNED_TRAILER, "InvalidRequest"),
        ({}, STREAMING_SIGNED_TRAILER, "MissingContentLength"),
        ({"x-amz-checksum-crc32": "AAAAAA=="} | {"x-amz-checksum-sha1": "A"}, "", "InvalidRequest"),
        ({"x-amz-checksum-crc32": "AAAA"}, "", "InvalidRequest"),
        ({"x-amz-checksum-md5": "AAAA"}, "", "InvalidRequest"),
        ({"x-amz-sdk-checksum-algorithm": "MD5"}, "", "InvalidRequest"),
    ],
)
def test_headers_about_the_body_that_contradict(
    headers: dict[str, str], sha256: str, code: str
) -> None:
    with pytest.raises(S3Error) as caught:
        framing_of(headers, sha256, 10, True)
    assert caught.value.code == code


CRC = b"x-amz-checksum-crc32:AAAAAA==\r\n"


@pytest.mark.parametrize(
    ("body", "length", "provided"),
    [
        (b"40\r\n" + b"a" * 64 + b"\r\n0\r\n\r\n", 32, "64"),
        (b"4\r\naaaa\r\n0\r\n\r\n1c\r\n" + b"a" * 28 + b"\r\n0\r\n\r\n", 32, "4"),
    ],
)
def test_chunks_have_the_length_that_was_announced(body: bytes, length: int, provided: str) -> None:
    with pytest.raises(S3Error) as caught:
        read_all(ChunkedSource(BytesIO(body), None, has_trailer=False, length=length))
    assert caught.value.code == "IncompleteBody"
    assert caught.value.fields == {"NumberBytesExpected": "32", "NumberBytesProvided": provided}


@pytest.mark.parametrize("rest", [b"", b"\r\n", b"\r\n\r\n", b"\r\nmore:x\r\n", b"\r\n\xff\x00"])
def test_what_follows_the_trailers_is_ignored(rest: bytes) -> None:
    source = ChunkedSource(BytesIO(b"0\r\n" + CRC + rest), None, has_trailer=True)
    assert read_all(source) == b""
    assert source.trailers == {"x-amz-checksum-crc32": "AAAAAA=="}


def test_what_follows_the_trailers_is_bounded() -> None:
    body = BytesIO(b"0\r\n" + CRC + b"\r\n" + b"x" * 100_000)
    with pytest.raises(S3Error) as caught:
        read_all(ChunkedSource(body, None, has_trailer=True))
    assert caught.value.code == "MalformedTrailerError"
    assert body.tell() < 10_000


def test_the_last_trailer_of_a_name_counts() -> None:
    body = b"0\r\n" + CRC.replace(b"A", b"B") + CRC
    source = ChunkedSource(BytesIO(body), None, has_trailer=True)
    assert read_all(source) == b""
    assert source.trailers == {"x-amz-checksum-crc32": "AAAAAA=="}


@pytest.mark.parametrize(
    ("extension", "code"),
    [
        (b"chunk-signature=", "IncompleteBody"),
        (b"chunk-signature=wrong", "SignatureDoesNotMatch"),
        (b"extra=1;chunk-signature=%s" % PLAIN[0].encode(), "SignatureDoesNotMatch"),
    ],
)
def test_chunks_with_another_signature(extension: bytes, code: str) -> None:
    first = b"10000;%s\r\n%s\r\n" % (extension, PIECES[0])
    with pytest.raises(S3Error) as caught:
        read_all(signed([first]))
    assert caught.value.code == code
    if code == "SignatureDoesNotMatch":
        assert caught.value.fields["StringToSign"].startswith("AWS4-HMAC-SHA256-PAYLOAD\n")


@pytest.mark.parametrize("more", ["", ",", ",,", ",, "])
def test_commas_after_the_name_of_the_trailer(more: str) -> None:
    headers = {
        "x-amz-trailer": f"x-amz-checksum-crc32{more}",
        "x-amz-decoded-content-length": "1",
    }
    assert framing_of(headers, STREAMING_UNSIGNED_TRAILER, 10, True).algorithm == "crc32"


@pytest.mark.parametrize(
    ("trailer", "message"),
    [
        ("x-amz-checksum-crc32, ,", "not supported"),
        (",x-amz-checksum-crc32", "not supported"),
        ("x-amz-checksum-crc32,x-amz-foo", "not supported"),
        ("x-amz-checksum-crc32,x-amz-checksum-sha1", "Multiple checksum Types"),
    ],
)
def test_other_names_of_the_trailer(trailer: str, message: str) -> None:
    headers = {"x-amz-trailer": trailer, "x-amz-decoded-content-length": "1"}
    with pytest.raises(S3Error, match=message) as caught:
        framing_of(headers, STREAMING_UNSIGNED_TRAILER, 10, True)
    assert caught.value.code == "InvalidRequest"


@pytest.mark.parametrize("word", ["invalid", "unsigned-payload", STREAMING_UNSIGNED_TRAILER])
def test_other_signatures_do_not_decode_the_body(word: str) -> None:
    """Presigned URLs and signatures of version 2: the word is compared with the body's hash."""
    form = framing_of({"x-amz-decoded-content-length": "5"}, word, 5, False)
    body = CheckedBody(BytesIO(b"1\r\na\r"), form)
    with pytest.raises(RefusedBody):
        body.read()
    assert body.failure is not None
    assert body.failure.code == "XAmzContentSHA256Mismatch"
    assert body.failure.fields["ClientComputedContentSHA256"] == word


def test_other_signatures_compare_both_lengths() -> None:
    with pytest.raises(S3Error) as caught:
        framing_of({"x-amz-decoded-content-length": "5"}, STREAMING_UNSIGNED_TRAILER, 9, False)
    assert caught.value.fields == {"NumberBytesExpected": "5", "NumberBytesProvided": "9"}


@pytest.mark.parametrize(
    ("sent", "mode"),
    [
        (STREAMING_UNSIGNED_TRAILER, STREAMING_UNSIGNED_TRAILER),
        ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", ""),  # a word for signed requests
        ("UNSIGNED-PAYLOAD", ""),
    ],
)
def test_a_body_without_a_signature_may_be_in_chunks(sent: str, mode: str) -> None:
    message = Message("PUT", "/bucket/k", [], {"x-amz-content-sha256": sent})
    claim = claim_of(message, S3Options(bucket_namespace="cluster"), 0.0)
    assert claim.is_anonymous
    assert claim.content_sha256 == mode
