"""Whole quotas: each share rounded down or up, the worst device as near its weight as can be."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from ring.devices import Tier
from ring.quotas import Wanted, quotas
from ring.shares import ROOT

PARTITIONS = 16


def wanted(servers: list[list[tuple[float, float]]], slots: int) -> Wanted:
    """One zone of servers, each a list of devices: the weight, and the factor of an overload."""
    weight = sum(w for server in servers for w, _ in server)
    pull = sum(w * factor for server in servers for w, factor in server)
    children: dict[Tier, list[Tier]] = {ROOT: [(1,)], (1,): [(1, 1)], (1, 1): []}
    exact: dict[Tier, float] = {ROOT: slots, (1,): slots, (1, 1): slots}
    ideal: dict[Tier, float] = {}
    dev_id = itertools.count()
    for number, server in enumerate(servers):
        tier: Tier = (1, 1, f"10.0.0.{number}")
        children[(1, 1)].append(tier)
        children[tier] = []
        for w, factor in server:
            device = (*tier, next(dev_id))
            children[tier].append(device)
            exact[device] = slots * w * factor / pull
            ideal[device] = slots * w / weight
        exact[tier] = sum(exact[device] for device in children[tier])
    return Wanted(children, exact, ideal, frozenset(), {})


devices = st.tuples(st.sampled_from([1.0, 1.33, 2.0, 5.0]), st.sampled_from([0.9, 1.0, 1.1]))
clusters = st.lists(st.lists(devices, min_size=1, max_size=3), min_size=1, max_size=3)


def worst(found: dict[Tier, int], ideal: dict[Tier, float]) -> float:
    return max(abs(found[device] / value - 1) for device, value in ideal.items())


@given(clusters, st.integers(20, 60))
@settings(max_examples=80, deadline=None)
def test_no_other_way_to_round_has_a_better_worst_device(
    servers: list[list[tuple[float, float]]], slots: int
) -> None:
    case = wanted(servers, slots)
    found = quotas(case, slots)
    for parent, tiers in case.children.items():
        assert found[parent] == sum(found[tier] for tier in tiers)
    assert all(abs(found[tier] - value) < 1 for tier, value in case.exact.items())
    ways = itertools.product(*(_around(case.exact[device]) for device in case.ideal))
    allowed = [way for way in ways if sum(way) == slots and _servers_fit(case, way)]
    best = min(worst(dict(zip(case.ideal, way, strict=True)), dict(case.ideal)) for way in allowed)
    assert worst(found, dict(case.ideal)) <= best + 1e-9


def _around(value: float) -> list[int]:
    low = int(value + 1e-4)
    return [low] if value - low < 1e-4 else [low, low + 1]


def _servers_fit(case: Wanted, way: tuple[int, ...]) -> bool:
    quota = dict(zip(case.ideal, way, strict=True))
    return all(
        abs(sum(quota[device] for device in case.children[server]) - case.exact[server]) < 1 - 1e-4
        or sum(quota[device] for device in case.children[server]) in _around(case.exact[server])
        for server in case.children[(1, 1)]
    )


def test_what_holds_the_one_more_keeps_it() -> None:
    case = wanted([[(1.0, 1.0)], [(1.0, 1.0)], [(1.0, 1.0)]], 10)
    for holder in case.ideal:
        held = dict.fromkeys(case.exact, 3) | {holder: 4, holder[:-1]: 4}
        found = quotas(Wanted(case.children, case.exact, case.ideal, frozenset(), held), 10)
        assert found[holder] == 4


def test_the_spread_comes_before_the_balance() -> None:
    """A server that must not hold more is not rounded up, although its device is worse off."""
    case = wanted([[(1.0, 1.0)], [(2.0, 1.0)]], 8)  # 2.67 and 5.33
    small, big = case.ideal
    assert quotas(case, 8)[small] == 3
    crowded = frozenset({small[:-1]})
    found = quotas(Wanted(case.children, case.exact, case.ideal, crowded, {}), 8)
    assert (found[small], found[big]) == (2, 6)
