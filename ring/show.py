# SPDX-License-Identifier: Apache-2.0
"""What ``martlet-ring-builder FILE show`` says about a builder, as text and as JSON."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from ring.builder import RingBuilder
from ring.devices import Device, bracketed
from ring.errors import RingFileError
from ring.file_format import read_ring


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
    """Everything ``as_text`` says, for programs. Balances and dispersion are percentages."""
    balance = builder.balance_by_device()
    return {
        "builder_file": str(builder_path),
        "ring_file": str(ring_path),
        "ring_state": ring_state(builder, ring_path)[0],
        "id": builder.builder_id,
        "version": builder.version,
        "part_power": builder.part_power,
        "partitions": builder.partitions,
        "replicas": builder.replicas,
        "min_part_hours": builder.min_part_hours,
        "seconds_until_move": builder.seconds_until_move(),
        "overload": builder.overload,
        "balance": builder.balance(),
        "dispersion": builder.dispersion,
        "devices": [
            {**dev, "balance": balance[dev["id"]], "removed": dev["id"] in builder.removed_ids}
            for dev in builder.devices()
        ],
    }


def as_text(builder: RingBuilder, builder_path: Path, ring_path: Path) -> str:
    """The report that operators of swift-ring-builder know."""
    devices = list(builder.devices())
    regions = {dev["region"] for dev in devices}
    zones = {(dev["region"], dev["zone"]) for dev in devices}
    dispersion = "" if builder.dispersion is None else f", {builder.dispersion:.2f} dispersion"
    wait = timedelta(seconds=builder.seconds_until_move())
    lines = [
        f"{builder_path}, build version {builder.version}, id {builder.builder_id}",
        f"{builder.partitions} partitions, {builder.replicas:.6f} replicas, "
        f"{len(regions)} regions, {len(zones)} zones, {len(devices)} devices, "
        f"{builder.dev_id_bytes}-byte IDs, {builder.balance():.2f} balance{dispersion}",
        "The minimum number of hours before a partition can be reassigned is "
        f"{builder.min_part_hours} ({wait} remaining)",
        f"The overload factor is {builder.overload * 100:.2f}% ({builder.overload:.6f})",
        ring_state(builder, ring_path)[1],
        *_device_table(builder, devices),
    ]
    return "\n".join(lines)


_HEADINGS = (
    "Devices:   id",
    "region",
    "zone",
    "ip address:port",
    "replication ip:port",
    "name",
    "weight",
    "partitions",
    "balance",
    "flags",
    "meta",
)


def _device_table(builder: RingBuilder, devices: list[Device]) -> list[str]:
    balance = builder.balance_by_device()
    rows = [_HEADINGS]
    for dev in sorted(devices, key=lambda d: (d["region"], d["zone"], d["ip"], d["device"])):
        rows.append(
            (
                str(dev["id"]),
                str(dev["region"]),
                str(dev["zone"]),
                f"{bracketed(dev['ip'])}:{dev['port']}",
                f"{bracketed(dev['replication_ip'])}:{dev['replication_port']}",
                dev["device"],
                f"{dev['weight']:.2f}",
                str(dev.get("parts", 0)),
                f"{balance[dev['id']]:.2f}",
                "DEL" if dev["id"] in builder.removed_ids else "",
                dev["meta"],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return [
        " ".join(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False))
        + (f" {row[-1]}" if row[-1] else "")
        for row in rows
    ]
