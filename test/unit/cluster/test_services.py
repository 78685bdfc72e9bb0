"""The programs of a cluster are found where they may lie; what is missing is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cluster import services
from cluster.errors import ClusterError
from cluster.layout import Home, Layout
from cluster.ports import PortPicker
from cluster.services import OBJECT_SERVER, OBJECT_SERVER_VARIABLE, find_object_server, services_of


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment and a PATH in which nothing is installed."""
    monkeypatch.delenv(OBJECT_SERVER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tree" / ".venv"))


def test_the_named_object_server_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "path" / OBJECT_SERVER)
    named = program(tmp_path / "named")
    monkeypatch.setenv(OBJECT_SERVER_VARIABLE, str(named))
    assert find_object_server() == str(named)


@pytest.mark.parametrize("place", ["tree/.venv/bin", "tree/build/bin", "path"])
def test_the_object_server_is_found_in(tmp_path: Path, place: str) -> None:
    found = program(tmp_path / place / OBJECT_SERVER)
    assert find_object_server() == str(found)


def test_a_missing_object_server_is_one_sentence() -> None:
    with pytest.raises(ClusterError, match="martlet-object-server is not found: build it with"):
        find_object_server()


def test_a_named_object_server_must_be_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OBJECT_SERVER_VARIABLE, str(tmp_path))
    with pytest.raises(ClusterError, match="is not a program"):
        find_object_server()


def test_each_node_has_three_servers_and_the_proxy_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "find_script", lambda name: f"/bin/{name}")
    program(tmp_path / "path" / OBJECT_SERVER)
    layout = Layout.create(2).with_ports(8080, PortPicker(taken=8080))
    found = services_of(Home(tmp_path), layout)
    assert [service.name for service in found] == [
        *(f"{kind}-server-node1" for kind in ("account", "container", "object")),
        *(f"{kind}-server-node2" for kind in ("account", "container", "object")),
        "proxy-server",
    ]
    assert [service.is_front for service in found] == [False] * 6 + [True]
