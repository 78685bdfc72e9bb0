"""Requests that another cluster has signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from storage_app import StorageApp, container

from martlet.conf.options import ConfigError
from martlet.conf.sync_realms import CONF_NAME, sync_signature
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.auth.container_sync import filter_factory

PATH = "/v1/AUTH_a/c/%C3%BC%20o"
TIME = "1387219100.00000"
INFOS = {
    "/v1/AUTH_a/c": {**container(), "sync_key": "user"},
    "/v1/AUTH_a/closed": container(),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    realms = "[us]\nkey = k1\nkey2 = k2\ncluster_b = http://b/v1/\n[empty]\n"
    (tmp_path / CONF_NAME).write_text(realms)
    yield tmp_path
    clear_info()


@pytest.fixture
def inner() -> StorageApp:
    return StorageApp(INFOS)


@pytest.fixture
def app(folder: Path, inner: StorageApp) -> Any:
    return filter_factory({"swift_dir": str(folder)})(inner)


def signed(
    method: str = "PUT",
    path: str = PATH,
    key: str = "k1",
    user_key: str = "user",
    realm: str = "US",
) -> dict[str, str]:
    signature = sync_signature(method, path, TIME, "nonce", key, user_key)
    return {
        "X-Container-Sync-Auth": f"{realm} nonce {signature}",
        "X-Backend-Inbound-X-Timestamp": TIME,
    }


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "POST"])
@pytest.mark.parametrize("key", ["k1", "k2"])
def test_a_signed_request_goes_past_auth(
    ask: Any, app: Any, inner: StorageApp, method: str, key: str
) -> None:
    assert ask(app, PATH, method, signed(method, key=key, realm="us")).status == 200
    environ = inner.environ
    assert environ["HTTP_X_TIMESTAMP"] == TIME
    for name in ("authorize_override", "slo_override", "symlink_override"):
        assert environ[f"swift.{name}"] is True
    assert environ["swift.log_info"] == ["cs:valid"]


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        (signed("GET"), "invalid-sig"),
        (signed(path="/v1/AUTH_a/c/other"), "invalid-sig"),
        (signed(key="k3"), "invalid-sig"),
        (signed(user_key="other"), "invalid-sig"),
        ({**signed(), "X-Backend-Inbound-X-Timestamp": "1"}, "invalid-sig"),
        (signed(realm="eu"), "no-local-realm-key"),
        (signed(realm="empty"), "no-local-realm-key"),
        ({"X-Container-Sync-Auth": "us nonce"}, "not-3-args"),
        ({"X-Container-Sync-Auth": ""}, "not-3-args"),
        ({"X-Container-Sync-Auth": "us nonce \xe9"}, "invalid-sig"),
    ],
)
def test_what_is_not_signed_right(
    ask: Any, app: Any, inner: StorageApp, headers: dict[str, str], word: str
) -> None:
    answer = ask(app, PATH, "PUT", headers)
    assert (answer.status, inner.seen) == (401, [])
    assert answer.environ["swift.log_info"] == [f"cs:{word}"]


@pytest.mark.parametrize("name", ["closed", "none"])
def test_a_container_whose_owner_set_no_key(ask: Any, app: Any, name: str) -> None:
    path = f"/v1/AUTH_a/{name}/o"
    answer = ask(app, path, "PUT", signed(path=path, user_key=""))
    assert answer.status == 401
    assert answer.environ["swift.log_info"] == ["cs:no-local-user-key"]


def test_everything_else_goes_on(ask: Any, app: Any, inner: StorageApp) -> None:
    for path in (PATH, "/v1/AUTH_a", "/info", "/v1/AUTH_a/%FF/o"):
        assert ask(app, path, "PUT").status == 200
        assert "swift.authorize_override" not in inner.environ


@pytest.mark.parametrize(
    ("target", "allowed", "status"),
    [
        ("http://x/v1/a/c", "true", 200),
        ("http://x/v1/a/c", "false", 400),
        ("//us/b/a/c", "false", 200),
        ("", "false", 200),
    ],
)
def test_full_urls(ask: Any, folder: Path, target: str, allowed: str, status: int) -> None:
    app = filter_factory({"swift_dir": str(folder)}, allow_full_urls=allowed)(StorageApp())
    assert ask(app, "/v1/a/c", "POST", {"X-Container-Sync-To": target}).status == status


def test_info(folder: Path) -> None:
    filter_factory({"swift_dir": str(folder)}, current="//US/B")
    shown = {"US": {"clusters": {"B": {"current": True}}}}
    assert collect_info()["container_sync"] == {"realms": shown}
    with pytest.raises(ConfigError, match="current"):
        filter_factory({}, current="//US")
