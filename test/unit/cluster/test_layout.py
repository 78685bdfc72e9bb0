"""What a cluster is, is decided once and read back the same; what cannot be read is refused."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.layout import FORMAT, KINDS, Home, Layout
from cluster.ports import PortPicker


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("node_count", [1, 2, 3, 4, 7])
def test_there_are_enough_devices_for_three_replicas_and_a_handoff(node_count: int) -> None:
    layout = Layout.create(node_count)
    assert len(layout.nodes) == node_count
    assert layout.device_count >= 4
    assert all(node.devices for node in layout.nodes)
    names = [device for node in layout.nodes for device in node.devices]
    assert len(set(names)) == len(names)
    assert len({node.zone for node in layout.nodes}) == node_count


def test_the_default_cluster_has_the_devices_d1_to_d4() -> None:
    assert Layout.create(1).nodes[0].devices == ("d1", "d2", "d3", "d4")


@pytest.mark.parametrize("node_count", [0, -1, 65])
def test_an_impossible_number_of_nodes_is_refused(node_count: int) -> None:
    with pytest.raises(ClusterError, match="--nodes must be from 1 to 64"):
        Layout.create(node_count)


def test_two_clusters_place_their_data_differently() -> None:
    one, other = Layout.create(1), Layout.create(1)
    assert one.hash_suffix != other.hash_suffix


def test_two_clusters_have_secrets_of_their_own() -> None:
    one, other = Layout.create(1), Layout.create(1)
    assert len(one.grid_secret) >= 32
    assert one.grid_secret != other.grid_secret
    assert one.grid_secret not in repr(one)
    assert one.with_secret() == one


def test_a_cluster_of_an_earlier_release_gets_a_secret(home: Home) -> None:
    stored = asdict(Layout.create(1))
    del stored["grid_secret"]
    home.layout_path.write_text(json.dumps({**stored, "format": 1}))
    layout = home.read_layout()
    assert layout is not None
    assert not layout.grid_secret
    later = layout.with_secret()
    assert len(later.grid_secret) >= 32
    assert (later.hash_suffix, later.nodes) == (layout.hash_suffix, layout.nodes)
    home.write_layout(later)
    assert home.read_layout() == later
    assert json.loads(home.layout_path.read_bytes())["format"] == FORMAT


def test_a_layout_is_read_back_as_it_was_written(home: Home) -> None:
    layout = Layout.create(2).with_ports(8080, PortPicker(taken=8080))
    home.write_layout(layout)
    assert home.read_layout() == layout


def test_the_hash_suffix_is_readable_by_the_owner_only(home: Home) -> None:
    home.write_layout(Layout.create(1))
    assert home.layout_path.stat().st_mode & 0o077 == 0


def test_no_layout_is_no_error(home: Home) -> None:
    assert home.read_layout() is None


def test_every_server_gets_a_port_of_its_own_and_keeps_it() -> None:
    first = Layout.create(3).with_ports(8080, PortPicker(taken=8080))
    ports = [node.ports[kind] for node in first.nodes for kind in KINDS]
    assert len(set(ports)) == 9
    assert 8080 not in ports
    assert first.with_ports(8080, PortPicker(taken=8080)) == first


def test_a_newer_format_is_refused_in_one_sentence(home: Home) -> None:
    home.layout_path.write_text(json.dumps({"format": FORMAT + 1, "shards": []}))
    with pytest.raises(ClusterError, match="made by a newer martlet") as caught:
        home.read_layout()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": "1"}',
        '{"format": 1}',
        '{"format": 1, "nodes": [], "hash_suffix": "s"}',
        '{"format": 1, "nodes": [{"name": "node1"}], "hash_suffix": "s"}',
        '{"format": 1, "nodes": [1], "hash_suffix": "s"}',
    ],
)
def test_a_damaged_layout_is_refused(home: Home, text: str) -> None:
    home.layout_path.write_text(text)
    with pytest.raises(ClusterError, match="is damaged"):
        home.read_layout()


def test_an_unreadable_layout_is_refused(home: Home) -> None:
    home.layout_path.mkdir()
    with pytest.raises(ClusterError, match="cannot read"):
        home.read_layout()
