"""The documents of buckets as system metadata: their form, and what a damaged one gives."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.stored_documents import DOCUMENT_BYTES_MAX, PIECE_BYTES, document_of, headers_of

GOLDEN = Path(__file__).parents[3] / "golden" / "s3-settings.json"
PREFIX = "X-Container-Sysmeta-"


def sysmeta_of(headers: dict[str, str]) -> dict[str, str]:
    """The names as the information about a container has them; empty values are not stored."""
    return {k.removeprefix(PREFIX).lower(): v for k, v in headers.items() if v}


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


@given(st.binary(min_size=1, max_size=3000))
def test_a_document_is_read_as_it_was_written(document: bytes) -> None:
    assert document_of(sysmeta_of(headers_of("Policy", document)), "Policy") == document


@pytest.mark.parametrize("document", [b"a" * DOCUMENT_BYTES_MAX, noise(5000), noise(21000)])
def test_long_documents(document: bytes) -> None:
    headers = headers_of("Policy", document)
    assert all(len(value) <= PIECE_BYTES + 2 for value in headers.values())
    assert document_of(sysmeta_of(headers), "Policy") == document


@pytest.mark.parametrize("document", [b"a" * (DOCUMENT_BYTES_MAX + 1), noise(22000)])
def test_a_document_that_does_not_fit_is_refused(document: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        headers_of("Policy", document)
    assert caught.value.code == "InvalidRequest"


def test_each_write_replaces_all_pieces() -> None:
    """So replicas that merge a long and a short document have one of them."""
    long, short, none = (headers_of("Cors", data) for data in (noise(21000), b"<a/>", b""))
    assert set(long) == set(short) == set(none)
    assert document_of(sysmeta_of({**long, **short}), "Cors") == b"<a/>"
    assert document_of(sysmeta_of({**long, **none}), "Cors") is None


def test_settings_do_not_share_pieces() -> None:
    stored = sysmeta_of({**headers_of("Policy", noise(9000)), **headers_of("Cors", b"c")})
    assert document_of(stored, "Policy") == noise(9000)
    assert document_of(stored, "Cors") == b"c"
    assert document_of(stored, "Lifecycle") is None


FIRST = "s3api-setting-policy"
LONG = sysmeta_of(headers_of("Policy", noise(9000)))


@pytest.mark.parametrize(
    "stored",
    [
        {FIRST: LONG[FIRST]},
        {**LONG, FIRST: LONG[FIRST][2:]},
        {**LONG, FIRST: "3" + LONG[FIRST][1:]},
        {**LONG, f"{FIRST}-1": LONG[f"{FIRST}-1"][:-4]},
        {FIRST: "1:AAAA"},
        {FIRST: "1:é"},
        {FIRST: "x:AAAA"},
    ],
)
def test_a_damaged_document_is_no_missing_one(stored: dict[str, str]) -> None:
    with pytest.raises(S3Error) as caught:
        document_of(stored, "Policy")
    assert caught.value.code == "InternalError"


def test_the_golden_documents() -> None:
    entries = json.loads(GOLDEN.read_text())
    assert len(entries) >= 3
    for entry in entries:
        stored = sysmeta_of(entry["headers"])
        assert document_of(stored, entry["name"]) == entry["document"].encode()
