# SPDX-License-Identifier: Apache-2.0
"""A comparison of martlet's builder with OpenStack Swift's on random clusters and changes."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from swift.common.ring import RingBuilder as SwiftRingBuilder

from ring.builder import RingBuilder
from ring.builder_file import decode_builder
from ring.devices import tiers_of
from ring.dispersion import measure

HOUR = 3600
TOLERANCE_PERCENT = 1e-6
# An operator sees the first rebalance after a change; later ones may still improve the ring.
REBALANCES = 3

Device = dict[str, Any]
# An operation on a builder, by the names below, and its arguments.
Operation = tuple[str, tuple[Any, ...]]

SWIFT: dict[str, Callable[..., object]] = {
    "add": lambda builder, device: builder.add_dev(dict(device)),
    "remove": SwiftRingBuilder.remove_dev,
    "weight": SwiftRingBuilder.set_dev_weight,
    "zone": SwiftRingBuilder.set_dev_zone,
    "overload": SwiftRingBuilder.set_overload,
    "replicas": SwiftRingBuilder.set_replicas,
}
OURS: dict[str, Callable[..., object]] = {
    "add": RingBuilder.add_device,
    "remove": RingBuilder.remove_device,
    "weight": RingBuilder.set_weight,
    "zone": lambda builder, dev_id, zone: builder.set_place(dev_id, zone=zone),
    "overload": RingBuilder.set_overload,
    "replicas": RingBuilder.set_replicas,
}
CHANGES = tuple(OURS)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The initial state for both builders."""

    seed: int
    devices: list[Device]
    replicas: float
    part_power: int
    overload: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The measured figures; ``balance`` and ``dispersion`` are percentages, 0 is perfect.

    ``places``: different regions, zones and servers of a partition, on average; the dispersion
    does not show the additional ones of an even number of replicas. ``moved`` counts replicas.
    """

    balance: float
    dispersion: float
    places: float
    moved: int


# By stage: the new ring, and each change with one rebalance and with three.
Outcome = dict[str, Figures]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results for one cluster: each builder on its own ring, and martlet's also on Swift's."""

    seed: int
    swift: Outcome
    ours: Outcome
    ours_on_swifts: Outcome


def compare(seed: int) -> Comparison:
    """Compare the builders on one cluster; this takes some seconds."""
    cluster = random_cluster(seed)
    swift, swifts_ring = swift_outcome(cluster)
    return Comparison(seed, swift, our_outcome(cluster), our_outcome(cluster, swifts_ring))


def random_cluster(seed: int) -> Cluster:
    """Make a cluster: 1 to 3 regions, part power 6 to 10, 2 to 4 replicas, overload 0 to 10."""
    rng = random.Random(seed)
    devices = _devices(rng)
    replicas = rng.choice([3, 3, 3, 3, 2, 4, 2.5, 3.25])
    copies = 0
    while len(devices) < math.ceil(replicas) + 2:
        copies += 1
        devices += [{**dev, "device": f"{dev['device']}v{copies}"} for dev in devices]
    part_power, overload = rng.choice([6, 8, 10]), rng.choice([0.0, 0.0, 0.0, 0.1, 0.5, 10.0])
    return Cluster(seed, devices, replicas, part_power, overload)


def _devices(rng: random.Random) -> list[Device]:
    devices = []
    for region in range(1, rng.randint(1, 3) + 1):
        for zone in range(rng.randint(1, 4)):
            for server in range(rng.randint(1, 4)):
                ip = f"10.{region}.{zone}.{server}"
                devices += [
                    {
                        "region": region,
                        "zone": zone,
                        "ip": ip,
                        "port": 6200,
                        "replication_ip": ip,
                        "replication_port": 6200,
                        "device": f"sd{number}",
                        "weight": rng.choice([100.0, 100.0, 100.0, 50.0, 200.0, 133.0]),
                        "meta": "",
                    }
                    for number in range(rng.randint(1, 6))
                ]
    return devices


def random_change(cluster: Cluster, kind: str) -> list[Operation]:
    """Make a change of one kind that leaves enough devices for the replicas."""
    rng = random.Random(f"{cluster.seed} {kind}")
    spare = len(cluster.devices) - math.ceil(cluster.replicas)
    if kind == "add":
        base = {**rng.choice(cluster.devices), "ip": "10.9.9.9", "weight": 100.0}
        return [("add", ({**base, "device": f"n{n}"},)) for n in range(rng.randint(1, 4))]
    if kind == "overload":
        others = [value for value in (0.0, 0.1, 0.5, 10.0) if value != cluster.overload]
        return [("overload", (rng.choice(others),))]
    if kind == "replicas":
        possible = [n for n in (2, 2.5, 3, 3.25, 4) if n <= len(cluster.devices) - 1]
        return [("replicas", (rng.choice([n for n in possible if n != cluster.replicas]),))]
    some = rng.sample(range(len(cluster.devices)), max(1, (spare - 1) // 4))
    if kind == "remove":
        return [("remove", (dev_id,)) for dev_id in some]
    choices = [0.0, 30.0, 250.0] if kind == "weight" else [0, 1, 2, 3, 4]
    return [(kind, (dev_id, rng.choice(choices))) for dev_id in some]


def swift_outcome(cluster: Cluster) -> tuple[Outcome, RingBuilder]:
    """The outcome of OpenStack Swift's builder, and its new ring as read by martlet."""

    def rebalance(builder: SwiftRingBuilder, number: int) -> Figures:
        builder.pretend_min_part_hours_passed()
        moved = builder.rebalance(seed=number)[0]
        return _figures(_read(builder), moved)

    builder = SwiftRingBuilder(cluster.part_power, cluster.replicas, 1)
    new = _start(cluster, builder, SWIFT, rebalance)
    return {"new": new, **_changes(cluster, builder, SWIFT, rebalance)}, _read(builder)


def our_outcome(cluster: Cluster, swift: RingBuilder | None = None) -> Outcome:
    """The outcome of martlet's builder, on its own new ring or on that of Swift."""

    def rebalance(builder: RingBuilder, number: int) -> Figures:
        builder.pretend_min_part_hours_passed()
        return _figures(builder, builder.rebalance(str(number)).changed_replicas)

    builder = RingBuilder.create(cluster.part_power, cluster.replicas, 1)
    new = _start(cluster, builder, OURS, rebalance)
    return {"new": new, **_changes(cluster, swift or builder, OURS, rebalance)}


def _start(
    cluster: Cluster,
    builder: Any,
    operations: dict[str, Callable[..., object]],
    rebalance: Callable[[Any, int], Figures],
) -> Figures:
    operations["overload"](builder, cluster.overload)
    for device in cluster.devices:
        operations["add"](builder, device)
    return rebalance(builder, 0)


def _changes(
    cluster: Cluster,
    builder: Any,
    operations: dict[str, Callable[..., object]],
    rebalance: Callable[[Any, int], Figures],
) -> Outcome:
    outcome: Outcome = {}
    for kind in CHANGES:
        changed = copy.deepcopy(builder)
        for name, values in random_change(cluster, kind):
            operations[name](changed, *values)
        runs = [rebalance(changed, number) for number in range(1, REBALANCES + 1)]
        outcome[f"{kind}, first"] = runs[0]
        outcome[f"{kind}, third"] = runs[-1]
    return outcome


def _read(builder: SwiftRingBuilder) -> RingBuilder:
    return decode_builder(pickle.dumps(builder.to_dict(), 2))


def _figures(builder: RingBuilder, moved: int) -> Figures:
    """Measure both with this code: Swift counts the partitions of a short last row only."""
    dispersion, _ = measure(list(builder.devices()), builder.table, builder.partitions)
    return Figures(builder.balance(), dispersion, _places(builder), moved)


def _places(builder: RingBuilder) -> float:
    tiers = {device["id"]: tiers_of(device) for device in builder.devices()}
    found = 0
    for partition in range(builder.partitions):
        ids = [row[partition] for row in builder.table if partition < len(row)]
        found += len({tier for dev_id in ids for tier in tiers[dev_id][:-1]})
    return found / builder.partitions


def summary(comparisons: list[Comparison]) -> list[str]:
    """A line for each stage, then the cases that are worse in one figure and better in none."""
    starts = {
        "each side on its own ring": [(c.seed, c.swift, c.ours) for c in comparisons],
        "both on the ring of Swift": [(c.seed, c.swift, c.ours_on_swifts) for c in comparisons],
    }
    lines = []
    for start, outcomes in starts.items():
        lines.append(start)
        for stage in comparisons[0].swift:
            if stage == "new" and lines[0] != start:
                continue
            lines += _stage_lines(
                stage, [(n, swift[stage], ours[stage]) for n, swift, ours in outcomes]
            )
    return lines


def _stage_lines(stage: str, cases: list[tuple[int, Figures, Figures]]) -> list[str]:
    counts = [_counts(what, cases) for what in ("balance", "dispersion")]
    worse = [
        (seed, swift, ours)
        for seed, swift, ours in cases
        if any(gap > TOLERANCE_PERCENT for gap in _gaps(swift, ours))
        and not any(gap < -TOLERANCE_PERCENT for gap in _gaps(swift, ours))
    ]
    wider = sum(ours.places > swift.places for _, swift, ours in worse)
    moved = [sum(figures.moved for figures in side) for side in list(zip(*cases, strict=True))[1:]]
    return [
        f"  {stage}: {'; '.join(counts)}; worse and in nothing better {len(worse)}, "
        f"{wider} of them in more places; "
        f"replicas moved {moved[1]}, Swift {moved[0]}",
        *(
            f"    seed {seed}: balance {ours.balance:.2f} against {swift.balance:.2f}, "
            f"dispersion {ours.dispersion:.2f} against {swift.dispersion:.2f}, "
            f"places {ours.places:.3f} against {swift.places:.3f}"
            for seed, swift, ours in worse
        ),
    ]


def _counts(what: str, cases: list[tuple[int, Figures, Figures]]) -> str:
    gaps = [getattr(ours, what) - getattr(swift, what) for _, swift, ours in cases]
    worse = [gap for gap in gaps if gap > TOLERANCE_PERCENT]
    better = sum(gap < -TOLERANCE_PERCENT for gap in gaps)
    return (
        f"{what} better {better}, equal {len(gaps) - better - len(worse)}, "
        f"worse {len(worse)} (by {max(worse, default=0):.2f} at most)"
    )


def _gaps(swift: Figures, ours: Figures) -> tuple[float, float]:
    return ours.balance - swift.balance, ours.dispersion - swift.dispersion
