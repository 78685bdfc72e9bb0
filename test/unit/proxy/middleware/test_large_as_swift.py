"""Large objects and symlinks written by OpenStack Swift's filters, read by ours, and vice versa."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from object_store import ObjectStore
from swift.common.middleware import slo as swift_slo
from swift.common.middleware import symlink as swift_symlink

from martlet.conf.constraints import Constraints
from proxy.middleware.large_objects.slo import Slo
from proxy.middleware.large_objects.slo_options import SloOptions
from proxy.middleware.links.symlink import Symlink, SymlinkOptions

Ask = Callable[..., Any]
ITEMS = [
    {"path": "/s/one"},
    {"data": "YWJj"},
    {"path": "/s/two", "range": "-3"},
    {"path": "/s/é", "range": "1-2", "etag": None},
]
OUTER = [{"path": "/c/man", "range": "2-9"}, {"path": "/s/two"}, {"path": "/c/man"}]
WHOLE = b"one" + b"abc" + b"two" + b"hi"


def ours(store: ObjectStore) -> Any:
    return Slo(Symlink(store, SymlinkOptions(), Constraints()), SloOptions())


def swifts(store: ObjectStore) -> Any:
    return swift_slo.filter_factory({})(swift_symlink.filter_factory({})(store))


def write(ask: Ask, app: Any, store: ObjectStore) -> None:
    """Write segments, a manifest, a manifest that contains it, and symlinks to them."""
    store.add("/v1/a/s/one", b"one")
    store.add("/v1/a/s/two", b"two-two")
    store.add("/v1/a/s/\xc3\xa9", b"third")
    for name, items in (("man", ITEMS), ("outer", OUTER)):
        path = f"/v1/a/c/{name}?multipart-manifest=put"
        assert ask(app, path, "PUT", {}, json.dumps(items).encode()).status == 201
    assert ask(app, "/v1/a/c/dynamic", "PUT", {"X-Symlink-Target": "c/man"}).status == 201
    etag = store.objects["/v1/a/c/outer"].etag
    static = {"X-Symlink-Target": "c/outer", "X-Symlink-Target-Etag": etag}
    assert ask(app, "/v1/a/c/static", "PUT", static).status == 201


@pytest.mark.parametrize(("writer", "reader"), [(ours, swifts), (swifts, ours)])
def test_what_one_writes_the_other_reads(
    ask: Ask, writer: Callable[..., Any], reader: Callable[..., Any]
) -> None:
    store = ObjectStore()
    write(ask, writer(store), store)
    outer = WHOLE[2:10] + b"two-two" + WHOLE
    for name, body in [("man", WHOLE), ("outer", outer), ("dynamic", WHOLE), ("static", outer)]:
        path = f"/v1/a/c/{name}"
        read, written = ask(reader(store), path), ask(writer(store), path)
        assert (read.status, read.body) == (200, body)
        assert read.headers["Etag"] == written.headers["Etag"]
        part = ask(reader(store), path, headers={"Range": "bytes=2-7"})
        assert (part.status, part.body) == (206, body[2:8])


def test_both_store_the_same_bytes_and_headers(ask: Ask) -> None:
    mine, theirs = ObjectStore(), ObjectStore()
    write(ask, ours(mine), mine)
    write(ask, swifts(theirs), theirs)
    assert mine.objects == theirs.objects
