"""Rings are made once; later starts move ports and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.layout import KINDS, Home, Layout
from cluster.policies import WantedPolicy, read_cluster_policies
from cluster.ports import PortPicker
from cluster.rings import write_rings as write_rings_of
from ring.builder_file import load_builder, save_builder
from ring.file_format import read_ring


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "etc").mkdir()
    return Home(tmp_path)


def new_layout(node_count: int = 1) -> Layout:
    return Layout.create(node_count).with_ports(8080, PortPicker(taken=8080))


def write_rings(home: Home, layout: Layout, *wanted: WantedPolicy) -> None:
    write_rings_of(home, layout, read_cluster_policies(home, wanted))


def table(home: Home, kind: str) -> list[list[int]]:
    return [list(row) for row in read_ring(home.etc / f"{kind}.ring.gz").table]


@pytest.mark.parametrize("node_count", [1, 2, 3, 4])
def test_three_replicas_of_1024_partitions_on_different_devices(
    home: Home, node_count: int
) -> None:
    write_rings(home, new_layout(node_count))
    for kind in KINDS:
        rows = table(home, kind)
        assert [len(row) for row in rows] == [1024] * 3
        assert all(len(set(ids)) == 3 for ids in zip(*rows, strict=True))


def test_the_ring_names_the_ports_of_the_layout(home: Home) -> None:
    layout = new_layout(3)
    write_rings(home, layout)
    for kind in KINDS:
        found = {dev["device"]: dev for dev in read_ring(home.etc / f"{kind}.ring.gz").devs if dev}
        for node in layout.nodes:
            for device in node.devices:
                assert found[device]["port"] == node.ports[kind]
                assert found[device]["zone"] == node.zone


def test_a_second_start_changes_no_file(home: Home) -> None:
    layout = new_layout()
    write_rings(home, layout)
    before = {path: path.stat().st_mtime_ns for path in home.etc.iterdir()}
    write_rings(home, layout)
    assert {path: path.stat().st_mtime_ns for path in home.etc.iterdir()} == before


def test_a_changed_port_reaches_the_ring_and_no_partition_moves(home: Home) -> None:
    layout = new_layout()
    write_rings(home, layout)
    before = table(home, "object")
    version = read_ring(home.etc / "object.ring.gz").version
    ports = {**layout.nodes[0].ports, "object": 6200}
    write_rings(home, replace(layout, nodes=(replace(layout.nodes[0], ports=ports),)))
    ring = read_ring(home.etc / "object.ring.gz")
    assert {(dev["port"], dev["replication_port"]) for dev in ring.devs if dev} == {(6200, 6200)}
    assert ring.version is not None
    assert version is not None
    assert ring.version > version
    assert table(home, "object") == before


def test_what_a_person_did_with_the_builder_is_kept(home: Home) -> None:
    layout = new_layout()
    write_rings(home, layout)
    path = home.etc / "object.builder"
    builder = load_builder(path)
    builder.set_weight(0, 7.0)
    save_builder(builder, path)
    write_rings(home, layout)
    assert next(load_builder(path).devices())["weight"] == 7.0


def test_a_start_finishes_what_a_crash_left_undone(home: Home) -> None:
    layout = new_layout()
    write_rings(home, layout)
    expected = table(home, "container")
    (home.etc / "container.ring.gz").unlink()
    write_rings(home, layout)
    assert table(home, "container") == expected


def test_a_damaged_builder_is_one_sentence(home: Home) -> None:
    (home.etc / "account.builder").write_bytes(b"not a builder")
    with pytest.raises(ClusterError, match=r"account\.builder"):
        write_rings(home, new_layout())


def test_each_policy_has_a_ring_with_its_replicas(home: Home) -> None:
    write_rings(home, new_layout(), WantedPolicy("gold"), WantedPolicy("silver", 2.5))
    assert len(table(home, "object")) == 3
    assert [len(row) for row in table(home, "object-1")] == [1024, 1024, 512]
    assert not (home.etc / "object-2.ring.gz").exists()


def test_ports_reach_the_rings_of_all_policies(home: Home) -> None:
    layout = new_layout()
    wanted = [WantedPolicy("gold"), WantedPolicy("silver")]
    write_rings(home, layout, *wanted)
    ports = {**layout.nodes[0].ports, "object": 6200}
    write_rings(home, replace(layout, nodes=(replace(layout.nodes[0], ports=ports),)), *wanted)
    ring = read_ring(home.etc / "object-1.ring.gz")
    assert {dev["port"] for dev in ring.devs if dev} == {6200}


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        (2.0, r"object-1\.builder has 3 replicas, not 2: change them with .*set_replicas"),
        (9.0, r"object-1\.builder has 3 replicas"),
    ],
)
def test_other_replicas_than_a_ring_has_are_refused(
    home: Home, replicas: float, sentence: str
) -> None:
    write_rings(home, new_layout(), WantedPolicy("gold"), WantedPolicy("silver", 3))
    with pytest.raises(ClusterError, match=sentence):
        write_rings(home, new_layout(), WantedPolicy("gold"), WantedPolicy("silver", replicas))


def test_more_replicas_than_devices_are_refused(home: Home) -> None:
    with pytest.raises(ClusterError, match=r"object\.builder: 9 replicas need at least 9 devices"):
        write_rings(home, new_layout(), WantedPolicy("gold", 9))
