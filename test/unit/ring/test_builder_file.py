"""Builder files: plain data only, checked before use, never half written, one builder at a time."""

import os
import pickle
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ring.builder import RingBuilder
from ring.builder_file import (
    decode_builder,
    encode_builder,
    load_builder,
    locked,
    save_builder,
)
from ring.errors import BuilderFileError

GOLDEN = Path(__file__).parents[2] / "golden" / "ring"


@pytest.fixture
def builder() -> RingBuilder:
    builder = RingBuilder.create(4, 2, 1)
    for n in range(3):
        builder.add_device(
            {"region": 1, "zone": n, "ip": "10.0.0.1", "port": 1, "device": f"d{n}", "weight": 1}
        )
    builder.rebalance("x")
    return builder


def test_the_sample_of_openstack_swift_is_read() -> None:
    sample = load_builder(GOLDEN / "object.builder")
    assert (sample.part_power, sample.replicas, sample.min_part_hours) == (10, 3.0, 1)
    assert sample.builder_id == "1670b1c005934e1ab8610e933657fca6"
    assert [dev["parts"] for dev in sample.devices()] == [768] * 4
    assert sample.version == 5
    assert sample.balance() == 0
    sample.validate()


def test_the_sample_builder_makes_the_sample_ring() -> None:
    from ring.file_format import encode_ring, read_ring

    sample = load_builder(GOLDEN / "object.builder")
    assert sample.ring_data() == read_ring(GOLDEN / "object.ring.gz")
    raw = encode_ring(sample.ring_data(), "object.ring.gz")
    assert read_ring(GOLDEN / "object.ring.gz").table == sample.table
    assert raw[:2] == b"\x1f\x8b"


def test_a_builder_comes_back_as_it_was(builder: RingBuilder, tmp_path: Path) -> None:
    builder.remove_device(1)
    save_builder(builder, tmp_path / "x.builder")
    again = load_builder(tmp_path / "x.builder")
    assert again == builder
    assert encode_builder(load_builder(tmp_path / "x.builder")) == encode_builder(again)
    assert os.listdir(tmp_path) == ["x.builder"]


class Evil:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.system, ("touch /nonexistent/owned",)


@pytest.mark.parametrize(
    "value", [Evil(), Path("x"), RingBuilder, array("d", [1.0]), print, {1}, b"x"]
)
def test_a_pickle_of_more_than_plain_data_is_refused(value: object) -> None:
    with pytest.raises(BuilderFileError, match=r"more than plain data|array of type"):
        decode_builder(pickle.dumps({"part_power": value}, protocol=2))


def test_nothing_that_a_pickle_names_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "system", calls.append)
    with pytest.raises(BuilderFileError, match="more than plain data"):
        decode_builder(b"cposix\nsystem\n(X\x01\x00\x00\x00xtR.")
    assert calls == []


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # a memo slot that would take 32 GiB
        b"\x80\x02X\xff\xff\xff\xff.",  # a text longer than the file
        b"\x80\x02\x8a\xff.",
        b"\x80\x02carray\n_array_reconstructor\n.",
        b"\x80\x02N0.",  # POP: no writer of plain data uses it
        b"\x80\x02h\x05.",
        b"\x80\x02N",
        b"\x80\x09N.",
        b"\x80\x02K\x01)R.",
        b"",
    ],
)
def test_damaged_pickles_are_refused_before_memory_is_taken(raw: bytes) -> None:
    with pytest.raises(BuilderFileError, match="not a builder file"):
        decode_builder(raw)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_junk_is_refused(raw: bytes) -> None:
    with pytest.raises(BuilderFileError):
        decode_builder(raw)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_sample_is_refused_or_a_valid_builder(data: st.DataObject) -> None:
    raw = bytearray((GOLDEN / "object.builder").read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_builder(bytes(raw)).ring_data()
    except BuilderFileError:
        pass


def changed(builder: RingBuilder, **changes: Any) -> bytes:
    state = pickle.loads(encode_builder(builder))
    state.update(changes)
    return pickle.dumps(state, protocol=2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"part_power": 33}, "part_power is 33"),
        ({"part_power": "4"}, "part_power is '4'"),
        ({"parts": 17}, "parts is 17"),
        ({"replicas": 0}, "replicas is 0"),
        ({"replicas": "3"}, "replicas is '3'"),
        ({"replicas": float("nan")}, "replicas is nan"),
        ({"min_part_hours": -1}, "min_part_hours is -1"),
        ({"devs": None}, "devs is not a list"),
        ({"devs": [{"id": 0}]}, "a device needs"),
        ({"devs": [5]}, "not a valid builder file"),
        ({"devs": [None]}, "names device 0"),
        ({"_replica2part2dev": [[0] * 16]}, "not an array of device ids"),
        ({"_replica2part2dev": [array("H", [0] * 15), array("H", [0] * 16)]}, "has 15"),
        ({"_replica2part2dev": [array("H", [0] * 17)]}, "has 17 partitions"),
        ({"_replica2part2dev": [array("H", [9] * 16)]}, "names device 9"),
        ({"_last_part_moves": array("B", [0])}, "one byte per partition"),
        ({"_last_part_moves": [256] * 16}, "values that are not hours"),
        ({"_remove_devs": [{"id": 7}]}, "_remove_devs names a device that does not exist"),
        ({"_remove_devs": "x"}, "_remove_devs names"),
        ({"next_part_power": 3}, "next_part_power is 3"),
        ({"version": -1}, "version is -1"),
        ({"overload": "x"}, "overload is 'x'"),
        ({"id": 5}, "id is not text"),
        ({"_dispersion_graph": [1]}, "not a dictionary"),
        ({"_dispersion_graph": {1: [2]}}, "not a dictionary of tiers"),
        ({"_dispersion_graph": {(1, 2, 3): [2]}}, "not a dictionary of tiers"),
        ({"_dispersion_graph": {(): [2]}}, "not a dictionary of tiers"),
        ({"_dispersion_graph": {(1,): "zz"}}, "not a dictionary of tiers"),
    ],
)
def test_values_out_of_range_are_refused(
    builder: RingBuilder, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BuilderFileError, match=sentence):
        decode_builder(changed(builder, **changes))


@pytest.mark.parametrize("state", [[], None, {}, {"part_power": 3}])
def test_another_pickle_is_refused(state: object) -> None:
    with pytest.raises(BuilderFileError, match="not a builder file"):
        decode_builder(pickle.dumps(state, protocol=2))


def test_old_builders_without_newer_fields_are_read(builder: RingBuilder) -> None:
    state = pickle.loads(encode_builder(builder))
    for key in ("next_part_power", "overload", "dispersion", "_dispersion_graph", "id"):
        del state[key]
    for dev in state["devs"]:
        for key in ("region", "meta", "replication_ip", "replication_port"):
            del dev[key]
    old = decode_builder(pickle.dumps(state, protocol=2))
    assert old.builder_id is None
    assert old.devs[0] is not None
    assert (old.devs[0]["region"], old.devs[0]["replication_ip"]) == (1, "10.0.0.1")


def test_a_failed_save_keeps_the_old_file(
    builder: RingBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.builder"
    save_builder(builder, path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    builder.set_weight(0, 5)
    with pytest.raises(OSError, match="No space left"):
        save_builder(builder, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.builder"]


def test_a_second_builder_is_refused_while_one_is_at_work(tmp_path: Path) -> None:
    path = tmp_path / "x.builder"
    with locked(path), pytest.raises(BuilderFileError, match="another ring builder"), locked(path):
        pass
    with locked(path):
        pass


def test_a_symbolic_link_is_the_builder_that_it_leads_to(
    builder: RingBuilder, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    path, link = tmp_path / "real" / "object.builder", tmp_path / "link.builder"
    link.symlink_to(path)
    save_builder(builder, path)
    builder.set_overload(0.5)
    save_builder(builder, link)
    assert link.is_symlink()
    assert load_builder(path).overload == 0.5
    with locked(link), pytest.raises(BuilderFileError, match="another"), locked(path):
        pass
