"""Look-ups in a ring file, and what happens to them while the file changes."""

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

from ring.builder import RingBuilder
from ring.errors import HashConfError, RingError, RingFileError
from ring.file_format import decode_ring, encode_ring
from ring.hashing import HashPath
from ring.ring import Ring, load_rings

GOLDEN = Path(__file__).parents[2] / "golden" / "ring"
HASH_PATH = HashPath(b"", b"changeme")


class Clock:
    """Stands still until it is told otherwise."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def small_ring(devices: int, version: int = 1) -> bytes:
    builder = RingBuilder.create(3, 2, 0)
    for number in range(devices):
        builder.add_device(
            {
                "region": 1,
                "zone": number,
                "ip": "10.0.0.1",
                "port": 6200,
                "device": f"sd{number}",
                "weight": 1,
            }
        )
    builder.rebalance("seed")
    return encode_ring(builder.ring_data(), "object.ring.gz", version)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(tmp_path: Path, clock: Clock) -> Ring:
    path = tmp_path / "object.ring.gz"
    path.write_bytes(small_ring(2))
    return Ring(path, HASH_PATH, reload_seconds=15, clock=clock)


def put(ring: Ring, content: bytes) -> None:
    """Replaces the ring file as the builder does."""
    temporary = ring.path.with_suffix(".new")
    temporary.write_bytes(content)
    os.rename(temporary, ring.path)


def test_nodes_are_those_of_the_table_in_its_order() -> None:
    ring = Ring(GOLDEN / "object.ring.gz", HASH_PATH)
    table = decode_ring((GOLDEN / "object.ring.gz").read_bytes()).table
    assert (ring.partition_count, ring.part_power, ring.replica_count) == (1024, 10, 3.0)
    for partition in range(ring.partition_count):
        nodes = ring.get_part_nodes(partition)
        assert [node["id"] for node in nodes] == [row[partition] for row in table]
        assert [node["index"] for node in nodes] == [0, 1, 2]
        assert all(ring.devs[node["id"]].items() <= node.items() for node in nodes)  # type: ignore[union-attr]


def test_a_name_leads_to_the_nodes_of_its_partition(ring: Ring) -> None:
    partition, nodes = ring.get_nodes("a", "c", "o")
    assert partition == ring.get_part("a", "c", "o") == HASH_PATH.digest("a", "c", "o")[0] >> 5
    assert nodes == ring.get_part_nodes(partition)


def test_looking_up_twice_gives_the_same_tuple(ring: Ring) -> None:
    assert ring.get_part_nodes(3) is ring.get_part_nodes(3)


@pytest.mark.parametrize("partition", [-1, 8])
def test_there_is_no_other_partition(ring: Ring, partition: int) -> None:
    with pytest.raises(IndexError):
        ring.get_part_nodes(partition)
    with pytest.raises(IndexError):
        ring.get_more_nodes(partition)


def test_a_device_that_holds_two_replicas_is_one_node(tmp_path: Path) -> None:
    data = decode_ring(small_ring(2))
    data.table[1] = data.table[0][:]
    (tmp_path / "x.ring.gz").write_bytes(encode_ring(data, "x"))
    ring = Ring(tmp_path / "x.ring.gz", HASH_PATH)
    assert [node["index"] for node in ring.get_part_nodes(0)] == [0]


def test_handoffs_are_all_other_devices_once() -> None:
    ring = Ring(GOLDEN / "v2.ring.gz", HASH_PATH)
    for partition in range(0, 1024, 7):
        primaries = {node["id"] for node in ring.get_part_nodes(partition)}
        handoffs = list(ring.get_more_nodes(partition))
        assert [node["handoff_index"] for node in handoffs] == list(range(len(handoffs)))
        assert sorted(node["id"] for node in handoffs) == sorted({0, 1, 2, 3} - primaries)


def test_a_new_file_is_taken_at_the_next_look(ring: Ring, clock: Clock) -> None:
    put(ring, small_ring(3))
    assert len(ring.devs) == 2, "the file is looked at every 15 seconds only"
    clock.seconds += 15
    assert len(ring.devs) == 3


def test_both_format_versions_are_taken(ring: Ring, clock: Clock) -> None:
    put(ring, small_ring(3, version=2))
    clock.seconds += 15
    assert len(ring.devs) == 3


@pytest.mark.parametrize("content", [b"", b"junk", small_ring(3)[:100]])
def test_a_broken_file_keeps_the_old_ring_and_is_logged_once(
    ring: Ring, clock: Clock, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    before = ring.get_nodes("a", "c", "o")
    put(ring, content)
    for _ in range(3):
        clock.seconds += 15
        assert ring.get_nodes("a", "c", "o") == before
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert str(ring.path) in caplog.text
    put(ring, small_ring(3))
    clock.seconds += 15
    assert len(ring.devs) == 3


def test_a_file_that_was_not_read_is_tried_again(
    ring: Ring, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(ring, small_ring(3))
    with monkeypatch.context() as ill:

        def fail(_path: Path) -> bytes:
            raise OSError(errno.EMFILE, "Too many open files")

        ill.setattr(Path, "read_bytes", fail)
        clock.seconds += 15
        assert len(ring.devs) == 2
    assert "Too many open files" in caplog.text
    clock.seconds += 15
    assert len(ring.devs) == 3


def test_a_disk_that_does_not_read_is_logged_once(
    ring: Ring, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def look(looks: int, error: int | None = None) -> list[int]:
        def fail(_path: Path) -> bytes:
            assert error is not None
            raise OSError(error, os.strerror(error))

        caplog.clear()
        with monkeypatch.context() as ill:
            if error is not None:
                ill.setattr(Path, "read_bytes", fail)
            for _ in range(looks):
                clock.seconds += 15
                assert ring.devs
        return [record.levelno for record in caplog.records]

    kept = ring.path.with_suffix(".kept")
    os.rename(ring.path, kept)
    put(ring, small_ring(3))
    assert look(5, errno.EIO) == [logging.ERROR]
    assert look(5, errno.EMFILE) == [logging.ERROR], "the reason has changed"
    assert look(5) == [logging.INFO], "it reads again"
    assert look(5) == []
    put(ring, small_ring(4))
    assert look(5, errno.EIO) == [logging.ERROR]
    os.rename(ring.path, kept)
    assert look(5) == [logging.ERROR], "the reason has changed"
    put(ring, small_ring(4))
    assert look(5) == [logging.INFO]


def test_an_unread_file_that_is_replaced_by_the_old_one(
    ring: Ring, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kept = ring.path.with_suffix(".kept")
    os.rename(ring.path, kept)
    put(ring, small_ring(3))
    with monkeypatch.context() as ill:
        ill.setattr(Path, "read_bytes", lambda path: os.listdir(path))  # ENOTDIR
        clock.seconds += 15
        assert len(ring.devs) == 2
    os.rename(kept, ring.path)
    for _ in range(3):
        clock.seconds += 15
        assert len(ring.devs) == 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.INFO]


def test_a_vanished_file_keeps_the_old_ring_until_it_is_back(
    ring: Ring, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    kept = ring.path.with_suffix(".kept")
    os.rename(ring.path, kept)
    for _ in range(3):
        clock.seconds += 15
        assert len(ring.devs) == 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    put(ring, small_ring(4))
    clock.seconds += 15
    assert len(ring.devs) == 4


def test_a_ring_without_assignments_is_not_taken(ring: Ring, clock: Clock) -> None:
    data = decode_ring(small_ring(2))
    data.table = []
    put(ring, encode_ring(data, "x"))
    clock.seconds += 15
    assert len(ring.get_part_nodes(0)) == 2
    with pytest.raises(RingFileError, match="no partition is assigned"):
        Ring(ring.path, HASH_PATH)


def test_a_search_for_handoffs_goes_on_in_its_ring(ring: Ring, clock: Clock) -> None:
    put(ring, small_ring(6))
    clock.seconds += 15
    handoffs = ring.get_more_nodes(0)
    first = next(handoffs)
    put(ring, small_ring(2))
    clock.seconds += 15
    assert len(ring.devs) == 2
    assert len({first["id"], *(node["id"] for node in handoffs)}) == 4


def test_a_missing_file_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(RingFileError, match="No such file"):
        Ring(tmp_path / "object.ring.gz", HASH_PATH)


@pytest.fixture
def swift_dir(tmp_path: Path) -> Path:
    for name in ("account", "container", "object", "object-1", "object-12"):
        shutil.copy(GOLDEN / "object.ring.gz", tmp_path / f"{name}.ring.gz")
    shutil.copy(GOLDEN / "object.ring.gz", tmp_path / "object-x.ring.gz")
    conf = "[swift-hash]\nswift_hash_path_prefix = p\nswift_hash_path_suffix = s\n"
    (tmp_path / "martlet.conf").write_text(conf)
    return tmp_path


def test_all_rings_of_a_folder_are_loaded(swift_dir: Path) -> None:
    rings = load_rings(swift_dir)
    assert rings.hash_path == HashPath(b"p", b"s")
    assert list(rings.objects) == [0, 1, 12]
    assert rings.object_ring(12).path.name == "object-12.ring.gz"
    assert rings.account.get_part("a") == HashPath(b"p", b"s").digest("a")[0] << 2 | (
        HashPath(b"p", b"s").digest("a")[1] >> 6
    )
    with pytest.raises(RingError, match="storage policy 2"):
        rings.object_ring(2)


@pytest.mark.parametrize("name", ["account.ring.gz", "container.ring.gz", "object.ring.gz"])
def test_a_missing_ring_is_named(swift_dir: Path, name: str) -> None:
    (swift_dir / name).unlink()
    with pytest.raises(RingFileError, match=name):
        load_rings(swift_dir)


def test_a_policy_without_a_ring_is_named(swift_dir: Path) -> None:
    assert list(load_rings(swift_dir, policies=[0, 1]).objects) == [0, 1, 12]
    with pytest.raises(RingFileError, match=r"object-2\.ring\.gz is missing: storage policy 2"):
        load_rings(swift_dir, policies=[0, 2])


def test_a_missing_conf_is_an_error(swift_dir: Path) -> None:
    (swift_dir / "martlet.conf").unlink()
    with pytest.raises(HashConfError):
        load_rings(swift_dir)
