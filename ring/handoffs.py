# SPDX-License-Identifier: Apache-2.0
"""The order of hand-off devices of a partition: OpenStack Swift's, so both find each other's data.

The search visits the other partitions from a pseudo-random one on (MD5 of the partition's number in
decimal) and wraps around. First come devices in regions that hold nothing of the partition yet,
then in new zones, then on new servers, then the rest. Because the order follows the assignments, it
respects the weights and changes little between rings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import md5

from ring.devices import Device, Tier, tiers_of
from ring.file_format import RingData
from ring.hashing import partition_of

# Rings with more partitions than this are visited in steps, so that a search stays short.
_VISITS_MAX = 65536


def handoff_ids(
    data: RingData, primaries: Collection[int], partition: int, tier_counts: tuple[int, ...]
) -> Iterator[int]:
    """Yield device ids, best hand-off first; every assigned device but ``primaries``, each once.

    ``tier_counts`` are the numbers of regions, zones, servers and devices with assignments. A
    search on one level ends when all tiers of that level have been visited.
    """
    seen: list[set[Tier]] = [set() for _ in tier_counts]
    for dev_id in primaries:
        _see(seen, _device(data, dev_id))
    for level, count in enumerate(tier_counts):
        if len(seen[level]) == count:
            continue
        for dev_id in _candidates(data, partition):
            device = _device(data, dev_id)
            tiers = tiers_of(device)
            # tiers[-1] is the device itself: no device is returned twice.
            if tiers[level] in seen[level] or tiers[-1] in seen[-1]:
                continue
            _see(seen, device)
            yield dev_id
            if len(seen[level]) == count:
                break


def _see(seen: list[set[Tier]], device: Device) -> None:
    for found, tier in zip(seen, tiers_of(device), strict=True):
        found.add(tier)


def _device(data: RingData, dev_id: int) -> Device:
    device = data.devs[dev_id]
    assert device is not None, "read_ring admits assigned devices only"
    return device


def _candidates(data: RingData, partition: int) -> Iterator[int]:
    """Yield the devices of other partitions, in the order of the search."""
    count = data.partition_count
    start = partition_of(md5(b"%d" % partition, usedforsecurity=False).digest(), data.part_shift)
    step = count // _VISITS_MAX or 1
    wrapped = step - (count - start) % step
    for visited in (range(start, count, step), range(wrapped, start, step)):
        for other in visited:
            for row in data.table:
                if other < len(row):
                    yield row[other]
