"""Swaps that leave fewer replicas at risk and change nothing that a device or a domain holds."""

import random
from array import array
from collections import Counter
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ring.builder import RingBuilder
from ring.devices import Device, Tier
from ring.dispersion import measure
from ring.draw import draw
from ring.polish import polish
from ring.shares import make_shares
from ring.tally import Tally

PART_POWER = 6
NOBODY = 65535


def devices_of(drawn: list[tuple[int, int, int, float]]) -> list[Device]:
    builder = RingBuilder.create(PART_POWER, 1, 1)
    for number, (region, zone, server, weight) in enumerate(drawn):
        place: dict[str, Any] = {
            "region": region,
            "zone": zone,
            "ip": f"10.{region}.{zone}.{server}",
        }
        builder.add_device({**place, "port": 6200, "device": f"sd{number}", "weight": weight})
    return list(builder.devices())


def off_the_plan(tally: Tally, rows: list["array[int]"]) -> int:
    found = 0
    for ids in zip(*rows, strict=True):
        assert len(set(ids)) == len(ids)
        counts: Counter[Tier] = Counter(tier for dev_id in ids for tier in tally.tiers[dev_id])
        found += sum(max(0, count - tally.plan.at_most[tier]) for tier, count in counts.items())
        found += sum(max(0, n - counts[tier]) for tier, n in tally.plan.at_least.items() if tier)
    return found


clusters = st.lists(
    st.tuples(
        st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.sampled_from([1.0, 2.0, 9.0])
    ),
    min_size=4,
    max_size=14,
)


def polished(drawn: list[tuple[int, int, int, float]], replicas: int, seed: int) -> list[float]:
    """The dispersion of a new ring before and after; all else is as before."""
    devices = devices_of(drawn)
    partitions = 1 << PART_POWER
    rows = [array("H", [NOBODY]) * partitions for _ in range(replicas)]
    target = make_shares(devices, replicas).target(0)
    tally = Tally(devices, rows, NOBODY, replicas * partitions, target)
    draw(tally.plan, rows, random.Random(seed))
    held, before = Counter(chain(*rows)), measure(devices, rows, partitions)[0]
    free = [(row, partition) for row in rows for partition in range(partitions)]
    polish(tally, free, array.__setitem__, random.Random(seed))
    assert Counter(chain(*rows)) == held
    assert off_the_plan(tally, rows) == 0
    return [before, measure(devices, rows, partitions)[0]]


@given(clusters, st.integers(2, 4), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_no_more_replicas_are_at_risk_and_all_else_stays(
    drawn: list[tuple[int, int, int, float]], replicas: int, seed: int
) -> None:
    before, after = polished(drawn, replicas, seed)
    assert after <= before


def test_full_regions_and_full_servers_meet_in_the_same_partitions() -> None:
    """Four replicas: region 2 is too heavy for two of each, and so is its second server for one."""
    drawn = [(1, 1, 1, 1.0), (1, 2, 1, 1.0), (1, 2, 1, 1.0), (1, 2, 2, 2.0)]
    drawn += [(2, 1, 1, 2.0), (2, 1, 2, 2.0), (2, 1, 2, 3.0)]
    for seed in range(5):
        before, after = polished(drawn, 4, seed)
        assert after < before - 1
