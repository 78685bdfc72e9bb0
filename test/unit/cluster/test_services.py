"""The processes of a cluster: their programs, order and places."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import services
from cluster.errors import ClusterError
from cluster.layout import Home, Layout
from cluster.ports import PortPicker
from cluster.services import Service, services_of
from martlet.service.programs import OBJECT_SERVER_VARIABLE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home; all programs are installed."""
    program = tmp_path / "object-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(OBJECT_SERVER_VARIABLE, str(program))
    monkeypatch.setattr(services, "find_script", lambda name: f"/bin/{name}")
    return Home(tmp_path)


def services_with(home: Home, node_count: int) -> list[Service]:
    layout = Layout.create(node_count).with_ports(8080, PortPicker(taken=8080))
    return services_of(home, layout)


def test_servers_come_first_then_the_proxy_then_the_background_jobs(home: Home) -> None:
    found = services_with(home, 2)
    assert [service.name for service in found] == [
        *(f"{kind}-server-node1" for kind in ("account", "container", "object")),
        *(f"{kind}-server-node2" for kind in ("account", "container", "object")),
        "proxy-server",
        "background-node1",
        "background-node2",
    ]
    assert [service.is_front for service in found] == [False] * 6 + [True, False, False]
    assert [service.is_background for service in found] == [False] * 7 + [True] * 2


def test_background_jobs_have_the_confs_and_a_directory_of_their_node(home: Home) -> None:
    _, background = services_with(home, 2)[-2:]
    run = home.run / "background-node2"
    assert background.command[:2] == ("/bin/martlet-background", str(home.etc / "node2"))
    assert f"--run={run}" in background.command
    assert (background.port, background.status_path) == (None, run / "background.json")
    assert run in home.directories(Layout.create(2))


def test_one_node_has_short_names(home: Home) -> None:
    names = [service.name for service in services_with(home, 1)]
    assert names[2:] == ["object-server", "proxy-server", "background"]


def test_a_missing_program_is_one_sentence(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OBJECT_SERVER_VARIABLE, str(home.root))
    with pytest.raises(ClusterError, match="is not a program"):
        services_with(home, 1)
