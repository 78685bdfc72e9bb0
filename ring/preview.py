# SPDX-License-Identifier: Apache-2.0
"""The preview of a rebalance, without any write: moves, bytes, balance and dispersion."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ring.builder import RingBuilder
from ring.devices import Device, bracketed, format_device
from ring.dispersion import measure
from ring.draw import Progress
from ring.errors import RingError

USAGE_BYTES_MAX = 64 * 2**20
_LINES_MAX = 20


@dataclass(frozen=True, slots=True)
class Flow:
    """Replicas that move from one device to another; ``bytes`` is None if the usage is unknown.

    ``source`` is None for a replica without a device before, ``target`` for a removed replica.
    """

    source: int | None
    target: int | None
    replicas: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The result of a preview; balance and dispersion are percentages, before and after."""

    partitions: int
    moved_partitions: int
    moved_replicas: int
    balance: tuple[float, float]
    dispersion: tuple[float, float]
    flows: list[Flow]
    devices: Mapping[int, Device]
    is_usage_given: bool

    @property
    def moved_bytes(self) -> int | None:
        """The bytes that move, or None if the usage of a source device is unknown."""
        total = 0
        for flow in self.flows:
            if flow.source is not None and flow.target is not None:
                if flow.bytes is None:
                    return None
                total += flow.bytes
        return total

    @property
    def unknown_usage(self) -> list[int]:
        """The source devices whose usage is unknown."""
        return sorted(
            {
                flow.source
                for flow in self.flows
                if flow.source is not None and flow.target is not None and flow.bytes is None
            }
        )


def preview(
    builder: RingBuilder,
    seed: str | None = None,
    usage: Mapping[int, int] | None = None,
    progress: Progress | None = None,
) -> Preview:
    """Rebalance a copy. ``usage`` is device id -> bytes of this ring on the device.

    :raises BuilderError: it cannot be rebalanced.
    """
    after = copy.deepcopy(builder)
    before_percent = measure(list(builder.devices()), builder.table, builder.partitions)[0]
    after.rebalance(seed, progress=progress)
    moves: Counter[tuple[int | None, int | None]] = Counter()
    moved: set[int] = set()
    for number in range(max(len(builder.table), len(after.table))):
        old = builder.table[number] if number < len(builder.table) else ()
        new = after.table[number] if number < len(after.table) else ()
        for partition in range(max(len(old), len(new))):
            source = old[partition] if partition < len(old) else None
            target = new[partition] if partition < len(new) else None
            if source != target:
                moves[source, target] += 1
                moved.add(partition)
    devices = {device["id"]: device for device in [*after.devices(), *builder.devices()]}
    return Preview(
        partitions=builder.partitions,
        moved_partitions=len(moved),
        moved_replicas=sum(count for (_, target), count in moves.items() if target is not None),
        balance=(builder.balance(), after.balance()),
        dispersion=(before_percent, after.dispersion or 0.0),
        flows=[
            Flow(source, target, count, _bytes(source, count, usage or {}, devices))
            for (source, target), count in moves.most_common()
        ],
        devices=devices,
        is_usage_given=usage is not None,
    )


def _bytes(
    source: int | None, count: int, usage: Mapping[int, int], devices: Mapping[int, Device]
) -> int | None:
    """The bytes of ``count`` replicas; all partitions of a device count as equal in size."""
    if source is None or source not in usage or not devices[source].get("parts"):
        return None
    return round(usage[source] * count / devices[source]["parts"])


def read_usage(path: Path, builder: RingBuilder) -> dict[int, int]:
    """Read device id -> bytes from a JSON object whose keys name devices or servers.

    ``{"d0": bytes}``, ``{"10.0.0.1:6200/sda": bytes}``, or for a server the answer of its
    ``/recon/diskusage``: ``{"10.0.0.1:6200": [{"device": "sda", "used": bytes, ...}, ...]}``.

    :raises RingError: it is something else, or names a device that is not in the builder.
    """
    try:
        if path.stat().st_size > USAGE_BYTES_MAX:
            raise RingError(f"{path}: too big for a usage report")
        report = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RingError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RingError(f"{path}: not JSON: {error}") from error
    if not isinstance(report, dict):
        raise RingError(f"{path}: a JSON object is needed, device -> bytes")
    ids = {_key(device): device["id"] for device in builder.devices()}
    ids |= {f"d{device['id']}": device["id"] for device in builder.devices()}
    usage = {}
    for name, used in _entries(report):
        if name not in ids or type(used) is not int or used < 0:
            raise RingError(f"{path}: {name!r}: {used!r} is not the bytes of a device of this ring")
        usage[ids[name]] = used
    return usage


def _entries(report: dict[str, Any]) -> list[tuple[str, Any]]:
    entries: list[tuple[str, Any]] = []
    for name, value in report.items():
        if isinstance(value, list):
            for disk in value:
                is_disk = isinstance(disk, dict) and disk.get("mounted", True)
                if is_disk:
                    entries.append((f"{name}/{disk.get('device')}", disk.get("used")))
        else:
            entries.append((name, value))
    return entries


def _key(device: Device) -> str:
    return f"{bracketed(device['ip'])}:{device['port']}/{device['device']}"


def as_json(found: Preview) -> dict[str, Any]:
    """The preview as JSON."""
    return {
        "partitions": found.partitions,
        "moved_partitions": found.moved_partitions,
        "moved_replicas": found.moved_replicas,
        "moved_bytes": found.moved_bytes,
        "balance": {"before": found.balance[0], "after": found.balance[1]},
        "dispersion": {"before": found.dispersion[0], "after": found.dispersion[1]},
        "moves": [
            {"from": f.source, "to": f.target, "replicas": f.replicas, "bytes": f.bytes}
            for f in found.flows
        ],
    }


def as_text(found: Preview) -> str:
    """The preview as text: the sums, the gains and losses of each zone, and the largest flows."""
    percent = 100.0 * found.moved_partitions / found.partitions
    lines = [
        f"{found.moved_partitions} of {found.partitions} partitions ({percent:.2f}%) would move, "
        f"{found.moved_replicas} replicas"
        + (f", {_size(found.moved_bytes)}" if found.moved_bytes is not None else ""),
        f"balance     {found.balance[0]:z8.2f} -> {found.balance[1]:z8.2f}",
        f"dispersion  {found.dispersion[0]:z8.2f} -> {found.dispersion[1]:z8.2f}",
    ]
    if found.is_usage_given and found.unknown_usage:
        names = ", ".join(f"d{dev_id}" for dev_id in found.unknown_usage)
        lines.append(f"bytes of {names} are unknown: they are not in the usage report")
    if not found.flows:
        return "\n".join(lines)
    lines += ["", "zone             in        out"]
    gains, losses = _by_zone(found)
    for zone in sorted({*gains, *losses}):
        lines.append(f"r{zone[0]}z{zone[1]:<10} {gains[zone]:>6} {losses[zone]:>10}")
    lines += ["", "replicas  from -> to"]
    for flow in found.flows[:_LINES_MAX]:
        size = f", {_size(flow.bytes)}" if flow.bytes is not None else ""
        lines.append(
            f"{flow.replicas:8}  {_place(found, flow.source, 'nowhere')} -> "
            f"{_place(found, flow.target, 'nowhere')}{size}"
        )
    if len(found.flows) > _LINES_MAX:
        rest = sum(flow.replicas for flow in found.flows[_LINES_MAX:])
        lines.append(f"{rest:8}  in {len(found.flows) - _LINES_MAX} smaller flows (--json has all)")
    return "\n".join(lines)


def _by_zone(found: Preview) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]]]:
    gains: Counter[tuple[int, int]] = Counter()
    losses: Counter[tuple[int, int]] = Counter()
    for flow in found.flows:
        for dev_id, sums in ((flow.target, gains), (flow.source, losses)):
            if dev_id is not None:
                device = found.devices[dev_id]
                sums[device["region"], device["zone"]] += flow.replicas
    return gains, losses


def _place(found: Preview, dev_id: int | None, nobody: str) -> str:
    return nobody if dev_id is None else format_device(found.devices[dev_id])


def _size(number: int | None) -> str:
    size = float(number or 0)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"
