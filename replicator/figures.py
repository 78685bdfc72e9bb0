# SPDX-License-Identifier: Apache-2.0
"""The figures of a pass."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass
class Figures:
    """The work of a pass. ``failures`` and those below it are to be repeated."""

    databases: int = 0  # found on the devices
    unchanged: int = 0  # of them, not opened
    in_sync: int = 0  # of them, all other replicas have everything
    handoffs: int = 0  # of them, on a device that is not their place, before the pass
    same: int = 0  # exchanges in which the peer had everything
    sent: int = 0  # ... in which it got all rows that it lacked
    copied: int = 0  # ... in which it got the whole database
    rows: int = 0  # rows that were sent
    fetched: int = 0  # damaged databases that were fetched from a peer
    moved: int = 0  # databases of other devices that were removed here
    removed: int = 0  # deleted databases that were removed
    forgotten: int = 0  # tombstones that were removed
    vacuumed: int = 0  # databases whose free pages were given back
    partly: int = 0  # exchanges that go on in the next pass
    failures: int = 0  # exchanges, databases and devices that failed
    seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The figures by name."""
        return asdict(self)

    def for_recon(self, started: float) -> dict[str, Any]:
        """The figures by the names that swift-recon shows, and by those of martlet."""
        return {
            "attempted": self.databases,
            "success": max(0, self.databases - self.failures),
            "failure": self.failures,
            "remove": self.moved + self.removed,
            "start": started,
            "in_sync": self.in_sync,
            "handoffs": self.handoffs - self.moved,  # that are left
            "rows": self.rows,
            "fetched": self.fetched,
            "partly": self.partly,
        }

    def line(self) -> str:
        """The figures that are not zero, for the log."""
        shown = {f.name: getattr(self, f.name) for f in fields(self)}
        shown["seconds"] = round(self.seconds, 2)
        kept = {n: v for n, v in shown.items() if v or n in ("databases", "failures")}
        return " ".join(f"{name}={value}" for name, value in kept.items())
