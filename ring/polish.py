# SPDX-License-Identifier: Apache-2.0
"""Swaps between partitions that leave fewer replicas at risk, for replicas that do not serve yet.

If the weights crowd some domains, some partitions have a region too full and others a zone. The
dispersion counts a partition on its worst level: one with both counts once. So two partitions swap
replicas if that puts fewer of them at risk. The number of replicas on each device does not change.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from ring.devices import DEVICE_TIER_LENGTH, Tier
from ring.tally import Tally

_SERVER = DEVICE_TIER_LENGTH - 1  # length of a server's tier
_REPLICAS_MAX = 2**17
# Replicas of a server that are tried for one replica at risk.
_PARTNERS_MAX = 32

# The servers of a partition's replicas, sorted.
_Servers = tuple[Tier, ...]
# A row of the table and a partition.
Replica = tuple["array[int]", int]
# Called with a row, a partition and a device.
Put = Callable[["array[int]", int, int], None]


def polish(tally: Tally, free: Iterable[Replica], put: Put, rng: random.Random) -> None:
    """Swap ``free`` replicas (row and partition); ``put`` places one on a device.

    It does nothing unless the plan crowds a tier. Of very many replicas only a sample is tried.
    """
    plan = tally.plan
    if all(count <= plan.most[tier] for tier, count in plan.at_most.items()):
        return
    everything = list(free)
    some = rng.sample(everything, min(len(everything), _REPLICAS_MAX))
    _Swaps(tally, some, put).improve()


class _Swaps:
    """The free replicas by server, and the score of each combination of servers."""

    def __init__(self, tally: Tally, free: Sequence[Replica], put: Put) -> None:
        self._tally = tally
        self._free = free
        self._put = put
        self._server = {dev_id: tiers[_SERVER - 1] for dev_id, tiers in tally.tiers.items()}
        self._required = [
            tier for tier, n in tally.plan.at_least.items() if 0 < len(tier) <= _SERVER and n
        ]
        self._scores: dict[_Servers, tuple[int, int]] = {}
        self._on: dict[Tier, list[Replica]] = defaultdict(list)

    def improve(self) -> None:
        """Swap each replica of a partition at risk with the first other one that helps."""
        for row, partition in self._free:
            self._on[self._server[row[partition]]].append((row, partition))
        for replica in self._free:
            partner = self._partner(replica)
            if partner is not None:
                self._swap(replica, partner)

    def _partner(self, replica: Replica) -> Replica | None:
        row, partition = replica
        old, ids = row[partition], self._ids(partition)
        servers, here = self._servers(ids), self._server[row[partition]]
        distance, risk = self._score(servers)
        for there in self._on if risk else ():
            then = self._score(_exchanged(servers, here, there))
            if then[1] >= risk:
                continue
            for other_row, other in self._on[there][:_PARTNERS_MAX]:
                new, other_ids = other_row[other], self._ids(other)
                if self._server[new] != there or new in ids or old in other_ids:
                    continue
                other_servers = self._servers(other_ids)
                other_now = self._score(other_servers)
                other_then = self._score(_exchanged(other_servers, there, here))
                is_as_near = then[0] + other_then[0] <= distance + other_now[0]
                if is_as_near and then[1] + other_then[1] < risk + other_now[1]:
                    return other_row, other
        return None

    def _swap(self, replica: Replica, partner: Replica) -> None:
        (row, partition), (other_row, other) = replica, partner
        old, new = row[partition], other_row[other]
        self._put(row, partition, new)
        self._put(other_row, other, old)
        # The old list entries stay; entries for replicas that have moved are skipped.
        self._on[self._server[new]].append(replica)
        self._on[self._server[old]].append(partner)

    def _ids(self, partition: int) -> list[int]:
        found = [row[partition] for row in self._tally.rows if partition < len(row)]
        return [dev_id for dev_id in found if dev_id != self._tally.nobody]

    def _servers(self, ids: Sequence[int]) -> _Servers:
        return tuple(sorted(self._server[dev_id] for dev_id in ids))

    def _score(self, servers: _Servers) -> tuple[int, int]:
        """The distance of a partition from the plan, and the number of its replicas at risk."""
        found = self._scores.get(servers)
        if found is None:
            plan = self._tally.plan
            crowds = [
                Counter(tier[:length] for tier in servers) for length in range(1, _SERVER + 1)
            ]
            risk = max(sum(max(0, n - plan.most.get(t, 0)) for t, n in c.items()) for c in crowds)
            counts: Counter[Tier] = sum(crowds, Counter())
            over = sum(max(0, n - plan.at_most.get(tier, 0)) for tier, n in counts.items())
            under = sum(max(0, plan.at_least[t] - counts[t]) for t in self._required)
            found = self._scores[servers] = over + under, risk
        return found


def _exchanged(servers: _Servers, old: Tier, new: Tier) -> _Servers:
    changed = list(servers)
    changed[changed.index(old)] = new
    return tuple(sorted(changed))
