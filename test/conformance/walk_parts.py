"""Parts of walks: requests that many walks start with, and values for headers."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable, Iterator

from wire import Ask

ACCOUNT = "/v1/AUTH_test"


OTHER = "/v1/AUTH_test2"


Walk = Callable[[random.Random, str], Iterator[Ask]]


MD5_OF_NOTHING = hashlib.md5(b"").hexdigest()


def put(target: str, body: bytes = b"", *headers: tuple[str, str]) -> Ask:
    return Ask("PUT", target, headers, body)


def read(target: str) -> Iterator[Ask]:
    yield Ask("HEAD", target)
    yield Ask("GET", target)


ACCEPTS = (
    "",
    "*/*",
    "application/json",
    "text/xml",
    "application/xml",
    "text/plain",
    "text/html",
    "application/xml;q=0.5, application/json",
    "text/*",
    "application/*",
    "json",
    "x/y",
    ";;",
    "a/b;q=x",
    "text/plain;q=0.1,application/xml",
    "application/json;charset=utf-8",
    "*",
    "text/plain,application/json;q=1.0",
    "application/json;q=2",
    "image/png",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
)


RANGES = (
    "bytes=0-0",
    "bytes=2-5",
    "bytes=-3",
    "bytes=5-",
    "bytes=0-",
    "bytes=5-2",
    "bytes=-0",
    "bytes=99-",
    "bytes=0-999",
    "bytes=-999",
    "bytes=0-0,2-3",
    "bytes=0-0,-1",
    "bytes=2-5,4-8",
    "bytes=0-1,99-",
    "bytes=99-,100-",
    "bytes= 1 - 2",
    "bytes=1-2,",
    "bytes=,1-2",
    "bytes=a-b",
    "bits=0-1",
    "bytes 0-1",
    "bytes=",
    "bytes",
    "Bytes=1-2",
    "bytes=1-2-3",
    "bytes=--1",
    "bytes=+1-2",
    "bytes=0-0,1-1,2-2,3-3",
    "bytes=0-1,0-1",
    "bytes=0-9,0-9,0-9",
    "bytes=" + ",".join(f"{n}-{n}" for n in range(51)),
    "bytes=" + ",".join(f"{n}-{n}" for n in range(9, -1, -1)),
    "bytes=1-1,1-1,1-1,1-1",
    "bytes=9223372036854775808-",
    "bytes=-9223372036854775808",
    "bytes=10-",
    "bytes=9-10",
    "bytes=10-10",
    "bytes=0-1;x",
    "bytes=0x1-0x2",
    "bytes=1_0-",
    "bytes=\xb2-",
    "bytes=-5,0-1",
    "bytes=1-2, 4-5",
)


DATES = (
    "Sat, 21 Nov 2020 00:00:00 GMT",
    "Fri, 01 Jan 2100 00:00:00 GMT",
    "x",
    "",
    "0",
    "Saturday, 21-Nov-20 00:00:00 GMT",
    "Sat Nov 21 00:00:00 2020",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Sat, 21 Nov 2020 00:00:00",
    "Sat, 21 Nov 2020 00:00:00 +0100",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Sat, 32 Nov 2020 00:00:00 GMT",
    "2020-11-21T00:00:00Z",
)


def conditions(chance: random.Random) -> Iterator[tuple[str, str]]:
    if chance.random() < 0.6:
        yield "Range", chance.choice(RANGES)
    if chance.random() < 0.5:
        name = chance.choice(("If-Match", "If-None-Match", "If-Range"))
        etag = chance.choice(etags())
        shape = chance.choice(("{}", '"{}"', 'W/"{}"', "x, {}", '"x", "{}"', '"{}'))
        yield name, shape.format(etag)
    if chance.random() < 0.35:
        name = chance.choice(("If-Modified-Since", "If-Unmodified-Since", "If-Range"))
        yield name, chance.choice(DATES)


WHOLE = b"0123456789"


def etags() -> tuple[str, ...]:
    segments = "".join(hashlib.md5(part).hexdigest() for part in (b"0123", b"456", b"789"))
    return (
        hashlib.md5(WHOLE).hexdigest(),
        hashlib.md5(segments.encode()).hexdigest(),
        "x",
        "*",
        "",
    )


def large(base: str) -> Iterator[Ask]:
    """Create ``0123456789`` as a plain object, as a manifest of each kind, and as symlinks."""
    yield put(base, b"", ("X-Container-Read", ".r:*"))
    yield put(f"{base}/plain", WHOLE)
    for first, last, name in ((0, 4, "s1"), (4, 7, "s2"), (7, 10, "s3")):
        yield put(f"{base}/seg/{name}", WHOLE[first:last])
    container = base.rpartition("/")[2]
    entries = [{"path": f"/{container}/seg/s{n}"} for n in (1, 2, 3)]
    manifest = "?multipart-manifest=put"
    yield put(f"{base}/slo{manifest}", json.dumps(entries).encode())
    inner = [
        {"path": f"/{container}/slo", "range": "2-8"},
        {"data": base64.b64encode(b"inline").decode()},
    ]
    yield put(f"{base}/nested{manifest}", json.dumps(inner).encode())
    yield put(f"{base}/dlo", b"own", ("X-Object-Manifest", f"{container}/seg/"))
    for name in ("plain", "slo", "dlo", "none"):
        yield put(f"{base}/to-{name}", b"", ("X-Symlink-Target", f"{container}/{name}"))
    yield put(
        f"{base}/hard",
        b"",
        ("X-Symlink-Target", f"{container}/plain"),
        ("X-Symlink-Target-Etag", hashlib.md5(WHOLE).hexdigest()),
    )


LARGE_NAMES = (
    "plain",
    "slo",
    "nested",
    "dlo",
    "to-plain",
    "to-slo",
    "to-dlo",
    "to-none",
    "hard",
    "none",
)
