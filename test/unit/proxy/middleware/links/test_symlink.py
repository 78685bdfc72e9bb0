"""Symlinks over a store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

import pytest
from object_store import ObjectStore

from martlet.conf.constraints import Constraints
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.info_registry import collect_info
from proxy.middleware.links.symlink import Symlink, SymlinkOptions, filter_factory

LINK = "/v1/a/c/link"
TARGET = "/v1/a/t/o"
EMPTY = "d41d8cd98f00b204e9800998ecf8427e"
OVERRIDE = "X-Object-Sysmeta-Container-Update-Override-Etag"
Ask = Callable[..., Any]


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    store.add(TARGET, b"of the target", content_type="t/arget", x_object_meta_a="target")
    return store


@pytest.fixture
def symlink(store: ObjectStore) -> Symlink:
    return Symlink(store, SymlinkOptions(), Constraints())


def link(ask: Ask, symlink: Symlink, target: str = "t/o", path: str = LINK, **more: str) -> Any:
    headers = {"X-Symlink-Target": target}
    headers |= {f"X-Symlink-Target-{name.title()}": value for name, value in more.items()}
    return ask(symlink, path, "PUT", headers)


def test_a_dynamic_symlink(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    assert link(ask, symlink).status == 201
    assert store.calls == [f"PUT {LINK}"]
    assert store.objects[LINK].headers == {
        "Content-Type": "application/symlink",
        "X-Object-Sysmeta-Symlink-Target": "t/o",
        OVERRIDE: f"{EMPTY}; symlink_target=t/o",
    }
    for method, body in (("GET", b"of the target"), ("HEAD", b"")):
        answer = ask(symlink, LINK, method)
        assert (answer.status, answer.body) == (200, body)
        assert answer.headers["Content-Location"] == TARGET
        assert answer.headers["X-Object-Meta-A"] == "target"
        assert "X-Object-Sysmeta-Symlink-Target" not in answer.headers


def test_a_static_symlink(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    etag = store.objects[TARGET].etag
    assert link(ask, symlink, etag=f'"{etag}"').status == 201
    assert store.calls == [f"HEAD {TARGET}", f"PUT {LINK}"]
    assert store.objects[LINK].headers == {
        "Content-Type": "t/arget",
        "X-Object-Sysmeta-Symlink-Target": "t/o",
        "X-Object-Sysmeta-Symlink-Target-Etag": etag,
        "X-Object-Sysmeta-Symlink-Target-Bytes": "13",
        OVERRIDE: f"{EMPTY}; symlink_target=t/o; symlink_target_etag={etag}; "
        "symlink_target_bytes=13",
    }
    assert ask(symlink, LINK).body == b"of the target"
    store.add(TARGET, b"another")
    other = store.objects[TARGET].etag
    for headers in ({}, {"If-Match": etag}, {"If-None-Match": other}):
        answer = ask(symlink, LINK, headers=headers)
        assert answer.status == 409
        assert answer.headers["Content-Location"] == TARGET
        text = f"Object Etag '{other}' does not match X-Symlink-Target-Etag header '{etag}'"
        assert answer.body == text.encode()
    assert all(stream.is_closed for stream in store.streams)
    del store.objects[TARGET]
    assert ask(symlink, LINK, headers={"If-Match": "x"}).status == 404


def test_a_static_symlink_to_nothing_or_something_else(
    ask: Ask, symlink: Symlink, store: ObjectStore
) -> None:
    answer = link(ask, symlink, etag="x")
    assert answer.status == 409
    assert answer.headers["Content-Location"] == TARGET
    assert b"does not match X-Symlink-Target-Etag header 'x'" in answer.body
    answer = link(ask, symlink, "t/none", etag="x")
    assert (answer.status, answer.body) == (409, b"X-Symlink-Target does not exist")
    store.failing["HEAD", TARGET] = 503
    assert link(ask, symlink, etag="x").status == 503
    assert LINK not in store.objects


def test_the_symlink_itself(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    link(ask, symlink, "t/o%20p", account="b", etag="")
    for method in ("GET", "HEAD"):
        answer = ask(symlink, f"{LINK}?symlink=get", method)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["X-Symlink-Target"] == "t/o%20p"
        assert answer.headers["X-Symlink-Target-Account"] == "b"
        assert "Content-Location" not in answer.headers
        assert OVERRIDE not in answer.headers
    assert ask(symlink, f"{TARGET}?symlink=get").body == b"of the target"


@pytest.mark.parametrize(
    ("target", "stored", "location"),
    [
        ("t/a b", "t/a%20b", "/v1/a/t/a%20b"),
        ("t/a%20b", "t/a%20b", "/v1/a/t/a%20b"),
        ("t/a%2fb", "t/a/b", "/v1/a/t/a/b"),
        ("t%2Fa", "t/a", "/v1/a/t/a"),
        ("t/a%ZZ", "t/a%25ZZ", "/v1/a/t/a%25ZZ"),
        ("t/\xc3\xa9", "t/%C3%A9", "/v1/a/t/%C3%A9"),
    ],
)
def test_names_are_stored_in_one_way(
    ask: Ask, symlink: Symlink, store: ObjectStore, target: str, stored: str, location: str
) -> None:
    assert link(ask, symlink, target).status == 201
    assert store.objects[LINK].headers["X-Object-Sysmeta-Symlink-Target"] == stored
    answer = ask(symlink, LINK)
    assert (answer.status, answer.headers["Content-Location"]) == (404, location)


def test_a_range_is_about_the_target(ask: Ask, symlink: Symlink) -> None:
    link(ask, symlink)
    answer = ask(symlink, LINK, headers={"Range": "bytes=7-12"})
    assert (answer.status, answer.body) == (206, b"target")


def test_conditions_are_about_the_target(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    link(ask, symlink)
    etag = store.objects[TARGET].etag
    for name, value, status in [
        ("If-Match", etag, 200),
        ("If-Match", EMPTY, 412),
        ("If-None-Match", etag, 304),
        ("If-None-Match", EMPTY, 200),
    ]:
        answer = ask(symlink, LINK, headers={name: value})
        assert (answer.status, answer.headers["Content-Location"]) == (status, TARGET)


def test_the_target_of_another_account(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    store.add("/v1/b/t/o", b"of b")
    link(ask, symlink, account="b")
    answer = ask(symlink, LINK, environ={"swift.authorize": "check", "REMOTE_USER": "u"})
    assert (answer.body, answer.headers["Content-Location"]) == (b"of b", "/v1/b/t/o")
    # The request for the target has the client's identity and is authorized separately.
    assert store.requests[-1]["swift.authorize"] == "check"
    assert store.requests[-1]["REMOTE_USER"] == "u"
    assert store.requests[-1]["swift.source"] == "SYM"


def test_symlinks_to_symlinks(ask: Ask, symlink: Symlink) -> None:
    link(ask, symlink, path="/v1/a/c/1")
    link(ask, symlink, "c/1", "/v1/a/c/2")
    link(ask, symlink, "c/2", "/v1/a/c/3")
    assert ask(symlink, "/v1/a/c/2").body == b"of the target"
    answer = ask(symlink, "/v1/a/c/3")
    text = b"Too many levels of symbolic links, maximum allowed is 2"
    assert (answer.status, answer.body) == (409, text)


def test_two_that_target_each_other(ask: Ask, symlink: Symlink) -> None:
    link(ask, symlink, "c/2", "/v1/a/c/1")
    link(ask, symlink, "c/1", "/v1/a/c/2")
    assert ask(symlink, "/v1/a/c/1").status == 409


def test_a_static_symlink_to_a_dynamic_one_has_its_etag(
    ask: Ask, symlink: Symlink, store: ObjectStore
) -> None:
    link(ask, symlink, path="/v1/a/c/1")
    wrong = store.objects[TARGET].etag
    assert link(ask, symlink, "c/1", "/v1/a/c/2", etag=wrong).status == 409
    assert link(ask, symlink, "c/1", "/v1/a/c/2", etag=EMPTY).status == 201
    store.add(TARGET, b"another")
    assert ask(symlink, "/v1/a/c/2").body == b"another"
    # No longer a symlink, so the ETag differs.
    store.add("/v1/a/c/1", b"plain")
    assert ask(symlink, "/v1/a/c/2").status == 409


def test_static_symlinks_to_each_other_agree(
    ask: Ask, symlink: Symlink, store: ObjectStore
) -> None:
    etag = store.objects[TARGET].etag
    link(ask, symlink, path="/v1/a/c/1", etag=etag)
    assert link(ask, symlink, "c/1", "/v1/a/c/2", etag=EMPTY).status == 409
    assert link(ask, symlink, "c/1", "/v1/a/c/2", etag=etag).status == 201
    assert ask(symlink, "/v1/a/c/2").body == b"of the target"
    store.add("/v1/a/t/p", b"other")
    link(ask, symlink, "t/p", "/v1/a/c/1", etag=store.objects["/v1/a/t/p"].etag)
    answer = ask(symlink, "/v1/a/c/2")
    assert (answer.status, answer.body) == (409, b"X-Symlink-Target-Etag headers do not match")


def test_a_static_symlink_to_a_large_object(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    manifest = store.add(
        TARGET,
        b"[]",
        x_static_large_object="True",
        x_object_sysmeta_slo_etag="large",
        x_object_sysmeta_slo_size="999",
    )
    assert link(ask, symlink, etag="large").status == 409
    assert link(ask, symlink, etag=manifest.etag).status == 201
    row = store.objects[LINK].headers[OVERRIDE]
    assert row == (
        f"{EMPTY}; slo_etag=large; symlink_target=t/o; symlink_target_etag={manifest.etag}; "
        "symlink_target_bytes=999"
    )


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({"X-Symlink-Target": "o"}, 412, "X-Symlink-Target header must be of the form"),
        ({"X-Symlink-Target": "/c/o"}, 412, "<container name>/<object name>"),
        ({"X-Symlink-Target": "%2Fc/o"}, 412, "<container name>/<object name>"),
        ({"X-Symlink-Target": "c/%ff"}, 412, "<container name>/<object name>"),
        ({"X-Symlink-Target": "c/%00"}, 412, "<container name>/<object name>"),
        ({"X-Symlink-Target": ""}, 412, "<container name>/<object name>"),
        (
            {"X-Symlink-Target": "t/o", "X-Symlink-Target-Account": "x/y"},
            412,
            "Account name cannot contain slashes",
        ),
        (
            {"X-Symlink-Target": "t/o", "X-Symlink-Target-Account": ""},
            412,
            "Account name cannot be empty",
        ),
        ({"X-Symlink-Target": "c/link"}, 400, "Symlink cannot target itself"),
        (
            {"X-Symlink-Target": "c/link", "X-Symlink-Target-Account": "a"},
            400,
            "Symlink cannot target itself",
        ),
    ],
)
def test_targets_that_are_refused(
    ask: Ask, symlink: Symlink, store: ObjectStore, headers: dict[str, str], status: int, text: str
) -> None:
    answer = ask(symlink, LINK, "PUT", headers)
    assert answer.status == status
    assert text in answer.body.decode()
    assert not store.requests


@pytest.mark.parametrize(("body", "status"), [(b"", 201), (b"x", 400)])
def test_symlinks_have_no_bytes(
    ask: Ask, symlink: Symlink, store: ObjectStore, body: bytes, status: int
) -> None:
    headers = {"X-Symlink-Target": "t/o"}
    assert ask(symlink, LINK, "PUT", headers, body).status == status
    environ = Request.blank(LINK, "PUT", headers).environ
    environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": BytesIO(body)}
    del environ["CONTENT_LENGTH"]
    assert call_app(symlink, environ)[0].startswith(str(status))


def test_what_another_filter_knows_is_not_looked_up(
    ask: Ask, symlink: Symlink, store: ObjectStore
) -> None:
    headers = {
        "X-Symlink-Target": "t/none",
        "X-Object-Sysmeta-Symlink-Target-Etag": "e",
        "X-Object-Sysmeta-Symlink-Target-Bytes": "5",
        "Content-Type": "t/x",
    }
    assert ask(symlink, LINK, "PUT", headers).status == 201
    assert store.calls == [f"PUT {LINK}"]
    row = f"{EMPTY}; symlink_target=t/none; symlink_target_etag=e; symlink_target_bytes=5"
    assert store.objects[LINK].headers[OVERRIDE] == row
    synced = {"X-Symlink-Target": "t/none", "X-Symlink-Target-Etag": "e"}
    override = {"swift.symlink_override": True}
    assert ask(symlink, LINK, "PUT", synced, environ=override).status == 201


def test_post_is_for_the_symlink(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    etag = store.objects[TARGET].etag
    link(ask, symlink, etag=etag)
    answer = ask(symlink, LINK, "POST", {"X-Object-Meta-A": "link"})
    assert answer.status == 307
    assert "X-Symlink-Target" not in answer.headers
    assert answer.headers["Location"] == TARGET
    assert answer.headers["X-Symlink-Target-Etag"] == etag
    assert answer.body == (
        b"The requested POST was applied to a symlink. POST directly to the target to apply "
        b"requested metadata."
    )
    assert store.objects[LINK].headers["X-Object-Meta-A"] == "link"
    assert ask(symlink, TARGET, "POST", {"X-Object-Meta-A": "b"}).status == 202
    answer = ask(symlink, LINK, "POST", {"X-Symlink-Target": "t/o"})
    text = b"A PUT request is required to set a symlink target"
    assert (answer.status, answer.body) == (400, text)


def test_delete_leaves_the_target(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    link(ask, symlink)
    assert ask(symlink, LINK, "DELETE").status == 204
    assert list(store.objects) == [TARGET]


def test_a_listing_shows_targets(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    etag = store.objects[TARGET].etag
    link(ask, symlink, "t/a b", "/v1/a/c/dynamic")
    link(ask, symlink, "t/o", "/v1/a/c/static", etag=etag)
    link(ask, symlink, "t/o", "/v1/a/c/wide", account="b")
    store.add("/v1/a/c/plain", b"x")
    rows = {row.pop("name"): row for row in json.loads(ask(symlink, "/v1/a/c").body)}
    assert rows["dynamic"]["symlink_path"] == "/v1/a/t/a%20b"
    assert rows["wide"]["symlink_path"] == "/v1/b/t/o"
    assert rows["static"]["symlink_path"] == TARGET
    assert rows["static"]["symlink_etag"] == etag
    assert rows["static"]["symlink_bytes"] == 13
    assert rows["static"]["hash"] == rows["dynamic"]["hash"] == EMPTY
    assert "symlink_path" not in rows["plain"]


def test_a_symlink_that_is_a_version_leads_to_that_version(ask: Ask) -> None:
    version = {"symlink_path": "/v1/a/c/o?version-id=1", "version_symlink": True}
    row = {"name": "o", "hash": f"{EMPTY}; symlink_target=t/o", **version}

    def listing(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return Response(200, {"Content-Type": "application/json"}, json.dumps([row]))(
            environ, start_response
        )

    made = Symlink(listing, SymlinkOptions(), Constraints())
    assert json.loads(ask(made, "/v1/a/c").body) == [row | {"hash": EMPTY}]


def test_what_is_left_alone(ask: Ask, symlink: Symlink, store: ObjectStore) -> None:
    assert ask(symlink, TARGET).body == b"of the target"
    assert "Content-Location" not in ask(symlink, TARGET).headers
    assert ask(symlink, "/v1/a/c/none").status == 404
    assert ask(symlink, f"{TARGET}?symlink=%ff").body == b"of the target"
    headers = {"X-Symlink-Target-Account": "b"}
    assert ask(symlink, LINK, "PUT", headers, b"plain").status == 201
    assert store.objects[LINK].body == b"plain"


@pytest.mark.parametrize(("given", "in_force"), [("3", 3), ("-1", 2), ("0", 2)])
def test_the_limit_of_the_factory(
    store: ObjectStore, tmp_path: Any, given: str, in_force: int
) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = x\n"
    )
    symlink = filter_factory({"swift_dir": str(tmp_path)}, symloop_max=given)(store)
    assert symlink.symloop_max == in_force
    assert collect_info()["symlink"] == {"symloop_max": in_force, "static_links": True}
