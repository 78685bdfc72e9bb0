"""``martlet ring plan``: what a rebalance would do is what it then does."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cluster.command import main
from ring.builder import RingBuilder
from ring.builder_file import encode_builder, load_builder, save_builder
from ring.errors import RingError
from ring.preview import as_text, preview, read_usage


@pytest.fixture
def builder() -> RingBuilder:
    """A ring that is balanced; then a device is removed, one added, and one weighs more."""
    builder = RingBuilder.create(7, 3, 0)
    for number in range(6):
        builder.add_device(device(number))
    builder.rebalance("1")
    builder.remove_device(2)
    builder.add_device(device(6))
    builder.set_weight(0, 1.5)
    return builder


def device(number: int) -> dict[str, object]:
    return {
        "region": 1,
        "zone": number % 3,
        "ip": f"10.0.0.{number}",
        "port": 6200,
        "device": "sda",
        "weight": 1,
    }


def test_the_plan_is_what_happens(builder: RingBuilder) -> None:
    before = encode_builder(builder)
    found = preview(builder, "7")
    assert len(found.flows) > 3
    assert encode_builder(builder) == before, "a plan changes nothing"
    old = [row[:] for row in builder.table]
    result = builder.rebalance("7")
    moves = Counter(
        (a, b)
        for row, new in zip(old, builder.table, strict=True)
        for a, b in zip(row, new, strict=True)
        if a != b
    )
    assert {(flow.source, flow.target): flow.replicas for flow in found.flows} == moves
    assert found.moved_replicas == sum(moves.values())
    assert found.moved_partitions == result.moved_partitions
    assert (found.balance[1], found.dispersion[1]) == (result.balance, result.dispersion)


def test_bytes_follow_from_the_usage(builder: RingBuilder) -> None:
    usage = {number: 64_000 for number in range(6)}
    found = preview(builder, "7", usage)
    for flow in found.flows:
        assert flow.source is not None
        assert flow.bytes == round(64_000 * flow.replicas / 64)
    assert found.moved_bytes == sum(flow.bytes or 0 for flow in found.flows)
    assert "KiB" in as_text(found)
    del usage[2]
    less = preview(builder, "7", usage)
    assert (less.moved_bytes, less.unknown_usage) == (None, [2])
    assert "bytes of d2 are unknown" in as_text(less)


def test_what_goes_to_device_0_is_counted() -> None:
    builder = RingBuilder.create(4, 1, 0)
    for number in range(2):
        builder.add_device(device(number))
    builder.rebalance("1")
    builder.set_weight(1, 0)
    found = preview(builder, "1", {1: 800})
    assert [(flow.source, flow.target, flow.bytes) for flow in found.flows] == [(1, 0, 800)]
    assert found.moved_bytes == 800


def test_new_replicas_come_from_nowhere_and_dropped_ones_go_there(builder: RingBuilder) -> None:
    builder.rebalance("2")
    builder.set_replicas(3.5)
    more = preview(builder, "1")
    assert sum(f.replicas for f in more.flows if f.source is None) == 64
    builder.set_replicas(2)
    less = preview(builder, "1")
    assert sum(f.replicas for f in less.flows if f.target is None) == 128
    assert "nowhere" in as_text(less)


@pytest.mark.parametrize(
    "report",
    [
        {"d0": 5, "d1": 7},
        {"10.0.0.0:6200/sda": 5, "10.0.0.1:6200/sda": 7},
        {
            "10.0.0.0:6200": [
                {"device": "sda", "used": 5, "mounted": True},
                {"device": "sdx", "used": "", "mounted": False},
            ],
            "d1": 7,
        },
    ],
)
def test_usage_reports(tmp_path: Path, builder: RingBuilder, report: dict[str, object]) -> None:
    (tmp_path / "used.json").write_text(json.dumps(report))
    assert read_usage(tmp_path / "used.json", builder) == {0: 5, 1: 7}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not JSON"),
        ("[]", "an object is needed|a JSON object is needed"),
        ('{"d77": 1}', "'d77': 1 is not the bytes of a device"),
        ('{"d0": -1}', "is not the bytes"),
        ('{"d0": true}', "is not the bytes"),
    ],
)
def test_a_wrong_usage_report_is_refused(
    tmp_path: Path, builder: RingBuilder, text: str, sentence: str
) -> None:
    (tmp_path / "used.json").write_text(text)
    with pytest.raises(RingError, match=sentence):
        read_usage(tmp_path / "used.json", builder)


def test_the_command(
    tmp_path: Path, builder: RingBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "object.builder"
    save_builder(builder, path)
    before = path.read_bytes()
    assert main(["ring", "plan", "--json", "--seed", "7", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert main(["ring", "plan", "--seed", "7", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{shown['moved_partitions']} of 128 partitions")
    assert path.read_bytes() == before
    done = load_builder(path).rebalance("7")
    assert shown["moved_replicas"] == done.changed_replicas
    assert main(["ring", "plan", str(tmp_path / "none.builder")]) == 2
