# SPDX-License-Identifier: Apache-2.0
"""The output of ``martlet-ring-builder FILE show`` about a builder, as text and as JSON."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from ring.builder import RingBuilder
from ring.devices import Device, Tier, bracketed
from ring.errors import RingFileError
from ring.file_format import read_ring
from ring.shares import most_unique

_NO_DEVICES = "There are no devices in this ring, or all devices have been deleted"


def ring_state(builder: RingBuilder, ring_path: Path) -> tuple[str, str]:
    """One word (missing, invalid, current, obsolete) and one line about the ring file."""
    if not ring_path.exists():
        return "missing", f"Ring file {ring_path} not found, probably it hasn't been written yet"
    try:
        ring = read_ring(ring_path)
    except RingFileError as error:
        return "invalid", f"Ring file {ring_path} is invalid: {error}"
    if ring == builder.ring_data():
        return "current", f"Ring file {ring_path} is up-to-date"
    return "obsolete", f"Ring file {ring_path} is obsolete"


def as_json(builder: RingBuilder, builder_path: Path, ring_path: Path) -> dict[str, Any]:
    """The report of ``as_text`` as JSON. Balances and dispersion are percentages."""
    balance = builder.balance_by_device()
    return {
        "builder_file": str(builder_path),
        "ring_file": str(ring_path),
        "ring_state": ring_state(builder, ring_path)[0],
        "id": builder.builder_id,
        "version": builder.version,
        "part_power": builder.part_power,
        "next_part_power": builder.next_part_power,
        "partitions": builder.partitions,
        "replicas": builder.replicas,
        "min_part_hours": builder.min_part_hours,
        "seconds_until_move": builder.seconds_until_move(),
        "overload": builder.overload,
        "balance": builder.balance(),
        "dispersion": builder.dispersion,
        "devices": [
            {
                **dev,
                "balance": round(balance[dev["id"]], 6) + 0.0,
                "removed": dev["id"] in builder.removed_ids,
            }
            for dev in builder.devices()
        ],
    }


def as_text(builder: RingBuilder, builder_path: Path, ring_path: Path) -> str:
    """The report in the format of swift-ring-builder."""
    devices = list(builder.devices())
    regions = {dev["region"] for dev in devices}
    zones = {(dev["region"], dev["zone"]) for dev in devices}
    dispersion = "" if builder.dispersion is None else f", {builder.dispersion:z.2f} dispersion"
    wait = timedelta(seconds=builder.seconds_until_move())
    state, state_line = ring_state(builder, ring_path)
    lines = [
        f"{builder_path}, build version {builder.version}, id {builder.builder_id}",
        f"{builder.partitions} partitions, {builder.replicas:.6f} replicas, "
        f"{len(regions)} regions, {len(zones)} zones, {len(devices)} devices, "
        f"{builder.dev_id_bytes}-byte IDs, {builder.balance():z.2f} balance{dispersion}",
        "The minimum number of hours before a partition can be reassigned is "
        f"{builder.min_part_hours} ({wait} remaining)",
        f"The overload factor is {builder.overload * 100:.2f}% ({builder.overload:.6f})",
        state_line,
        *_device_table(builder, devices),
        *(() if devices else (_NO_DEVICES,)),
        *_power_notes(builder, state == "current"),
    ]
    return "\n".join(lines)


def _device_table(builder: RingBuilder, devices: list[Device]) -> list[str]:
    """One line for each device; columns widen for long addresses and weights."""
    balance = builder.balance_by_device()
    rows = [
        (
            dev["id"],
            bracketed(dev["ip"]),
            bracketed(dev["replication_ip"]),
            f"{dev['weight']:.2f}",
            dev,
        )
        for dev in sorted(devices, key=lambda d: (d["region"], d["zone"], d["ip"], d["device"]))
    ]
    ip = max([10, *(len(row[1]) for row in rows)])
    replication_ip = max([14, *(len(row[2]) for row in rows)])
    weight = max([6, *(len(row[3]) for row in rows)])
    port = max([4, *(len(str(row[4]["port"])) for row in rows)])
    replication_port = max([4, *(len(str(row[4]["replication_port"])) for row in rows)])
    lines = [
        f"Devices:{'id':>5} {'region':>6} {'zone':>4} {'ip address':>{ip}}:{'port':<{port}} "
        f"{'replication ip':>{replication_ip}}:{'port':<{replication_port}} {'name':>5} "
        f"{'weight':>{weight}} partitions balance flags meta"
    ]
    for dev_id, address, replication_address, weight_text, dev in rows:
        flags = "DEL" if dev_id in builder.removed_ids else ""
        lines.append(
            f"{dev_id:13d} {dev['region']:6d} {dev['zone']:4d} "
            f"{address:>{ip}}:{dev['port']:<{port}d} "
            f"{replication_address:>{replication_ip}}:"
            f"{dev['replication_port']:<{replication_port}d} {dev['device']:>5} "
            f"{weight_text:>{weight}} {dev.get('parts', 0):>10} {balance[dev_id]:z7.2f} "
            f"{flags:>5} {dev['meta']}"
        )
    return lines


def _power_notes(builder: RingBuilder, is_current: bool) -> list[str]:
    """The next step while the partition power is being raised."""
    if builder.next_part_power is None:
        return []
    if builder.next_part_power > builder.part_power:
        return [
            "",
            "Preparing increase of partition power "
            f"({builder.part_power} -> {builder.next_part_power})",
            "Link the data to its new places on all servers before increase_partition_power.",
        ]
    lines = ["", f"Increased partition power ({builder.part_power} -> {builder.next_part_power})"]
    if not is_current:
        lines.append("Run write_ring first and copy the ring file to all servers.")
    return [*lines, "Remove the old links on all servers before finish_increase_partition_power."]


def search_table(builder: RingBuilder, devices: list[Device]) -> list[str]:
    """The found devices, in the columns of swift-ring-builder's search."""
    balance = builder.balance_by_device()
    lines = [
        "Devices:    id  region  zone      ip address  port  replication ip  replication port"
        "      name weight partitions balance meta"
    ]
    for dev in devices:
        lines.append(
            f"         {dev['id']:5d} {dev['region']:7d} {dev['zone']:5d} {dev['ip']:>15} "
            f"{dev['port']:5d} {dev['replication_ip']:>15} {dev['replication_port']:17d} "
            f"{dev['device']:>9} {dev['weight']:6.2f} {dev.get('parts', 0):>10} "
            f"{balance[dev['id']]:z7.2f} {dev['meta']}"
        )
    return lines


def worst_tier(builder: RingBuilder, wanted: re.Pattern[str]) -> tuple[str, float] | None:
    """The tier with most replicas over its maximum, and their percentage; None if none has any."""
    found = [(row[2], row[0]) for row in _dispersion_rows(builder, wanted)]
    # The first one of equals.
    worst = max(found, key=lambda pair: pair[0], default=(0.0, ""))
    return (worst[1], worst[0]) if worst[0] > 0 else None


def dispersion_table(builder: RingBuilder, wanted: re.Pattern[str]) -> list[str]:
    """For each tier: replicas held, percent too many, the maximum, partitions with 0 to n."""
    rows = _dispersion_rows(builder, wanted)
    if not rows:
        return []
    numbers = range(len(rows[0][4]))
    count = max(len(str(builder.partitions)), 5)
    tier = max(30, *(len(row[0]) for row in rows))
    heading = f"{'Tier':<{tier}} {'Parts':>{count}} {'%':>6} {'Max':>6} " + " ".join(
        f"{number:>{count}}" for number in numbers
    )
    rule = "-" * len(heading)
    return [rule, heading, rule] + [
        f"{name:<{tier}} {placed:>{count}} {percent:6.2f} {most:6d} "
        + " ".join(f"{value:>{count}}" for value in counts)
        for name, placed, percent, most, counts in rows
    ]


def _dispersion_rows(
    builder: RingBuilder, wanted: re.Pattern[str]
) -> list[tuple[str, int, float, int, list[int]]]:
    most = most_unique(builder.devices(), builder.replicas)
    rows = []
    for tier, counts in sorted(builder.dispersion_graph.items()):
        name = _tier_name(builder, tier)
        if not wanted.match(name):
            continue
        highest = most.get(tier, 0)
        placed = sum(number * count for number, count in enumerate(counts))
        over = sum(max(0, number - highest) * count for number, count in enumerate(counts))
        rows.append((name, placed, 100.0 * over / placed if placed else 0.0, highest, counts))
    return rows


def _tier_name(builder: RingBuilder, tier: Tier) -> str:
    """r1, r1z2, r1z2-10.0.0.1, r1z2-10.0.0.1/sdb1."""
    name = f"r{tier[0]}"
    if len(tier) > 1:
        name += f"z{tier[1]}"
    if len(tier) > 2:
        name += f"-{bracketed(str(tier[2]))}"
    if len(tier) > 3:
        dev_id = int(tier[3])
        device = builder.devs[dev_id] if dev_id < len(builder.devs) else None
        name += f"/{device['device'] if device else f'IDd{dev_id}'}"
    return name
