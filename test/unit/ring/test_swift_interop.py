"""Both ways with OpenStack Swift itself: each reads what the other wrote, and both route alike."""

import itertools
import random
import tempfile
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swift.common import utils as swift_utils
from swift.common.ring import Ring as SwiftRing
from swift.common.ring import RingBuilder as SwiftRingBuilder
from swift.common.ring import RingData as SwiftRingData
from swift.common.ring.composite_builder import CompositeRingBuilder
from swift.common.ring.utils import parse_add_value as swift_parse_add_value
from swift.common.ring.utils import parse_search_value as swift_parse_search_value

from ring.builder import RingBuilder
from ring.builder_file import load_builder, save_builder
from ring.device_syntax import parse_add_value, parse_search_value
from ring.file_format import encode_ring, read_ring
from ring.hashing import HashPath
from ring.ring import Ring
from ring.tree import load_picture

HASH_PATH = HashPath(b"pre", b"fix")


@pytest.fixture(autouse=True)
def swift_hash_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swift_utils, "HASH_PATH_PREFIX", HASH_PATH.prefix)
    monkeypatch.setattr(swift_utils, "HASH_PATH_SUFFIX", HASH_PATH.suffix)


def random_devices(seed: int) -> list[dict[str, Any]]:
    """Between 4 and 30 devices in an uneven tree of regions, zones and servers."""
    rng = random.Random(seed)
    devices = []
    for number in range(rng.randint(4, 30)):
        region, zone = rng.randint(1, 3), rng.randint(1, 3)
        ip = f"10.{region}.{zone}.{rng.randint(1, 3)}"
        devices.append(
            {
                "region": region,
                "zone": zone,
                "ip": ip,
                "port": 6200 + number,
                "replication_ip": ip,
                "replication_port": 6300 + number,
                "device": f"sd{number}",
                "weight": rng.choice([1.0, 2.0, 3.5, 100.0]),
                "meta": rng.choice(["", "shiny", "é"]),
            }
        )
    return devices


def swift_builder(seed: int, part_power: int = 6, replicas: float = 3) -> SwiftRingBuilder:
    builder = SwiftRingBuilder(part_power, replicas, 1)
    for device in random_devices(seed):
        builder.add_dev(device)
    builder.rebalance(seed=seed)
    return builder


def our_builder(seed: int, part_power: int = 6, replicas: float = 3) -> RingBuilder:
    builder = RingBuilder.create(part_power, replicas, 1)
    for device in random_devices(seed):
        builder.add_device(device)
    builder.rebalance(str(seed))
    return builder


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("replicas", [3, 2.5])
def test_rings_of_openstack_swift_are_read(tmp_path: Path, version: int, replicas: float) -> None:
    path = tmp_path / "object.ring.gz"
    theirs = swift_builder(1, replicas=replicas).get_ring()
    theirs.save(str(path), format_version=version)
    ours = read_ring(path)
    assert ours.devs == theirs.devs
    assert ours.table == theirs._replica2part2dev_id
    assert (ours.part_shift, ours.version) == (theirs._part_shift, theirs.version)
    assert ours.replica_count == replicas


@pytest.mark.parametrize("version", [1, 2])
def test_a_fraction_too_small_for_a_partition_is_read(tmp_path: Path, version: int) -> None:
    theirs = swift_builder(1, replicas=3.01)
    assert list(map(len, theirs._replica2part2dev)) == [64, 64, 64, 0]
    theirs.save(str(tmp_path / "object.builder"))
    theirs.get_ring().save(str(tmp_path / "object.ring.gz"), format_version=version)
    ring = read_ring(tmp_path / "object.ring.gz")
    assert ring.table == theirs._replica2part2dev[:3]
    assert ring.replica_count == 3
    builder = load_builder(tmp_path / "object.builder")
    assert builder.table == ring.table
    builder.validate()


@pytest.mark.parametrize("version", [1, 2])
def test_rings_are_the_bytes_that_openstack_swift_writes(tmp_path: Path, version: int) -> None:
    path = tmp_path / "object.ring.gz"
    theirs = swift_builder(2, part_power=10).get_ring()
    theirs.save(str(path), format_version=version)
    assert encode_ring(read_ring(path), path.name, version) == path.read_bytes()


@pytest.mark.parametrize("version", [1, 2])
def test_openstack_swift_reads_our_rings(tmp_path: Path, version: int) -> None:
    path = tmp_path / "object.ring.gz"
    ours = our_builder(3).ring_data()
    path.write_bytes(encode_ring(ours, path.name, version))
    theirs = SwiftRingData.load(str(path))
    assert theirs.format_version == version
    assert theirs.devs == ours.devs
    assert theirs._replica2part2dev_id == ours.table
    assert (theirs._part_shift, theirs.version) == (ours.part_shift, ours.version)


def test_builders_of_openstack_swift_are_read_and_go_on_here(tmp_path: Path) -> None:
    path = tmp_path / "object.builder"
    theirs = swift_builder(4)
    theirs.remove_dev(1)
    theirs.save(str(path))
    ours = load_builder(path)
    assert ours.devs == theirs.devs
    assert ours.table == theirs._replica2part2dev
    assert ours.removed_ids == [1]
    assert (ours.version, ours.builder_id) == (theirs.version, theirs.id)
    assert list(ours.hours_since_move) == list(theirs._last_part_moves)
    result = ours.rebalance("x")
    assert result.removed_devices == 1
    ours.validate()


def test_openstack_swift_reads_our_builders_and_goes_on_there(tmp_path: Path) -> None:
    path = tmp_path / "object.builder"
    ours = our_builder(5)
    ours.remove_device(2)
    save_builder(ours, path)
    theirs = SwiftRingBuilder.load(str(path))
    theirs.validate()
    assert theirs.devs == ours.devs
    assert theirs._replica2part2dev == ours.table
    assert (theirs.version, theirs.id) == (ours.version, ours.builder_id)
    assert theirs.min_part_seconds_left == pytest.approx(ours.seconds_until_move(), abs=5)
    assert theirs._remove_devs[0] is theirs.devs[2]
    assert theirs.get_ring().to_dict()["devs"] == ours.ring_data().devs
    _, _, removed = theirs.rebalance(seed=1)
    assert removed == 1
    theirs.validate()


def test_a_builder_goes_back_and_forth_unchanged(tmp_path: Path) -> None:
    first, second = tmp_path / "a.builder", tmp_path / "b.builder"
    theirs = swift_builder(6)
    theirs.save(str(first))
    save_builder(load_builder(first), second)
    assert SwiftRingBuilder.load(str(second)).to_dict() == theirs.to_dict()


@pytest.mark.parametrize("seed", range(8))
def test_our_dispersion_and_balance_are_the_figures_of_openstack_swift(
    tmp_path: Path, seed: int
) -> None:
    ours = our_builder(seed)
    save_builder(ours, tmp_path / "x.builder")
    theirs = SwiftRingBuilder.load(str(tmp_path / "x.builder"))
    assert theirs.get_balance() == pytest.approx(ours.balance())
    theirs._build_dispersion_graph()
    assert theirs.dispersion == pytest.approx(ours.dispersion)
    assert theirs._dispersion_graph == ours.dispersion_graph


@pytest.mark.parametrize(
    ("seed", "part_power", "replicas"),
    [(1, 6, 3), (2, 5, 2), (3, 8, 3.25), (4, 0, 1), (5, 7, 4), (6, 3, 2.5)],
)
def test_nodes_and_handoffs_come_in_the_same_order(
    tmp_path: Path, seed: int, part_power: int, replicas: float
) -> None:
    path = tmp_path / "object.ring.gz"
    swift_builder(seed, part_power, replicas).get_ring().save(str(path))
    assert_same_order(path, seed)


def test_nodes_and_handoffs_of_a_big_ring_come_in_the_same_order(tmp_path: Path) -> None:
    """Above 65,536 partitions a search takes steps; here some partitions have one device twice."""
    path = tmp_path / "object.ring.gz"
    rng = random.Random(9)
    devices = our_builder(9, part_power=4).ring_data()
    ids = range(len(devices.devs))
    devices.part_shift = 32 - 18
    devices.table = [array("H", rng.choices(ids, k=1 << 18)) for _ in range(2)]
    path.write_bytes(encode_ring(devices, path.name))
    assert_same_order(path, 9)


@given(
    st.integers(0, 10**6),
    st.integers(0, 9),
    st.sampled_from([1, 2, 2.5, 3, 3.75]),
    st.sampled_from([1, 2]),
)
@settings(max_examples=40, deadline=None)
def test_nodes_and_handoffs_of_any_ring_come_in_the_same_order(
    seed: int, part_power: int, replicas: float, version: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(swift_utils, "HASH_PATH_PREFIX", HASH_PATH.prefix)
        path = Path(name) / "object.ring.gz"
        ours = our_builder(seed, part_power, replicas)
        path.write_bytes(encode_ring(ours.ring_data(), path.name, version))
        assert_same_order(path, seed)


def test_composite_rings_are_read(tmp_path: Path) -> None:
    parts = []
    for number in (1, 2):
        builder = SwiftRingBuilder(6, 2, 1)
        for device in range(4):
            ip = f"10.{number}.0.{device}"
            builder.add_dev(
                {
                    "region": number,
                    "zone": device % 2,
                    "ip": ip,
                    "port": 6200,
                    "replication_ip": ip,
                    "replication_port": 6200,
                    "device": "sda",
                    "weight": 1.0,
                    "meta": "",
                }
            )
        builder.rebalance(seed=number)
        builder.save(str(tmp_path / f"{number}.builder"))
        parts.append(str(tmp_path / f"{number}.builder"))
    path = tmp_path / "object.ring.gz"
    CompositeRingBuilder(parts).compose().save(str(path))
    assert read_ring(path).replica_count == 4
    assert_same_order(path, 1)
    shown = load_picture(path)
    assert [child.held for child in shown.root.children] == [128, 128]


def assert_same_order(path: Path, seed: int) -> None:
    theirs, ours = SwiftRing(str(path)), Ring(path, HASH_PATH)
    count = ours.partition_count
    for partition in random.Random(seed).sample(range(count), min(64, count)):
        assert list(ours.get_part_nodes(partition)) == theirs.get_part_nodes(partition)
        assert list(ours.get_more_nodes(partition)) == list(theirs.get_more_nodes(partition))


def test_names_lead_to_the_same_nodes(tmp_path: Path) -> None:
    path = tmp_path / "object.ring.gz"
    path.write_bytes(encode_ring(our_builder(8, part_power=12).ring_data(), path.name))
    theirs, ours = SwiftRing(str(path)), Ring(path, HASH_PATH)
    names = ["a", "AUTH_ü", "c d", "日本", "x/y//z", "\U0001f426"]
    for account, container, obj in itertools.product(names, repeat=3):
        for path_names in ((account,), (account, container), (account, container, obj)):
            partition, nodes = ours.get_nodes(*path_names)
            assert (partition, list(nodes)) == theirs.get_nodes(*path_names)


@pytest.mark.parametrize(
    "text",
    [
        "z1-10.0.0.1:6200/sdb1",
        "r2z1-10.0.0.1:6200/sdb1_meta_more",
        "r1z2-10.0.0.1:6200R10.0.1.1:6300/sdb1_",
        "r1z2-[2001:0DB8::1]:6200R[::1]:6300/sdb1_x",
    ],
)
def test_devices_to_add_are_read_alike(text: str) -> None:
    theirs = {key: value for key, value in swift_parse_add_value(text).items() if value is not None}
    assert {"meta": "", **parse_add_value(text)} == theirs


@pytest.mark.parametrize(
    "text",
    [
        "d74",
        "r4",
        "z1",
        "z1-1.2.3.4",
        "1.2.3.4",
        "-1.2.3.4",
        "z1:5678",
        ":5678",
        "R5.6.7.8",
        "R:5678",
        "1.2.3.4R5.6.7.8",
        "/sdb1",
        "_shiny",
        '_"snet: 5.6.7.8"',
        "[::1]",
        "z1-[::1]:5678",
        'd74r4z1-1.2.3.4:5678/sdb1_"snet: 5.6.7.8"',
    ],
)
def test_search_values_are_read_alike(text: str) -> None:
    assert parse_search_value(text) == swift_parse_search_value(text)
