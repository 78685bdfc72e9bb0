"""Chains of moves: what one device cannot hand to another goes by way of a third."""

from array import array

import pytest

from ring.chains import move_by_chains
from ring.devices import Device
from ring.tally import Tally

NOBODY = 65535


def device(dev_id: int) -> Device:
    return {
        "id": dev_id,
        "region": 1,
        "zone": 1,
        "ip": f"10.0.0.{dev_id}",
        "port": 6200,
        "device": "sda",
        "weight": 1.0,
        "replication_ip": "10.0.0.1",
        "replication_port": 6200,
        "meta": "",
    }


@pytest.fixture
def tally() -> Tally:
    """Device 0 holds one too many, device 1 one too few, and all that 0 holds is on 1 as well."""
    rows = [array("H", [0, 0, 0, 2]), array("H", [1, 1, 1, 3])]
    target = {0: 0.5, 1: 1.0, 2: 0.25, 3: 0.25}
    return Tally([device(n) for n in range(4)], rows, NOBODY, 8, target)


def test_the_shortest_chain_ends_at_the_quotas(tally: Tally) -> None:
    assert [tally.surplus(n) for n in range(4)] == [1, -1, 0, 0]
    moved = move_by_chains(tally, range(4), [], 10_000)
    assert len(moved) == 2
    assert 3 in moved, "the only partition that device 1 can still take"
    assert [tally.surplus(n) for n in range(4)] == [0, 0, 0, 0]
    places = list(zip(*tally.rows, strict=True))
    assert all(len(set(place)) == 2 for place in places)


@pytest.mark.parametrize(("movable", "checks"), [([0, 1, 2], 10_000), (range(4), 0)])
def test_without_a_way_nothing_moves(tally: Tally, movable: list[int], checks: int) -> None:
    before = [row[:] for row in tally.rows]
    assert move_by_chains(tally, movable, [], checks) == set()
    assert tally.rows == before


def test_what_was_just_placed_moves_on(tally: Tally) -> None:
    """Also where the rest of its partition must stay."""
    row, other = tally.rows
    before = other[:]
    assert move_by_chains(tally, [], [(row, 0), (row, 3)], 10_000) == {0, 3}
    assert [tally.surplus(n) for n in range(4)] == [0, 0, 0, 0]
    assert other == before
    assert row[1:3] == array("H", [0, 0])
