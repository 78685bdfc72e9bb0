# SPDX-License-Identifier: Apache-2.0
"""The passes of a replicator over all databases of this host."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from martlet.http.backend_client import BackendClient
from martlet.http.response import HTTPException
from martlet.log import fields, get_logger
from martlet.recon.cache import write_figures
from martlet.service.disk_calls import DiskStuck, on_disk
from replicator.figures import Figures
from replicator.options import ReplicatorOptions
from replicator.pace import Pace
from replicator.peer import PeerError, missing_at
from replicator.quiet import Quiet
from replicator.replication import Replication
from replicator.walk import Held, databases_on, local_devices
from ring.devices import Device
from ring.errors import RingError
from ring.ring import Node, Ring
from storage.concurrency import for_each
from storage.database_files import clear_set_aside
from storage.fingerprint import fingerprint

#: Most databases that a peer is asked about at once.
ASKED_AT_ONCE = 1000


@dataclass(frozen=True)
class Selection:
    """The devices and partitions of a pass; empty: all."""

    devices: Collection[str] = ()
    partitions: Collection[int] = ()


class Passes:
    """The passes over the databases of one kind, ``account`` or ``container``."""

    def __init__(
        self,
        kind: str,
        options: ReplicatorOptions,
        ring: Ring,
        port: int,
        client: BackendClient,
        replication: Replication,
        usable_path: Callable[[str], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``usable_path`` returns the directory of a device, or raises HTTPException."""
        self._kind = kind
        self._options = options
        self._ring = ring
        self._port = port
        self._client = client
        self._replication = replication
        self._usable_path = usable_path
        self._clock = clock
        # A deletion that becomes old changes no file: the database is opened again to reclaim it.
        self._quiet = Quiet(min(options.full_interval, options.reclaim_age))
        self._pace = Pace(options.databases_per_second)
        self._log = get_logger(f"martlet.{kind}.replicator")

    def run_forever(self) -> None:
        """Run a pass in every interval."""
        while True:
            started = time.monotonic()
            try:
                self.run_once()
            except Exception:
                self._log.exception("pass failed")
            time.sleep(max(1.0, self._options.interval - (time.monotonic() - started)))

    def run_once(self, selection: Selection | None = None) -> Figures:
        """Run one pass and return its figures.

        :raises RingError: there is no ring.
        """
        chosen = selection or Selection()
        figures, started, began = Figures(), time.monotonic(), self._clock()
        devices = local_devices(self._ring, self._port)
        if not devices:
            figures.failures += 1
            self._log.error("the ring has no device of this host with port %d", self._port)
        wanted = [d for d in devices if not chosen.devices or d["device"] in chosen.devices]

        def work(device: Device) -> None:
            try:
                self._run_device(device, chosen, figures)
            except (DiskStuck, OSError, HTTPException, RingError) as error:
                figures.failures += 1
                self._log.error(
                    "pass skips a device %s", fields(device=device["device"], error=_text(error))
                )

        for_each(work, wanted, max(1, len(wanted)))
        figures.seconds = time.monotonic() - started
        self._log.info("pass done %s", figures.line())
        if not (chosen.devices or chosen.partitions):  # those of a part would be read as of all
            self._show(figures, began)
        return figures

    def _show(self, figures: Figures, began: float) -> None:
        """Write the figures of a pass for GET /recon/replication/KIND."""
        folder = self._options.recon_cache_path
        if not folder:
            return
        entries = {
            "replication_stats": figures.for_recon(began),
            "replication_time": figures.seconds,
            "replication_last": self._clock(),
        }
        write_figures(folder, self._kind, entries)

    def _run_device(self, device: Device, chosen: Selection, figures: Figures) -> None:
        """
        :raises DiskStuck, OSError: the device does not answer, or fails.
        :raises HTTPException: it is missing, or another one.
        """
        path = self._usable_path(device["device"])
        on_disk(path, clear_set_aside, path)
        quiet: list[Held] = []

        def changed() -> Iterator[Held]:
            partitions = set(chosen.partitions) or None
            for held in databases_on(path, device, f"{self._kind}s", partitions):
                figures.databases += 1
                if self._is_quiet(path, held):
                    quiet.append(held)
                else:
                    self._pace.wait()
                    yield held

        def work(held: Held) -> None:
            self._replicate(path, held, figures)

        for_each(work, changed(), self._options.concurrency)
        missing = self._missing(quiet, figures)
        figures.unchanged += len(quiet) - len(missing)
        figures.in_sync += len(quiet) - len(missing)
        for_each(work, missing, self._options.concurrency)

    def _replicate(self, device_path: str, held: Held, figures: Figures) -> None:
        try:
            mark = on_disk(device_path, fingerprint, held.path, self._clock())
        except FileNotFoundError:
            return  # removed since it was listed
        try:
            is_done = self._replication.replicate(held, figures)
        except Exception:
            figures.failures += 1
            self._log.exception("cannot replicate a database %s", fields(path=held.path))
            is_done = False
        figures.in_sync += is_done
        self._quiet.remember(held.path, mark if is_done else None, self._clock())

    def _is_quiet(self, device_path: str, held: Held) -> bool:
        """Whether a database need not be opened: it is unchanged, and lies on a primary."""
        if held.partition >= self._ring.partition_count:
            return False
        primaries = self._ring.get_part_nodes(held.partition)
        if held.device["id"] not in {node["id"] for node in primaries}:
            return False
        try:
            return on_disk(device_path, self._quiet.has, held.path, self._clock())
        except FileNotFoundError:
            return False

    def _missing(self, quiet: list[Held], figures: Figures) -> list[Held]:
        """The unchanged databases that a peer does not have any more."""
        by_peer: dict[int, tuple[Node, list[Held]]] = {}
        for held in quiet:
            for node in self._ring.get_part_nodes(held.partition):
                if node["id"] != held.device["id"]:
                    by_peer.setdefault(node["id"], (node, []))[1].append(held)
        found: dict[str, Held] = {}

        def ask(node: Node, group: list[Held]) -> None:
            try:
                names = missing_at(self._client, node, [(h.partition, h.name) for h in group])
            except PeerError as error:
                figures.failures += 1
                self._log.warning("cannot ask a peer: %s", error)
                return
            # A server that cannot tell is asked about each database in its own exchange.
            found.update({h.path: h for h in group if names is None or h.name in names})

        groups = [
            (node, held[start : start + ASKED_AT_ONCE])
            for node, held in by_peer.values()
            for start in range(0, len(held), ASKED_AT_ONCE)
        ]
        for_each(lambda group: ask(*group), groups, self._options.concurrency)
        return list(found.values())


def _text(error: Exception) -> str:
    if isinstance(error, HTTPException):
        return f"{error.response.status}"
    return str(error)
