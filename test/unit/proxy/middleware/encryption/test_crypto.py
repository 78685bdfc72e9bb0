"""Ciphers, the text forms of crypto metadata, and parts of a multipart body: pure functions."""

from __future__ import annotations

import json
import os
from urllib.parse import quote_plus, unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.middleware.encryption.cipher import transform
from proxy.middleware.encryption.meta import (
    CryptoError,
    CryptoMeta,
    WrappedKey,
    decrypt_value,
    encrypt_value,
    split_value,
)
from proxy.middleware.encryption.ranges import decrypted_parts

KEY = bytes(range(32))
IV = bytes(range(16))


def test_the_cipher_is_aes_256_in_counter_mode() -> None:
    """NIST SP 800-38A, F.5.5."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    iv = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
    wanted = "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    assert transform(key, iv).update(plain).hex() == wanted


@given(
    iv=st.one_of(st.binary(min_size=16, max_size=16), st.just(b"\xff" * 16)),
    offset=st.integers(0, 200),
)
def test_a_stream_may_begin_anywhere(iv: bytes, offset: int) -> None:
    plain = bytes(200) + b"tail"
    whole = transform(KEY, iv).update(plain)
    assert transform(KEY, iv, offset).update(whole[offset:]) == plain[offset:]


def test_lengths_of_keys_and_ivs_are_checked() -> None:
    for key, iv in ((KEY[1:], IV), (KEY, IV[1:]), (KEY[:16], IV)):
        with pytest.raises(ValueError, match="has 32 bytes"):
            transform(key, iv)


@given(
    value=st.binary(max_size=300),
    key_id=st.one_of(st.none(), st.dictionaries(st.text(), st.text())),
)
def test_values_come_back(value: bytes, key_id: dict[str, str] | None) -> None:
    text = encrypt_value(KEY, value, key_id)
    assert text.isascii()
    encrypted, meta = split_value(text)
    assert meta is not None
    assert (decrypt_value(KEY, encrypted, meta), meta.key_id) == (value, key_id)


def test_equal_values_look_different() -> None:
    assert encrypt_value(KEY, b"v") != encrypt_value(KEY, b"v")


@given(st.dictionaries(st.text(), st.text()))
def test_percent_encoding_is_urllibs(key_id: dict[str, str]) -> None:
    text = CryptoMeta(IV, key_id).dump()
    assert quote_plus(unquote_plus(text)) == text
    assert json.loads(unquote_plus(text))["key_id"] == key_id
    lower = "".join(c.lower() if i and text[i - 1] == "%" else c for i, c in enumerate(text))
    for variant in (text, lower, quote_plus(unquote_plus(text), safe='{}":')):
        assert CryptoMeta.load(variant) == CryptoMeta(IV, key_id)


def test_body_keys_are_wrapped() -> None:
    body_key = os.urandom(32)
    wrapped = WrappedKey.wrap(KEY, body_key)
    assert body_key not in wrapped.key
    meta = CryptoMeta.load(CryptoMeta(IV, {"v": "2"}, wrapped).dump())
    assert meta == CryptoMeta(IV, {"v": "2"}, wrapped)
    assert wrapped.unwrap(KEY) == body_key
    with pytest.raises(CryptoError):
        WrappedKey(b"short", IV).unwrap(KEY)
    with pytest.raises(CryptoError):
        WrappedKey(body_key, b"short").unwrap(KEY)


def test_values_that_are_not_encrypted_stay_as_they_are() -> None:
    for text in ("", "etag", "etag; slo_etag=x", "a=b; not_swift_meta=1"):
        assert split_value(text) == (text, None)


def test_the_order_of_parameters_does_not_matter() -> None:
    value, _, meta = encrypt_value(KEY, b"v").partition("; ")
    for text in (f"{value};{meta}", f"{value}; other=1; {meta}", f"{value}; {meta}; other=1"):
        found, parsed = split_value(text)
        assert parsed is not None
        assert decrypt_value(KEY, found, parsed) == b"v"


GOOD = {"cipher": "AES_CTR_256", "iv": "AAECAwQFBgcICQoLDA0ODw==", "key_id": {"v": "2"}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%",
        "nonsense",
        "[]",
        "[" * 100_000,
        *(
            quote_plus(json.dumps(fields))
            for fields in (
                {},
                GOOD | {"cipher": "ROT13"},
                GOOD | {"cipher": 5},
                GOOD | {"iv": "c2hvcnQ="},
                GOOD | {"iv": 5},
                GOOD | {"iv": "\u00fc"},
                GOOD | {"body_key": {"key": "AAAA"}},
                GOOD | {"body_key": [1]},
                GOOD | {"body_key": "x"},
            )
        ),
    ],
)
def test_malformed_metadata_is_an_error_of_its_own(text: str) -> None:
    with pytest.raises(CryptoError):
        CryptoMeta.load(text)


@given(st.text(max_size=100))
def test_any_text_is_metadata_or_an_error(text: str) -> None:
    try:
        CryptoMeta.load(text)
    except CryptoError:
        pass  # the only allowed error


def test_a_value_needs_an_iv_and_base64() -> None:
    for value, meta in (("AAAA", CryptoMeta()), ("A", CryptoMeta(IV))):
        with pytest.raises(CryptoError):
            decrypt_value(KEY, value, meta)


def multipart(data: bytes, ranges: list[tuple[int, int]]) -> bytes:
    parts = [
        b"--frame\r\nContent-Type: a/b\r\nContent-Range: bytes %d-%d/%d\r\n\r\n%b\r\n"
        % (first, last, len(data), data[first : last + 1])
        for first, last in ranges
    ]
    return b"".join(parts) + b"--frame--"


@given(data=st.data())
def test_parts_are_decrypted_however_they_are_cut(data: st.DataObject) -> None:
    plain = bytes(range(256)) + b"\r\n\r\n--frame--\r\nContent-Range: bytes 1-2/3\r\n\r\n"
    encrypted = transform(KEY, IV).update(plain)
    last = len(plain) - 1
    spans = st.tuples(st.integers(0, last), st.integers(0, last)).map(sorted).map(tuple)
    ranges = data.draw(st.lists(spans, min_size=1, max_size=4))
    body = multipart(encrypted, ranges)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    chunks = [body[i:j] for i, j in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    found = b"".join(decrypted_parts(chunks, lambda start: transform(KEY, IV, start)))
    assert found == multipart(plain, ranges)


@pytest.mark.parametrize(
    "body", [b"--frame\r\nContent-Type: a/b\r\n\r\nabc", b"x" * 70_000], ids=["no range", "no end"]
)
def test_what_is_no_multipart_body_is_an_error(body: bytes) -> None:
    with pytest.raises(CryptoError):
        list(decrypted_parts([body], lambda start: transform(KEY, IV, start)))
