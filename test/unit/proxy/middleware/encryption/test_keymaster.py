"""The keys of a path, and errors in the configuration."""

from __future__ import annotations

import hmac
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.environ import FETCH_KEYS
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.names import str_to_wsgi
from proxy.middleware.encryption.keymaster import Keymaster, filter_factory
from proxy.middleware.encryption.keys import Keys, UnknownSecretError, all_keys
from proxy.middleware.encryption.meta import CryptoError

OLD, NEW = b"o" * 32, b"n" * 40
SECRETS: dict[str | None, bytes] = {None: OLD, "new": NEW}


def fetcher(
    path: str, version: str = "2", active: str | None = None, method: str = "GET", **environ: Any
) -> Any:
    """Return the callable for a request of ``path`` (percent-encoded)."""
    request = Request.blank(path, method, environ=environ)
    keymaster = Keymaster(Response(200), SECRETS, active, version)
    list(keymaster(request.environ, lambda status, headers: None))
    return request.environ.get(FETCH_KEYS)


def key_of(path: str, secret: bytes = OLD) -> bytes:
    return hmac.digest(secret, path.encode(), "sha256")


def test_keys_are_made_of_paths() -> None:
    keys = fetcher("/v1/a/c/o")()
    assert keys["container"] == key_of("/a/c")
    assert keys["object"] == key_of("/a/c/o")
    assert keys["id"] == {"v": "2", "path": "/a/c/o"}
    assert keys["all_ids"] == [keys["id"], {"v": "2", "path": "/a/c/o", "secret_id": "new"}]


def test_only_keys_that_the_request_can_need_are_given() -> None:
    assert "object" not in fetcher("/v1/a/c")()
    assert fetcher("/v1/a")() == {}
    assert fetcher("/v1/a/c/o", method="DELETE") is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST"])
def test_each_method_that_needs_keys_has_them(method: str) -> None:
    assert fetcher("/v1/a/c/o", method=method)()["object"] == key_of("/a/c/o")


def test_the_active_secret_writes_and_all_read() -> None:
    fetch = fetcher("/v1/a/c/o", active="new")
    written = fetch()
    assert written["object"] == key_of("/a/c/o", NEW)
    assert written["id"]["secret_id"] == "new"
    assert fetch({"v": "2", "path": "/a/c/o"})["object"] == key_of("/a/c/o")
    assert fetch(written["id"])["object"] == written["object"]
    of_all: list[Keys] = all_keys({FETCH_KEYS: fetch})
    assert [keys["object"] for keys in of_all] == [key_of("/a/c/o", NEW), key_of("/a/c/o")]


def test_a_secret_that_nobody_has() -> None:
    lost = {"v": "2", "path": "/a/c/o", "secret_id": "lost"}
    with pytest.raises(UnknownSecretError, match="lost"):
        fetcher("/v1/a/c/o")(lost)


def test_another_keymaster_is_asked_for_its_secrets() -> None:
    asked: list[Any] = []

    def other(key_id: Any = None) -> Any:
        asked.append(key_id)
        return {"object": b"x" * 32, "all_ids": [{"secret_id": "lost"}]}

    fetch = fetcher("/v1/a/c/o", **{FETCH_KEYS: other})
    assert fetch()["all_ids"][-1] == {"secret_id": "lost"}
    assert fetch({"v": "2", "path": "/a/c/o", "secret_id": "lost"})["object"] == b"x" * 32
    assert asked == [None, {"v": "2", "path": "/a/c/o", "secret_id": "lost"}]


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize(
    "path", ["/\u00e4/\u00f6/\u00fc", "/a/c/\u00fc", "/a/c//o", "/\u00e4/c//o"]
)
def test_what_is_written_is_read_again(version: str, path: str) -> None:
    account, container, obj = path[1:].split("/", 2)
    encoded = "/v1" + str_to_wsgi(path).encode("latin-1").decode("latin-1")
    fetch = fetcher("/v1/x", version)  # any request; a server would set the path
    fetch = _fetch_for(encoded, version)
    written = fetch()
    assert fetch(written["id"]) == written
    short = version == "1" and obj.startswith("/")
    assert written["object"] == key_of(obj if short else path)
    assert written["container"] == key_of(f"/{account}/{container}")
    listed = _fetch_for(encoded.rsplit("/", obj.count("/") + 1)[0], version)(written["id"])
    assert listed["container"] == written["container"]


def _fetch_for(path_info: str, version: str) -> Any:
    request = Request.blank("/")
    request.environ["PATH_INFO"] = path_info
    list(Keymaster(Response(200), SECRETS, None, version)(request.environ, lambda s, h: None))
    return request.environ[FETCH_KEYS]


def test_a_copy_made_right_of_encryption_has_the_keys_of_its_source() -> None:
    keys = fetcher("/v1/a/c/copy")({"v": "2", "path": "/a/c/source"})
    assert keys["object"] == key_of("/a/c/source")


@pytest.mark.parametrize(
    "key_id",
    [
        {},
        {"v": "4", "path": "/a/c/o"},
        {"v": "2"},
        {"v": "2", "path": 5},
        {"v": "2", "path": "a/c/o"},
        {"v": "2", "path": "/a/c"},
        {"v": "2", "path": ""},
    ],
)
def test_malformed_key_ids(key_id: dict[str, Any]) -> None:
    with pytest.raises(CryptoError):
        fetcher("/v1/a/c/o")(key_id)


def test_a_path_without_keys() -> None:
    with pytest.raises(CryptoError):
        fetcher("/v1/a/%FF/o")()


GOOD = b64encode(OLD).decode()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "encryption_root_secret, is missing"),
        ({"encryption_root_secret": ""}, "base64 of at least 32 bytes"),
        ({"encryption_root_secret": GOOD[:-8]}, "base64 of at least 32 bytes"),
        ({"encryption_root_secret": GOOD.replace("=", "!")}, "base64 of at least 32 bytes"),
        ({"encryption_root_secret": GOOD, "active_root_secret_id": "x"}, "secret_x, is missing"),
        ({"encryption_root_secret_x": GOOD}, "is missing"),
        ({"encryption_root_secret": GOOD, "meta_version_to_write": "4"}, "one of 1, 2, 3"),
        ({"encryption_root_secret": GOOD, "encryption_rot_secret": GOOD}, "unknown option"),
        ({"keymaster_config_path": "/nowhere"}, "cannot read"),
        ({"keymaster_config_path": "/nowhere", "encryption_root_secret": GOOD}, "must be in"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        filter_factory({}, **options)
    assert GOOD[:10] not in str(caught.value)


def test_options_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    conf = tmp_path / "keymaster.conf"
    secret = b64encode(NEW).decode()
    conf.write_text(
        "[keymaster]\n"
        f"encryption_root_secret = {GOOD}\n"
        f"encryption_root_secret_new = {secret[:20]}\n    {secret[20:]}\n"
        "active_root_secret_id = new\n"
    )
    keymaster = filter_factory({}, keymaster_config_path=str(conf))(Response(200))
    request = Request.blank("/v1/a/c/o")
    list(keymaster(request.environ, lambda status, headers: None))
    assert request.environ[FETCH_KEYS]()["object"] == key_of("/a/c/o", NEW)
    conf.write_text("[other]\n")
    with pytest.raises(ConfigError, match=r"no section \[keymaster\]"):
        filter_factory({}, keymaster_config_path=str(conf))
