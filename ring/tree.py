# SPDX-License-Identifier: Apache-2.0
"""A ring as a tree of regions, zones, servers and devices, with wanted and held replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ring.builder_file import load_builder
from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, bracketed, tiers_of
from ring.dispersion import measure
from ring.errors import RingFileError
from ring.file_format import read_ring
from ring.shares import ROOT, make_shares
from ring.table import Table
from ring.weight_balance import BALANCE_MAX

KINDS = ("ring", "region", "zone", "server", "device")


@dataclass(slots=True)
class Branch:
    """A failure domain; ``wanted`` and ``held`` count replicas of partitions."""

    kind: str
    name: str
    weight: float = 0.0
    wanted: float = 0.0
    held: int = 0
    children: list[Branch] = field(default_factory=list)

    @property
    def balance(self) -> float:
        """The percentage over (or, if negative, under) the wanted replicas."""
        if self.wanted <= 0:
            return BALANCE_MAX if self.held else 0.0
        return 100.0 * self.held / self.wanted - 100.0

    def devices(self) -> Iterable[Branch]:
        """Yield the leaves."""
        if self.kind == KINDS[-1]:
            yield self
        for child in self.children:
            yield from child.devices()

    def as_json(self) -> dict[str, Any]:
        """The branch as JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "weight": self.weight,
            "parts_wanted": round(self.wanted, 3),
            "parts_held": self.held,
            "balance": round(self.balance, 3) + 0.0,
            "children": [child.as_json() for child in self.children],
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """The data that ``martlet ring show`` draws."""

    path: str
    version: int
    partitions: int
    replicas: float
    balance: float
    dispersion: float
    root: Branch

    def as_json(self) -> dict[str, Any]:
        """The picture as JSON."""
        return {
            "file": self.path,
            "version": self.version,
            "partitions": self.partitions,
            "replicas": self.replicas,
            "balance": round(self.balance, 3) + 0.0,
            "dispersion": round(self.dispersion, 6) + 0.0,
            "tree": self.root.as_json(),
        }


def load_picture(path: Path) -> Picture:
    """Load the picture of a ring file or a builder file.

    :raises RingError: the file is neither, or assigns no partition.
    """
    if path.name.endswith(".builder"):
        builder = load_builder(path)
        devices, overload = list(builder.devices()), builder.overload
        table, partitions, version = builder.table, builder.partitions, builder.version
    else:
        ring = read_ring(path)
        devices, overload = [dev for dev in ring.devs if dev is not None], 0.0
        table, partitions, version = ring.table, ring.partition_count, ring.version or 0
    if not table:
        raise RingFileError(f"{path}: no partition is assigned to a device yet")
    root = make_tree(path.name, devices, table, partitions, overload)
    held = list(root.devices())
    return Picture(
        path=str(path),
        version=version,
        partitions=partitions,
        replicas=sum(map(len, table)) / partitions,
        balance=max((abs(leaf.balance) for leaf in held), default=0.0),
        dispersion=measure(devices, table, partitions)[0],
        root=root,
    )


def make_tree(
    name: str, devices: Sequence[Device], table: Table, partitions: int, overload: float
) -> Branch:
    """Make the tree of a table's assignments."""
    held = Counter(chain.from_iterable(table))
    wanted = _wanted(devices, table, partitions, overload)
    branches: dict[Tier, Branch] = {ROOT: Branch(KINDS[0], name)}
    for device in sorted(devices, key=_order):
        for tier in (ROOT, *tiers_of(device)):
            if tier not in branches:
                branches[tier] = Branch(KINDS[len(tier)], _name(tier, device))
                branches[tier[:-1]].children.append(branches[tier])
            branch = branches[tier]
            branch.weight += device["weight"]
            branch.wanted += wanted.get(device["id"], 0.0)
            branch.held += held[device["id"]]
    return branches[ROOT]


def _wanted(
    devices: Sequence[Device], table: Table, partitions: int, overload: float
) -> Mapping[int, float]:
    """The wanted replicas by device id; empty if there are too few devices for the ring."""
    replicas = sum(map(len, table)) / partitions
    if sum(device["weight"] > 0 for device in devices) < replicas:
        return {}
    target = make_shares(devices, replicas).target(overload)
    return {dev_id: share * partitions for dev_id, share in target.items()}


def _order(device: Device) -> tuple[int, int, str, str]:
    return device["region"], device["zone"], device["ip"], device["device"]


def _name(tier: Tier, device: Device) -> str:
    if len(tier) == DEVICE_TIER_LENGTH:
        return f"d{device['id']} {device['device']} :{device['port']}"
    if len(tier) == DEVICE_TIER_LENGTH - 1:
        return bracketed(device["ip"])
    return f"{KINDS[len(tier)]} {tier[-1]}"


# --- the terminal -----------------------------------------------------------------------------

_BAR_CELLS = 10


def as_text(picture: Picture) -> str:
    """The tree as text; a full bar stands for all wanted replicas."""
    rows = list(_rows(picture.root, "", ""))
    width = max(len(label) for label, _ in rows)
    lines = [
        f"{picture.path}: version {picture.version}, {picture.partitions} partitions, "
        f"{picture.replicas:g} replicas, balance {picture.balance:z.2f}, "
        f"dispersion {picture.dispersion:z.2f}",
        f"{'':{width}} {'weight':>12} {'wanted':>10} {'held':>10} {'balance':>8}",
    ]
    for label, branch in rows:
        lines.append(
            f"{label:{width}} {branch.weight:12.2f} {branch.wanted:10.1f} {branch.held:10d} "
            f"{branch.balance:z8.2f} {_bar(branch)}"
        )
    return "\n".join(lines)


def _rows(branch: Branch, first: str, rest: str) -> Iterable[tuple[str, Branch]]:
    yield first + branch.name, branch
    for number, child in enumerate(branch.children):
        is_last = number == len(branch.children) - 1
        yield from _rows(
            child, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")
        )


def _bar(branch: Branch) -> str:
    """The bar of a branch; a surplus shows as ``+`` after the full bar."""
    if branch.wanted <= 0:
        return "+" if branch.held else "·" * _BAR_CELLS
    cells = round(_BAR_CELLS * branch.held / branch.wanted)
    return "█" * min(cells, _BAR_CELLS) + "·" * (_BAR_CELLS - cells) + "+" * (cells > _BAR_CELLS)
