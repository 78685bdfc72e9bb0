"""Locations of data: /endpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from storage_app import StorageApp, container

from martlet.conf.options import ConfigError
from proxy.middleware.web.list_endpoints import filter_factory
from ring.command import main as ring_builder
from ring.ring import RingSet, load_rings

DEVICES = ("r1z1-127.0.0.1:6200/sda", "r1z2-[::1]:6201/sdb", "r1z3-127.0.0.3:6202/sdc")


@pytest.fixture(scope="module")
def swift_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rings of two storage policies."""
    folder = tmp_path_factory.mktemp("rings")
    (folder / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n"
        "[storage-policy:0]\nname = a\ndefault = yes\n[storage-policy:1]\nname = b\n"
    )
    for name in ("account", "container", "object", "object-1"):
        builder = str(folder / f"{name}.builder")
        assert ring_builder([builder, "create", "3", "3", "0"]) == 0
        for device in DEVICES:
            assert ring_builder([builder, "add", device, "1"]) == 0
        assert ring_builder([builder, "rebalance", "--seed", name]) == 0
    return folder


@pytest.fixture
def app(swift_dir: Path) -> Any:
    inner = StorageApp({"/v1/a/c": container(), "/v1/a/d": {**container(), "storage_policy": 1}})
    return filter_factory({"swift_dir": str(swift_dir)})(inner)


def expected(rings: RingSet, policy: int, *names: str) -> list[str]:
    ring = [rings.account, rings.container, rings.objects[policy]][len(names) - 1]
    partition, nodes = ring.get_nodes(*names)
    hosts = {"::1": "[::1]"}
    path = "/".join([str(partition), *names])
    return [f"http://{hosts.get(n['ip'], n['ip'])}:{n['port']}/{n['device']}/{path}" for n in nodes]


@pytest.mark.parametrize("names", [("a",), ("a", "c"), ("a", "c", "o"), ("a", "c", "o/p/")])
def test_both_versions(ask: Any, app: Any, swift_dir: Path, names: tuple[str, ...]) -> None:
    urls = expected(load_rings(swift_dir), 0, *names)
    path = "/".join(names)
    for version in ("", "v1/", "v1.0/"):
        answer = ask(app, f"/endpoints/{version}{path}")
        assert (answer.status, json.loads(answer.body)) == (200, urls)
    headers = {"X-Backend-Storage-Policy-Index": "0"} if len(names) == 3 else {}
    for version in ("v2", "v2.0"):
        answer = ask(app, f"/endpoints/{version}/{path}")
        assert json.loads(answer.body) == {"endpoints": urls, "headers": headers}


def test_the_ring_of_the_containers_policy_is_used(ask: Any, app: Any, swift_dir: Path) -> None:
    answer = json.loads(ask(app, "/endpoints/v2/a/d/o").body)
    assert answer["endpoints"] == expected(load_rings(swift_dir), 1, "a", "d", "o")
    assert answer["headers"] == {"X-Backend-Storage-Policy-Index": "1"}


def test_servers_that_speak_tls(ask: Any, swift_dir: Path, tmp_path: Path) -> None:
    for ring in swift_dir.glob("*.ring.gz"):
        shutil.copy(ring, tmp_path)
    conf = (swift_dir / "martlet.conf").read_text()
    tls = "[grid]\ngrid_tls_ca = /authorities\ngrid_plain_http = 127.0.0.3\n"
    (tmp_path / "martlet.conf").write_text(conf.replace("[grid]\n", tls))
    secure = filter_factory({"swift_dir": str(tmp_path)})(StorageApp({}))
    urls = json.loads(ask(secure, "/endpoints/a").body)
    assert sorted(url.partition(":620")[0] for url in urls) == [
        "http://127.0.0.3",
        "https://127.0.0.1",
        "https://[::1]",
    ]


def test_names_are_quoted(ask: Any, app: Any) -> None:
    urls = json.loads(ask(app, "/endpoints/a/c/%C3%BC%20o%3F").body)
    assert all(url.endswith("/a/c/%C3%BC%20o%3F") for url in urls)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/endpoints/", "GET", 400),
        ("/endpoints/v1", "GET", 400),
        ("/endpoints/v2/", "GET", 400),
        ("/endpoints//c/o", "GET", 400),
        ("/endpoints/a//o", "GET", 400),
        ("/endpoints/v3/a/c", "GET", 400),
        ("/endpoints/a/c/%FF", "GET", 400),
        ("/endpoints/a/c/o", "PUT", 405),
        ("/endpoints/a/c/o", "HEAD", 405),
        ("/endpoints", "GET", 200),
        ("/v1/a/c", "GET", 200),
    ],
)
def test_bad_requests(ask: Any, app: Any, path: str, method: str, status: int) -> None:
    assert ask(app, path, method).status == status


def test_a_policy_without_a_ring(ask: Any, swift_dir: Path) -> None:
    inner = StorageApp({"/v1/a/c": {**container(), "storage_policy": 7}})
    app = filter_factory({"swift_dir": str(swift_dir)}, list_endpoints_path="where")(inner)
    assert ask(app, "/where/a/c/o").status == 404
    assert ask(app, "/where/a/c").status == 200


def test_bad_options(swift_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="list_endpoints_path"):
        filter_factory({"swift_dir": str(swift_dir)}, list_endpoints_path="/")
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n"
    )
    with pytest.raises(ConfigError):
        filter_factory({"swift_dir": str(tmp_path)})
