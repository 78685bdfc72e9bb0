"""Chains of moves: what one device cannot hand to another goes by way of a third."""

from array import array

import pytest

from ring.chains import move_by_chains
from ring.devices import Device
from ring.moves import Moves
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


def tally_of(first: list[int], second: list[int], target: dict[int, float]) -> Tally:
    rows = [array("H", first), array("H", second)]
    devices = [device(n) for n in target]
    return Tally(devices, rows, NOBODY, len(first) + len(second), target)


@pytest.fixture
def tally() -> Tally:
    """Device 0 holds one too many, device 1 one too few, and all that 0 holds is on 1 as well."""
    return tally_of([0, 0, 0, 2], [1, 1, 1, 3], {0: 0.5, 1: 1.0, 2: 0.25, 3: 0.25})


def surpluses(tally: Tally) -> list[int]:
    return [tally.surplus(dev_id) for dev_id in tally.tiers]


def test_the_shortest_chain_ends_at_the_quotas(tally: Tally) -> None:
    assert surpluses(tally) == [1, -1, 0, 0]
    moves = Moves(tally, b"\1" * 4)
    move_by_chains(tally, moves, range(4), 10_000)
    assert len(moves.partitions) == 2
    assert 3 in moves.partitions, "the only partition that device 1 can still take"
    assert surpluses(tally) == [0, 0, 0, 0]
    places = list(zip(*tally.rows, strict=True))
    assert all(len(set(place)) == 2 for place in places)


@pytest.mark.parametrize(("movable", "checks"), [([0, 1, 2], 10_000), (range(4), 0)])
def test_without_a_way_nothing_moves(tally: Tally, movable: list[int], checks: int) -> None:
    before = [row[:] for row in tally.rows]
    moves = Moves(tally, bytes(partition in movable for partition in range(4)))
    move_by_chains(tally, moves, movable, checks)
    assert moves.partitions == []
    assert tally.rows == before


def test_what_was_just_placed_moves_on() -> None:
    """Also where the rest of its partition must stay."""
    tally = tally_of([0, 0, 0, NOBODY], [1, 1, 1, 3], {0: 0.5, 1: 1.0, 2: 0.25, 3: 0.25})
    moves = Moves(tally, bytes(4))
    moves.make(tally.rows[0], 3, 0)
    assert surpluses(tally) == [2, -1, -1, 0]
    move_by_chains(tally, moves, [], 10_000)
    assert surpluses(tally) == [1, 0, -1, 0], "0 to 1 goes in partition 3 only"
    assert [list(row) for row in tally.rows] == [[0, 0, 0, 1], [1, 1, 1, 3]]


def test_another_replica_may_move_in_the_place_of_one_that_has() -> None:
    """Device 2 took a replica of partition 0 from device 1; it is device 0 that has too many."""
    tally = tally_of([0, 0, 1], [1, 2, 2], {0: 1 / 3, 1: 2 / 3, 2: 1.0})
    moves = Moves(tally, b"\1\0\0")
    moves.make(tally.rows[1], 0, 2)
    assert surpluses(tally) == [1, -1, 0]
    move_by_chains(tally, moves, [], 10_000)
    assert surpluses(tally) == [0, 0, 0]
    assert [list(row) for row in tally.rows] == [[2, 0, 1], [1, 2, 2]]
    assert moves.partitions == [0]


def test_a_replica_that_is_back_has_not_moved(tally: Tally) -> None:
    moves = Moves(tally, b"\1" * 4)
    row = tally.rows[0]
    moves.make(row, 0, 2)
    moves.make(row, 0, 3)
    assert not moves.is_open(0)
    assert moves.may_go(row, 0)
    assert not moves.may_go(tally.rows[1], 0), "one replica of a partition at a time"
    moves.make(row, 0, 0)
    assert moves.is_open(0)
    assert moves.partitions == []
    assert surpluses(tally) == [1, -1, 0, 0]
