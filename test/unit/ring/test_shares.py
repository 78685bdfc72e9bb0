"""What devices should hold: the weights, the spread, and the overload between them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swift.common.ring import RingBuilder as SwiftRingBuilder

from ring.builder import RingBuilder
from ring.devices import tiers_of
from ring.shares import make_shares, most_unique, split_by_weight

clusters = st.lists(
    st.tuples(
        st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1.0, 2.0, 7.5])
    ),
    min_size=5,
    max_size=25,
)


def devices_of(drawn: list[tuple[int, int, int, float]]) -> list[dict[str, Any]]:
    return [
        {
            "region": region,
            "zone": zone,
            "ip": f"10.{region}.{zone}.{server}",
            "port": 6200,
            "replication_ip": "10.0.0.1",
            "replication_port": 6200,
            "device": f"sd{number}",
            "weight": weight,
            "meta": "",
        }
        for number, (region, zone, server, weight) in enumerate(drawn)
    ]


def both(drawn: list[tuple[int, int, int, float]], replicas: float) -> Any:
    ours, theirs = RingBuilder.create(6, replicas, 1), SwiftRingBuilder(6, replicas, 1)
    for device in devices_of(drawn):
        ours.add_device(device)
        theirs.add_dev(dict(device))
    return ours, theirs


@given(clusters, st.sampled_from([1, 2, 2.5, 3, 4]), st.sampled_from([0.0, 0.05, 0.5, 9.0]))
@settings(max_examples=60, deadline=None)
def test_shares_are_those_of_openstack_swift(
    drawn: list[tuple[int, int, int, float]], replicas: float, overload: float
) -> None:
    ours, theirs = both(drawn, replicas)
    theirs.set_overload(overload)
    shares = make_shares(ours.devices(), replicas)
    assert shares.required_overload == pytest.approx(theirs.get_required_overload(), abs=1e-6)
    target = theirs._build_target_replicas_by_tier()
    for device in ours.devices():
        share = shares.target(overload)[device["id"]]
        assert share == pytest.approx(target[tiers_of(device)[-1]], abs=1e-6)


@given(clusters, st.sampled_from([1, 2, 2.5, 3, 4]))
@settings(max_examples=50, deadline=None)
def test_the_most_for_a_tier_is_that_of_openstack_swift(
    drawn: list[tuple[int, int, int, float]], replicas: float
) -> None:
    ours, theirs = both(drawn, replicas)
    most = most_unique(ours.devices(), replicas)
    assert most == {
        tier: int(-(-count // 1)) for tier, count in theirs._build_max_replicas_by_tier().items()
    }


@given(clusters, st.sampled_from([2, 2.5, 3]), st.sampled_from([0.0, 0.1, 0.5]))
@settings(max_examples=50, deadline=None)
def test_no_device_gets_more_than_its_weight_and_the_overload(
    drawn: list[tuple[int, int, int, float]], replicas: float, overload: float
) -> None:
    ours, _ = both(drawn, replicas)
    shares = make_shares(ours.devices(), replicas)
    target = shares.target(overload)
    assert sum(target.values()) == pytest.approx(replicas)
    for dev_id, share in target.items():
        assert 0 <= share <= 1 + 1e-9
        assert share <= shares.weighted[dev_id] * (1 + overload) + 1e-9


def test_a_small_zone_is_filled_as_far_as_the_overload_reaches() -> None:
    drawn = [(1, 1, 1, 10.0)] * 3 + [(1, 2, 1, 10.0)] * 3 + [(1, 3, 1, 8.0)] * 3
    ours, _ = both(drawn, 3)
    shares = make_shares(ours.devices(), 3)
    assert shares.required_overload == pytest.approx(28 / 24 - 1)
    for overload, share in ((0.0, 24 / 84), (0.1, 24 / 84 * 1.1), (0.5, 1 / 3)):
        assert shares.target(overload)[8] == pytest.approx(share)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.floats(0, 1))
@settings(deadline=None)
def test_a_split_keeps_to_its_bounds(weights: list[float], part: float) -> None:
    ones, zeros = [1.0] * len(weights), [0.0] * len(weights)
    total = part * len(weights)
    split = split_by_weight(total, weights, zeros, ones, ones)
    assert sum(split) == pytest.approx(total, abs=1e-6)
    assert all(0 <= value <= 1 for value in split)
    free = [v / w for v, w in zip(split, weights, strict=True) if v < 1 - 1e-9]
    assert not free or max(free) == pytest.approx(min(free), abs=1e-6)


def test_a_split_goes_over_its_bounds_where_it_must() -> None:
    assert split_by_weight(3, [1, 1], [0, 0], [1, 1], [1, 4]) == pytest.approx([1, 2])
    assert split_by_weight(3, [1, 2], [2, 0], [3, 3], [3, 3]) == pytest.approx([2, 1])
