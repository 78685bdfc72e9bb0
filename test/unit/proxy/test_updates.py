"""Container and expirer updates are spread so that none is lost with a minority."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.replicas.quorum import quorum_size
from proxy.replicas.updates import UpdateTarget, update_count, update_headers


def nodes(count: int, base: int = 6001) -> list[Any]:
    return [{"ip": "10.0.0.1", "port": base + i, "device": f"sd{i}"} for i in range(count)]


@given(objects=st.integers(1, 6), containers=st.integers(1, 6), expires=st.booleans())
def test_every_replica_is_told_and_a_quorum_in_the_worst_case(
    objects: int, containers: int, expires: bool
) -> None:
    expirer = UpdateTarget("0001", 9, nodes(containers, 7001)) if expires else None
    headers = update_headers(objects, 5, nodes(containers), expirer)
    assert len(headers) == objects
    for name in ["Container"] + (["Delete-At"] if expires else []):
        told = [h.get(f"X-{name}-Host", "").split(",") for h in headers]
        told = [[host for host in hosts if host] for hosts in told]
        assert {host for hosts in told for host in hosts} == {
            f"10.0.0.1:{(6001 if name == 'Container' else 7001) + i}" for i in range(containers)
        }
        # The object servers with the most updates are lost: a quorum of updates must remain.
        counts = sorted(len(hosts) for hosts in told)
        assert sum(counts[: quorum_size(objects)]) >= quorum_size(containers)
    for h in headers:
        hosts, devices = h.get("X-Container-Host", ""), h.get("X-Container-Device", "")
        assert hosts.count(",") == devices.count(",")


def test_usual_case_is_the_general_one() -> None:
    """The short cut for as many containers as objects says what the long way would."""
    short = update_headers(3, 5, nodes(3))
    long = update_headers(3, 5, nodes(3), UpdateTarget("1", 9, nodes(3)))
    for plain, full in zip(short, long, strict=True):
        assert plain == {k: v for k, v in full.items() if not k.startswith("X-Delete-At")}


def test_a_queue_with_more_replicas_than_the_container_misses_none() -> None:
    """In a ring with a fraction of a replica, partitions differ by one."""
    expirer = UpdateTarget("0001", 9, nodes(4, 7001))
    headers = update_headers(3, 5, nodes(3), expirer)
    queued = {host for h in headers for host in h["X-Delete-At-Host"].split(",")}
    assert queued == {f"10.0.0.1:{7001 + i}" for i in range(4)}


def test_the_queue_is_told_in_the_reverse_order() -> None:
    expirer = UpdateTarget("0001", 9, nodes(3))
    headers = update_headers(3, 5, nodes(3), expirer)
    rows = [h["X-Container-Device"] for h in headers]
    assert len(set(rows)) == 3
    assert [h["X-Delete-At-Device"] for h in headers] == rows[::-1]


def test_only_two_object_servers_clean_the_queue() -> None:
    flags = [h["X-Backend-Clean-Expiring-Object-Queue"] for h in update_headers(4, 5, nodes(3))]
    assert flags == ["t", "t", "f", "f"]


@pytest.mark.parametrize(
    ("containers", "objects", "updates"),
    [(3, 3, 3), (3, 4, 4), (3, 6, 5), (1, 3, 2), (3, 1, 3), (5, 3, 5), (3, 2, 4)],
)
def test_update_count(containers: int, objects: int, updates: int) -> None:
    assert update_count(containers, objects) == updates


@given(st.integers(1, 9), st.integers(1, 9))
def test_enough_updates_survive_the_loss_of_a_minority(containers: int, objects: int) -> None:
    updates = update_count(containers, objects)
    assert updates >= containers
    dealt = [0] * objects
    for number in range(updates):
        dealt[number % objects] += 1
    assert sum(sorted(dealt)[: quorum_size(objects)]) >= quorum_size(containers)
