"""Copies of large objects and symlinks: copy, slo, dlo and symlink over a store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from object_store import ObjectStore

from martlet.conf.constraints import Constraints
from proxy.middleware.large_objects.dlo import Dlo, DloOptions
from proxy.middleware.large_objects.slo import Slo
from proxy.middleware.large_objects.slo_options import SloOptions
from proxy.middleware.links.copy import Copy
from proxy.middleware.links.symlink import Symlink, SymlinkOptions

Ask = Callable[..., Any]
SLO_HEADER = "X-Static-Large-Object"


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    store.add("/v1/a/s/x1", b"one")
    store.add("/v1/a/s/x2", b"two")
    return store


@pytest.fixture
def app(ask: Ask, store: ObjectStore) -> Copy:
    """The filters, with /v1/a/c/slo, /v1/a/c/dlo and /v1/a/c/link (to s/x1)."""
    symlink = Symlink(store, SymlinkOptions(), Constraints())
    slo = Slo(Dlo(symlink, DloOptions(), store.page_size), SloOptions())
    items = [{"path": "/s/x1"}, {"path": "/s/x2"}, {"data": "YWJj"}]
    path = "/v1/a/c/slo?multipart-manifest=put"
    assert ask(slo, path, "PUT", {}, json.dumps(items).encode()).status == 201
    store.add("/v1/a/c/dlo", b"dlo", x_object_manifest="s/x")
    assert ask(slo, "/v1/a/c/link", "PUT", {"X-Symlink-Target": "s/x1"}).status == 201
    return Copy(slo, Constraints())


def copy(ask: Ask, app: Copy, source: str, query: str = "", by: str = "COPY", **more: str) -> int:
    """Copy /v1/a/c/<source> to /v1/a/d/new."""
    if by == "COPY":
        path, headers = f"/v1/a/c/{source}{query}", {"Destination": "d/new"}
    else:
        path, headers = f"/v1/a/d/new{query}", {"X-Copy-From": f"c/{source}"}
    named = {name.replace("_", "-"): value for name, value in more.items()}
    status: int = ask(app, path, by, {**headers, **named}).status
    return status


@pytest.mark.parametrize("by", ["COPY", "PUT"])
@pytest.mark.parametrize(
    ("source", "body"), [("slo", b"onetwoabc"), ("dlo", b"onetwo"), ("link", b"one")]
)
def test_what_they_stand_for(
    ask: Ask, app: Copy, store: ObjectStore, by: str, source: str, body: bytes
) -> None:
    assert copy(ask, app, source, by=by) == 201
    new = store.objects["/v1/a/d/new"]
    assert new.body == body
    special = ("Static", "Manifest", "Slo", "Symlink", "Override")
    assert not [name for name in new.headers if any(word in name for word in special)]


@pytest.mark.parametrize("by", ["COPY", "PUT"])
def test_the_manifest_of_a_static_large_object(
    ask: Ask, app: Copy, store: ObjectStore, by: str
) -> None:
    query = "?multipart-manifest=get"
    assert copy(ask, app, "slo", query, by, content_type="t/new") == 201
    old, new = store.objects["/v1/a/c/slo"], store.objects["/v1/a/d/new"]
    assert new.body == old.body
    assert new.headers["Content-Type"] == "t/new;swift_bytes=9"
    for name in (SLO_HEADER, "X-Object-Sysmeta-Slo-Etag", "X-Object-Sysmeta-Slo-Size"):
        assert new.headers[name] == old.headers[name]


def test_its_segments_are_looked_at_again(ask: Ask, app: Copy, store: ObjectStore) -> None:
    del store.objects["/v1/a/s/x2"]
    assert copy(ask, app, "slo", "?multipart-manifest=get") == 400
    assert "/v1/a/d/new" not in store.objects


@pytest.mark.parametrize("by", ["COPY", "PUT"])
def test_one_part(ask: Ask, app: Copy, store: ObjectStore, by: str) -> None:
    assert copy(ask, app, "slo", "?part-number=2", by) == 201
    assert store.objects["/v1/a/d/new"].body == b"two"


@pytest.mark.parametrize("by", ["COPY", "PUT"])
def test_the_manifest_of_a_dynamic_large_object(
    ask: Ask, app: Copy, store: ObjectStore, by: str
) -> None:
    assert copy(ask, app, "dlo", "?multipart-manifest=get", by) == 201
    new = store.objects["/v1/a/d/new"]
    assert (new.body, new.headers["X-Object-Manifest"]) == (b"dlo", "s/x")


def test_one_of_unknown_size_is_not_copied(ask: Ask, store: ObjectStore) -> None:
    store.page_size = 1
    store.add("/v1/a/c/dlo", b"dlo", x_object_manifest="s/x")
    app = Copy(Dlo(store, DloOptions(), 1), Constraints())
    assert copy(ask, app, "dlo") == 413


@pytest.mark.parametrize("by", ["COPY", "PUT"])
@pytest.mark.parametrize("query", ["?symlink=get", "?symlink=get&multipart-manifest=get"])
def test_the_symlink(ask: Ask, app: Copy, store: ObjectStore, by: str, query: str) -> None:
    assert copy(ask, app, "link", query, by) == 201
    assert store.objects["/v1/a/d/new"] == store.objects["/v1/a/c/link"]


def test_a_symlink_to_somewhere_else(ask: Ask, app: Copy, store: ObjectStore) -> None:
    other = {"x_symlink_target": "s/x2", "x_symlink_target_account": "b"}
    assert copy(ask, app, "link", "?symlink=get", **other) == 201
    new = store.objects["/v1/a/d/new"].headers
    assert new["X-Object-Sysmeta-Symlink-Target"] == "s/x2"
    assert new["X-Object-Sysmeta-Symlink-Target-Account"] == "b"


def test_a_static_symlink_is_checked_again(ask: Ask, app: Copy, store: ObjectStore) -> None:
    etag = store.objects["/v1/a/s/x1"].etag
    headers = {"X-Symlink-Target": "s/x1", "X-Symlink-Target-Etag": etag}
    assert ask(app, "/v1/a/c/link", "PUT", headers).status == 201
    assert copy(ask, app, "link", "?symlink=get") == 201
    assert store.objects["/v1/a/d/new"] == store.objects["/v1/a/c/link"]
    store.add("/v1/a/s/x1", b"another")
    assert copy(ask, app, "link", "?symlink=get") == 409
