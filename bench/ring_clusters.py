# SPDX-License-Identifier: Apache-2.0
"""Random clusters, placed and changed by martlet's builder and by OpenStack Swift's, compared."""

from __future__ import annotations

import math
import pickle
import random
from dataclasses import dataclass
from typing import Any

from swift.common.ring import RingBuilder as SwiftRingBuilder

from ring.builder import RingBuilder
from ring.builder_file import decode_builder
from ring.dispersion import measure

HOUR = 3600
# Swift counts the partitions of the short row only, so both are measured here by one ruler.
TOLERANCE_PERCENT = 1e-6


@dataclass(frozen=True, slots=True)
class Figures:
    """Percent, 0 is perfect; ``moved`` counts replicas since the figures before."""

    balance: float
    dispersion: float
    moved: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both builders on one cluster: the new ring, and after a change and three rebalances."""

    seed: int
    swift: tuple[Figures, Figures]
    ours: tuple[Figures, Figures]
    off_quota: int


def compare(seed: int) -> Outcome:
    """One random cluster, part power 6 to 10, 2 to 4 replicas, overload 0 to 10."""
    rng = random.Random(seed)
    devices = _devices(rng)
    replicas = rng.choice([3, 3, 3, 3, 2, 4, 2.5, 3.25])
    copies = 0
    while len(devices) < math.ceil(replicas) + 2:
        copies += 1
        devices += [{**dev, "device": f"{dev['device']}v{copies}"} for dev in devices]
    part_power, overload = rng.choice([6, 8, 10]), rng.choice([0.0, 0.0, 0.0, 0.1, 0.5, 10.0])
    swift = SwiftRingBuilder(part_power, replicas, 1)
    ours = RingBuilder.create(part_power, replicas, 1)
    swift.set_overload(overload)
    ours.overload = overload
    for device in devices:
        swift.add_dev(dict(device))
        ours.add_device(device)
    swift_new = _swift_figures(swift, swift.rebalance(seed=seed)[0])
    ours_new = _our_figures(ours, ours.rebalance(str(seed), lambda: 1e9).changed_replicas)
    _change(rng, devices, math.ceil(replicas), swift, ours)
    moved_swift = moved_ours = 0
    for number in range(1, 4):
        swift.pretend_min_part_hours_passed()
        moved_swift += swift.rebalance(seed=number)[0]
        now = 1e9 + 10 * number * HOUR
        moved_ours += ours.rebalance(str(number), lambda now=now: now).changed_replicas  # type: ignore[misc]
    return Outcome(
        seed,
        (swift_new, _swift_figures(swift, moved_swift)),
        (ours_new, _our_figures(ours, moved_ours)),
        sum(abs(device["parts_wanted"]) for device in ours.devices()) // 2,
    )


def _devices(rng: random.Random) -> list[dict[str, Any]]:
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


def _change(
    rng: random.Random,
    devices: list[dict[str, Any]],
    replicas: int,
    swift: SwiftRingBuilder,
    ours: RingBuilder,
) -> None:
    """Adds a server with some devices, or removes or weighs anew up to a quarter of them."""
    kind = rng.choice(["add", "remove", "weight"])
    if kind == "add":
        base = rng.choice(devices)
        for number in range(rng.randint(1, 4)):
            new = {**base, "ip": "10.9.9.9", "device": f"n{number}", "weight": 100.0}
            swift.add_dev(dict(new))
            ours.add_device(new)
        return
    for dev_id in rng.sample(range(len(devices)), max(1, (len(devices) - replicas - 1) // 4)):
        if kind == "remove":
            swift.remove_dev(dev_id)
            ours.remove_device(dev_id)
        else:
            weight = rng.choice([0.0, 30.0, 250.0])
            swift.set_dev_weight(dev_id, weight)
            ours.set_weight(dev_id, weight)


def _swift_figures(builder: SwiftRingBuilder, moved: int) -> Figures:
    return _our_figures(decode_builder(pickle.dumps(builder.to_dict(), 2)), moved)


def _our_figures(builder: RingBuilder, moved: int) -> Figures:
    dispersion, _ = measure(list(builder.devices()), builder.table, builder.partitions)
    return Figures(builder.balance(), dispersion, moved)


def summary(outcomes: list[Outcome]) -> list[str]:
    """One line for the new rings and one for the changed ones, and the cases that are worse."""
    lines = []
    for stage, name in enumerate(("new", "changed")):
        pairs = [(outcome.swift[stage], outcome.ours[stage]) for outcome in outcomes]
        counts = []
        for what in ("balance", "dispersion"):
            gaps = [getattr(ours, what) - getattr(swift, what) for swift, ours in pairs]
            worse = [gap for gap in gaps if gap > TOLERANCE_PERCENT]
            better = sum(gap < -TOLERANCE_PERCENT for gap in gaps)
            counts.append(
                f"{what} better {better}, equal {len(gaps) - better - len(worse)}, "
                f"worse {len(worse)} (by {max(worse, default=0):.2f} at most)"
            )
        moved = [sum(pair[side].moved for pair in pairs) for side in (0, 1)]
        lines.append(f"{name}: {'; '.join(counts)}; replicas moved {moved[1]}, Swift {moved[0]}")
    lines.append(f"off the exact quotas: {sum(bool(o.off_quota) for o in outcomes)}")
    for outcome in outcomes:
        for stage, name in enumerate(("new", "changed")):
            swift, ours = outcome.swift[stage], outcome.ours[stage]
            if (
                ours.balance > swift.balance + TOLERANCE_PERCENT
                or ours.dispersion > swift.dispersion + TOLERANCE_PERCENT
            ):
                lines.append(
                    f"  seed {outcome.seed}, {name}: balance {ours.balance:.2f} against "
                    f"{swift.balance:.2f}, dispersion {ours.dispersion:.2f} against "
                    f"{swift.dispersion:.2f}"
                )
    return lines
