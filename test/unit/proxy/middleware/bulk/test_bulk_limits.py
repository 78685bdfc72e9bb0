"""Limits on unpacking: for a client that was refused, and by size."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import tarfile
import zlib
from collections.abc import Iterable
from typing import Any

import pytest

from martlet.conf.constraints import Constraints
from martlet.conf.options import ConfigError, load_options
from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from proxy.middleware.bulk.bulk import Bulk
from proxy.middleware.bulk.options import BulkOptions

MIB = 1024 * 1024
URL = "/v1/a/c?extract-archive=tar.gz"


class Store:
    """A store that answers a PUT by the object's name and reads the whole body it accepts."""

    def __init__(self, **statuses: int) -> None:
        self.statuses = statuses
        self.tried: list[str] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        name = environ["PATH_INFO"].rpartition("/")[2]
        status = 204
        if environ["REQUEST_METHOD"] == "PUT":
            self.tried.append(name)
            status = self.statuses.get(name, 201)
            if status == 201:
                pieces = iter(lambda: len(environ["wsgi.input"].read(MIB)), 0)
                status = 201 if sum(pieces) == int(environ["CONTENT_LENGTH"]) else 499
        return Response(status)(environ, start_response)


def packed(*files: tuple[str, int], kind: str = "gz") -> bytes:
    """Return a compressed archive of files of zeros, with their sizes in MiB."""
    packer = {"gz": zlib.compressobj(wbits=31), "bz2": bz2.BZ2Compressor()}[kind]
    body = b""
    for name, size in files:
        header = tarfile.TarInfo(name)
        header.size = size * MIB
        body += packer.compress(header.tobuf())
        for _ in range(size):
            body += packer.compress(bytes(MIB))
    return body + packer.compress(bytes(1024)) + packer.flush()


def extract(
    ask: Any, store: Store, body: bytes, url: str = URL, **options: int
) -> tuple[dict[str, Any], int]:
    """Return the report, and the number of bytes read from the body."""
    app = Bulk(store, BulkOptions(**options), Constraints())
    answer = ask(app, url, "PUT", {"Accept": "application/json"}, body)
    return json.loads(answer.body), answer.environ["wsgi.input"].tell()


def test_who_was_refused_does_not_keep_us_unpacking(ask: Any) -> None:
    # Python 3.12 and later read 128 KiB of it at a time.
    body = packed(("bomb", 400), ("later", 1))
    store = Store(bomb=403)
    report, read = extract(ask, store, body, max_unpack_ratio=0)
    assert report["Response Status"] == "403 Forbidden"
    assert report["Errors"] == [["c/bomb", "403 Forbidden"]]
    assert store.tried == ["bomb"]
    assert read < len(body) / 2


def test_a_small_file_that_was_refused_is_passed_over(ask: Any) -> None:
    """As in OpenStack Swift: another file may belong to a container that the client may write."""
    store = Store(first=403)
    report, _ = extract(ask, store, packed(("first", 10), ("second", 1)))
    assert report["Response Status"] == "400 Bad Request"
    assert report["Number Files Created"] == 1


def test_who_may_store_something_is_not_held_back(ask: Any) -> None:
    body = packed(("first", 1), ("refused", 40), ("last", 1))
    store = Store(refused=403)
    report, _ = extract(ask, store, body, upload_concurrency=1)
    assert store.tried == ["first", "refused", "last"]
    assert report["Number Files Created"] == 2


@pytest.mark.parametrize("kind", ["gz", "bz2"])
@pytest.mark.parametrize("name", ["taken", "refused"])
def test_it_may_not_unpack_to_many_times_its_size(ask: Any, kind: str, name: str) -> None:
    body = packed(("first", 1), (name, 70), kind=kind)
    url = f"/v1/a/c?extract-archive=tar.{kind}"
    report, _ = extract(ask, Store(refused=412), body, url)
    assert report["Response Status"] == "413 Request Entity Too Large"
    assert report["Response Body"] == "The archive unpacks to more than 200 times its size."
    assert report["Number Files Created"] == 1
    report, _ = extract(ask, Store(), body, url, max_unpack_ratio=0)
    assert report["Response Status"] == "201 Created"


def test_a_small_archive_may_have_any_ratio(ask: Any) -> None:
    report, _ = extract(ask, Store(), packed(("zeros", 60)), max_unpack_ratio=1)
    assert report["Response Status"] == "201 Created"


def tarred(*files: tuple[str, bytes]) -> bytes:
    """Return a plain archive."""
    body = b""
    for name, content in files:
        header = tarfile.TarInfo(name)
        header.size = len(content)
        body += header.tobuf() + content
    return body + bytes(1024)


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.bz2"])
def test_what_was_refused_is_passed_over_if_the_client_sent_it(
    ask: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It occupies the proxy no longer than the client. OpenStack Swift also stores the second."""
    # An eighth of both: to pack noise with bzip2 takes long.
    monkeypatch.setattr("proxy.middleware.bulk.extract._REFUSED_SKIPS_MAX", 2 * MIB)
    noise = random.Random(0).randbytes(5 * MIB // 2)
    body = tarred(("first", noise), ("second", b"x"))
    pack = {"tar": bytes, "tar.gz": gzip.compress, "tar.bz2": bz2.compress}[kind]
    store = Store(first=403)
    report, _ = extract(ask, store, pack(body), f"/v1/a/c?extract-archive={kind}")
    assert store.tried == ["first", "second"]
    assert report["Number Files Created"] == 1
    assert report["Response Status"] == "400 Bad Request"


def test_it_may_not_unpack_to_any_size(ask: Any) -> None:
    body = packed(("first", 1), ("second", 4))
    report, _ = extract(ask, Store(), body, max_unpacked_bytes=3 * MIB)
    assert report["Response Status"] == "413 Request Entity Too Large"
    assert report["Response Body"] == f"The archive unpacks to more than {3 * MIB} bytes."


@pytest.mark.parametrize("name", ["max_unpacked_bytes", "max_unpack_ratio"])
def test_a_limit_below_zero_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load_options(BulkOptions, {name: "-1"})
