"""The confs say what the layout says, in the form that the services read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.confs import PIPELINE, TRIAL_USERS, write_confs
from cluster.layout import KINDS, Home, Layout
from cluster.policies import read_cluster_policies
from cluster.ports import PortPicker
from martlet.conf.cluster import ClusterConf
from martlet.conf.options import read_ini
from martlet.grid.secrets import Secrets
from martlet.service.server import load_server_options

OWN = "a-secret-that-an-operator-wrote-into-martlet.conf"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def written(home: Home, node_count: int) -> Layout:
    layout = Layout.create(node_count).with_ports(8080, PortPicker(taken=8080))
    for directory in home.directories(layout):
        directory.mkdir(parents=True, exist_ok=True)
    write_confs(home, layout, read_cluster_policies(home, ()), proxy_workers=3)
    return layout


def test_the_services_read_the_hash_suffix_of_the_layout(home: Home) -> None:
    layout = written(home, 1)
    conf = ClusterConf.load(home.etc)
    assert conf.hash.swift_hash_path_suffix == layout.hash_suffix
    assert conf.default_policy.name == "Policy-0"


def test_the_services_read_the_secret_of_the_layout(home: Home) -> None:
    layout = written(home, 1)
    assert ClusterConf.load(home.etc).grid.secrets == Secrets.parse(layout.grid_secret)
    assert (home.etc / "martlet.conf").stat().st_mode & 0o077 == 0


def test_the_section_of_the_grid_is_kept(home: Home) -> None:
    written(home, 1)
    path = home.etc / "martlet.conf"
    changed = read_ini(path)
    changed["grid"] = {"grid_secret": OWN, "grid_plain_http": "10.0.0.0/8"}
    with path.open("w") as stream:
        changed.write(stream)
    written(home, 1)
    grid = ClusterConf.load(home.etc).grid
    assert grid.secrets == Secrets.parse(OWN)
    assert "10.1.1.1" in grid.plain_http


def test_the_proxy_listens_on_this_machine_only(home: Home) -> None:
    written(home, 1)
    options = load_server_options(home.etc / "proxy-server.conf")
    assert (options.bind_ip, options.bind_port, options.workers) == ("127.0.0.1", 8080, 3)


def test_every_filter_of_the_pipeline_has_a_section(home: Home) -> None:
    written(home, 1)
    conf = read_ini(home.etc / "proxy-server.conf")
    sections = {name.partition(":")[2] for name in conf.sections()}
    assert set(PIPELINE.split()) <= sections


def test_the_trial_users_are_in_the_conf(home: Home) -> None:
    written(home, 1)
    tempauth = dict(read_ini(home.etc / "proxy-server.conf").items("filter:tempauth"))
    assert tempauth["reseller_prefix"] == "AUTH, SERVICE"
    for name, value in TRIAL_USERS.items():
        assert tempauth["user_" + name.replace(":", "_")] == value
    assert len(TRIAL_USERS) == 7


@pytest.mark.parametrize(("node_count", "place"), [(1, "."), (2, "node1"), (2, "node2")])
def test_each_node_has_confs_with_its_own_ports_and_devices(
    home: Home, node_count: int, place: str
) -> None:
    layout = written(home, node_count)
    node = layout.nodes[1 if place == "node2" else 0]
    for kind in KINDS:
        options = load_server_options(home.etc / place / f"{kind}-server.conf")
        assert (options.bind_ip, options.bind_port) == ("127.0.0.1", node.ports[kind])
        assert options.mount_check is False
        assert all((Path(options.devices) / device).is_dir() for device in node.devices)
        assert Path(options.swift_dir) == home.etc
