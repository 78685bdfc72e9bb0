# SPDX-License-Identifier: Apache-2.0
"""The passes of the sharder over the container databases of this host.

Each primary gives its own rows to shards. The first primary of a partition decides for all of them.
A pass remembers nothing but which databases have no work: after a kill the next pass goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from container.database import ContainerDatabase
from container.info import ContainerInfo
from container.shard_range import (
    CREATED_STATES,
    FOUND,
    SHARDED,
    SHARDING,
    SHRINKING,
    ShardRange,
    walk,
)
from container.shard_rows import SHARDED as IS_SHARDED
from container.shard_rows import UNSHARDED, Sharding, is_shard, read_sharding
from martlet.http.response import HTTPException
from martlet.log import fields, get_logger
from martlet.recon.cache import write_figures
from martlet.service.disk_calls import DiskStuck, on_disk
from replicator.pace import Pace
from replicator.sharder.figures import SharderFigures
from replicator.sharder.giving import Giving
from replicator.sharder.options import SharderOptions
from replicator.sharder.plan import Plan
from replicator.sharder.requests import ShardError
from replicator.walk import Held, databases_on, local_devices
from ring.devices import Device
from ring.ring import Ring
from storage.concurrency import for_each
from storage.errors import DatabaseError, DatabaseMissing
from storage.fingerprint import fingerprint


class Sharder:
    """The passes over the containers of this host."""

    def __init__(
        self,
        options: SharderOptions,
        ring: Ring,
        port: int,
        usable_path: Callable[[str], str],
        open_database: Callable[[str], ContainerDatabase],
        plan: Plan,
        giving: Giving,
    ) -> None:
        """``usable_path`` returns the directory of a device, or raises HTTPException."""
        self.interval = options.interval
        self._options = options
        self._ring = ring
        self._port = port
        self._usable_path = usable_path
        self._open_database = open_database
        self._plan = plan
        self._giving = giving
        self._pace = Pace(options.containers_per_second)
        # Fingerprints of databases without work, which need not be opened; by hash of the path.
        self._done: dict[int, int] = {}
        self._log = get_logger("martlet.container.sharder")

    def run_once(self, devices: Collection[str] = ()) -> SharderFigures:
        """Run one pass, over all devices or some, and return its figures.

        :raises RingError: there is no ring.
        """
        figures, started = SharderFigures(), time.monotonic()
        local = local_devices(self._ring, self._port)
        if not local:
            figures.failures += 1
            self._log.error("the ring has no device of this host with port %d", self._port)
        wanted = [device for device in local if not devices or device["device"] in devices]
        for_each(lambda device: self._run_device(device, figures), wanted, max(1, len(wanted)))
        figures.seconds = time.monotonic() - started
        shown = {name: round(value, 2) for name, value in figures.as_dict().items() if value}
        self._log.info("pass done %s", fields(**shown))
        if not devices and self._options.recon_cache_path:
            entries = {
                "sharding_stats": figures.for_recon(),
                "sharding_time": figures.seconds,
                "sharding_last": time.time(),
            }
            write_figures(self._options.recon_cache_path, "container", entries)
        return figures

    def _run_device(self, device: Device, figures: SharderFigures) -> None:
        try:
            path = self._usable_path(device["device"])
            for held in databases_on(path, device, "containers", None):
                figures.containers += 1
                place = self._place_of(held)
                if place is not None:
                    self._look_at(path, held, place == 0, figures)
        except (DiskStuck, OSError, HTTPException) as error:
            figures.failures += 1
            words = error.response.status if isinstance(error, HTTPException) else error
            self._log.error("pass skips a device %s", fields(device=device["device"], error=words))

    def _place_of(self, held: Held) -> int | None:
        """The number of this device among the primaries; None if it is none of them."""
        if held.partition >= self._ring.partition_count:
            return None
        ids = [node["id"] for node in self._ring.get_part_nodes(held.partition)]
        return ids.index(held.device["id"]) if held.device["id"] in ids else None

    def _look_at(
        self, device_path: str, held: Held, is_first: bool, figures: SharderFigures
    ) -> None:
        try:
            mark = on_disk(device_path, fingerprint, held.path, time.time())
        except FileNotFoundError:
            return  # removed since it was listed
        if mark is not None and self._done.get(hash(held.path)) == mark:
            return
        self._pace.wait()
        database = self._open_database(held.path)
        try:
            has_work = self._visit(database, is_first, figures)
        except (ShardError, DatabaseError) as error:
            if not isinstance(error, DatabaseMissing):
                figures.failures += 1
                self._log.warning("sharding goes on later %s", fields(path=held.path, error=error))
            has_work = True
        except Exception:
            figures.failures += 1
            self._log.exception("cannot shard a container %s", fields(path=held.path))
            has_work = True
        finally:
            database.close()
        if mark is not None and not has_work:
            self._done[hash(held.path)] = mark

    def _visit(self, database: ContainerDatabase, is_first: bool, figures: SharderFigures) -> bool:
        """Do the next work on a container; return whether some is left.

        :raises ShardError, DatabaseError: it is to be repeated.
        """
        info = database.info()
        sharding = database.read(read_sharding)
        figures.shards += is_shard(info.raw_metadata)
        if sharding is None or not sharding.ranges:
            figures.unsharded += 1
            if not (is_first and self._plan.is_to_be_sharded(info, sharding)):
                return False
            self._plan.find(database, info, figures)
            sharding = database.read(read_sharding)
        if sharding is None or (sharding.own.deleted and info.sharding_state == IS_SHARDED):
            return self._clear(database, figures)
        if is_first and any(item.state == FOUND for item in sharding.ranges):
            self._plan.create(database, info, sharding, figures)
            self._plan.tell_replicas(database, info)
        self._give(database, figures)
        self._clear(database, figures)
        sharding = database.read(read_sharding)
        if sharding is None:
            return False
        figures.sharded += sharding.state == IS_SHARDED
        figures.sharding += sharding.state not in (IS_SHARDED, UNSHARDED)
        has_work = sharding.state != IS_SHARDED
        if is_first:
            has_work = self._lead(database, info, sharding, figures) or has_work
        return has_work

    def _give(self, database: ContainerDatabase, figures: SharderFigures) -> None:
        """Give the next ranges of a container to their shards.

        :raises ShardError, DatabaseError: as for ``_visit``.
        """
        for _ in range(self._options.cleave_batch_size):
            sharding = database.read(read_sharding)
            target = None if sharding is None else next_target(sharding)
            if sharding is None or target is None:
                return
            is_shrinking = sharding.own.state == SHRINKING
            self._giving.give(database, target, is_shrinking, figures)

    def _clear(self, database: ContainerDatabase, figures: SharderFigures) -> bool:
        """Remove rows that are in shards; return whether there is work left, which is never.

        :raises ShardError, DatabaseError: as for ``_visit``.
        """
        sharding = database.read(read_sharding)
        if sharding is not None:
            targets = [item for item in sharding.listed() if item.name != sharding.own.name]
            self._giving.clear(database, targets, figures)
        return False

    def _lead(
        self,
        database: ContainerDatabase,
        info: ContainerInfo,
        sharding: Sharding,
        figures: SharderFigures,
    ) -> bool:
        """The work of the first primary; return whether some is left.

        :raises ShardError, DatabaseError: as for ``_visit``.
        """
        before = figures.active
        is_active = self._plan.activate(database, info, sharding, figures)
        if figures.active > before:
            self._plan.tell_replicas(database, info)
        found = database.read(read_sharding)
        if not is_active or found is None or found.state != IS_SHARDED:
            return True
        if found.own.state in (SHARDING, SHRINKING):
            self._plan.finish(database, info, found, figures)
            self._plan.tell_replicas(database, info)
            return True
        if found.own.state == SHARDED and not found.own.deleted:
            self._plan.shrink(database, info, found, figures)
        return any(item.state == SHRINKING for item in found.ranges)


def next_target(sharding: Sharding) -> ShardRange | None:
    """The next range that this replica has to give; its bounds are those of what is left of it."""
    created = [item for item in sharding.ranges if item.state in CREATED_STATES]
    own = sharding.own
    for item in walk(created, own, own.lower, own.upper):
        if item.name != own.name and not sharding.spans.gave_within(item.lower, item.upper):
            return item
    return None
