# SPDX-License-Identifier: Apache-2.0
"""The builder: devices and assignments over time, and the operations that change them.

It has state and no files: ``builder_file`` keeps it, ``file_format`` writes the ring made from it.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from ring.balance import Balancer
from ring.device_list import (
    DeviceList,
    check_enough,
    check_others_have_weight,
    check_unique,
    device_of,
    insert,
    matching,
    present,
)
from ring.devices import Device, checked_device, format_device, without_builder_keys
from ring.dispersion import Graph, measure
from ring.draw import Progress
from ring.errors import BuilderError
from ring.file_format import PART_POWER_MAX, REPLICAS_MAX, RingData
from ring.move_ages import HOURS_MAX, SECONDS_PER_HOUR, aged, may_move, never_moved
from ring.plan import row_lengths
from ring.shares import Shares, make_shares
from ring.table import Table, count_differences, id_bytes, no_device, remove_devices, resized
from ring.table_check import check_table
from ring.weight_balance import balance_by_device

MIN_PART_HOURS_MAX = HOURS_MAX


@dataclass(frozen=True, slots=True)
class RebalanceResult:
    """The result of a rebalance. ``balance`` and ``dispersion`` are percentages; 0 is perfect."""

    moved_partitions: int
    changed_replicas: int
    removed_devices: int
    balance: float
    dispersion: float


@dataclass(slots=True)
class RingBuilder:
    """The state of a ring that can change. An operation either succeeds or changes nothing."""

    part_power: int
    replicas: float
    min_part_hours: int
    devs: DeviceList = field(default_factory=list)
    table: Table = field(default_factory=list)
    version: int = 0
    devs_changed: bool = False
    overload: float = 0.0
    dispersion: float | None = 0.0
    dispersion_graph: Graph = field(default_factory=dict)
    removed_ids: list[int] = field(default_factory=list)
    hours_since_move: bytearray = field(default_factory=bytearray)
    moves_epoch: int = 0  # Unix time that hours_since_move counts up to
    gather_start: int = 0  # not used here, kept for OpenStack Swift
    next_part_power: int | None = None
    builder_id: str | None = None

    @classmethod
    def create(cls, part_power: int, replicas: float, min_part_hours: int) -> RingBuilder:
        """A ring of 2 ** part_power partitions without devices.

        :raises BuilderError: a number is out of range.
        """
        if not 0 <= part_power <= PART_POWER_MAX:
            raise BuilderError(f"part_power must be 0 to {PART_POWER_MAX}, not {part_power}")
        if not 1 <= replicas <= REPLICAS_MAX:
            raise BuilderError(f"replicas must be 1 to {REPLICAS_MAX}, not {replicas:g}")
        if not 0 <= min_part_hours <= MIN_PART_HOURS_MAX:
            raise BuilderError(
                f"min_part_hours must be 0 to {MIN_PART_HOURS_MAX}, not {min_part_hours}"
            )
        return cls(
            part_power=part_power,
            replicas=float(replicas),
            min_part_hours=min_part_hours,
            hours_since_move=bytearray(1 << part_power),
            builder_id=uuid.uuid4().hex,
        )

    @classmethod
    def from_ring(cls, ring: RingData, min_part_hours: int) -> RingBuilder:
        """A builder for a ring whose own builder is lost. The times of the last moves are lost too.

        :raises BuilderError: ``min_part_hours`` is out of range, or nothing is assigned.
        """
        if not ring.table:
            raise BuilderError("the ring assigns no partition to a device")
        builder = cls.create(32 - ring.part_shift, ring.replica_count, min_part_hours)
        held = Counter(chain.from_iterable(ring.table))
        for device in ring.devs:
            if device is not None:
                device = cast(Device, {**device, "parts": held[device["id"]], "parts_wanted": 0})
            builder.devs.append(device)
        builder.table = [row[:] for row in ring.table]
        builder.version = ring.version or 0
        builder.next_part_power = ring.next_part_power
        builder.dispersion, builder.dispersion_graph = measure(
            list(builder.devices()), builder.table, builder.partitions
        )
        builder.pretend_min_part_hours_passed()
        return builder

    @property
    def partitions(self) -> int:
        """2 ** part_power."""
        return 1 << self.part_power

    @property
    def dev_id_bytes(self) -> int:
        """Width of a device id in the table."""
        if self.table:
            return max(row.itemsize for row in self.table)
        return id_bytes(len(self.devs) - 1)

    def devices(self) -> Iterator[Device]:
        """Every device, those marked for removal included, by id."""
        return present(self.devs)

    # --- devices ------------------------------------------------------------------------------

    def add_device(self, raw: Mapping[str, Any]) -> Device:
        """Adds a device under the lowest free id, or ``raw["id"]``; rebalance will use it.

        :raises DeviceError: a field is wrong.
        :raises BuilderError: the id, or the address, port and name, are taken.
        """
        self._refuse_during_power_change("add devices")
        device = checked_device(raw)
        device["parts"] = 0
        device["parts_wanted"] = 0
        insert(self.devs, device)
        self._changed()
        return device

    def remove_device(self, dev_id: int) -> None:
        """Marks a device: the next rebalance moves everything off it and forgets it.

        :raises BuilderError: no such device.
        """
        self._refuse_during_power_change("remove devices")
        device = device_of(self.devs, dev_id)
        check_others_have_weight(self.devs, dev_id)
        device["weight"] = 0.0
        if dev_id not in self.removed_ids:
            self.removed_ids.append(dev_id)
        self._changed()

    def set_weight(self, dev_id: int, weight: float) -> None:
        """Changes the share of a device, relative to the others; 0 drains it.

        :raises BuilderError: no such device, or it is marked for removal.
        :raises DeviceError: not a finite number of at least 0.
        """
        device = device_of(self.devs, dev_id)
        if dev_id in self.removed_ids:
            raise BuilderError(f"{format_device(device)} is marked for removal")
        checked = checked_device({**device, "weight": weight})
        if not checked["weight"]:
            check_others_have_weight(self.devs, dev_id)
        device["weight"] = checked["weight"]
        self._changed()

    def set_place(self, dev_id: int, *, region: int | None = None, zone: int | None = None) -> None:
        """Moves a device to another failure domain; the next rebalance spreads accordingly.

        :raises BuilderError: no such device.
        :raises DeviceError: a number is out of range.
        """
        device = device_of(self.devs, dev_id)
        place = {"region": region, "zone": zone}
        changed = {key: value for key, value in place.items() if value is not None}
        device.update(cast(Any, _fields_of(checked_device({**device, **changed}), changed)))
        self._changed()

    def set_info(self, dev_id: int, changes: Mapping[str, Any]) -> None:
        """Changes address, name or text of a device; no partition moves for it.

        :raises BuilderError: no such device, or another one has this address, port and name.
        :raises DeviceError: a field is wrong.
        """
        device = device_of(self.devs, dev_id)
        changed = checked_device({**device, **changes})
        check_unique(self.devs, changed)
        device.update(cast(Any, _fields_of(changed, changes)))
        self.version += 1

    def set_replicas(self, replicas: float) -> None:
        """:raises BuilderError: out of range."""
        if not 1 <= replicas <= REPLICAS_MAX:
            raise BuilderError(f"replicas must be 1 to {REPLICAS_MAX}, not {replicas:g}")
        before = row_lengths(self.replicas, self.partitions)
        self.devs_changed |= before != row_lengths(replicas, self.partitions)
        self.replicas = float(replicas)
        self.version += 1

    def set_overload(self, overload: float) -> None:
        """:raises BuilderError: negative or no number."""
        if not (math.isfinite(overload) and overload >= 0):
            raise BuilderError(f"overload must be a number of at least 0, not {overload:g}")
        self.overload = overload
        self.devs_changed = True
        self.version += 1

    def set_min_part_hours(self, hours: int) -> None:
        """:raises BuilderError: out of range."""
        if not 0 <= hours <= MIN_PART_HOURS_MAX:
            raise BuilderError(f"min_part_hours must be 0 to {MIN_PART_HOURS_MAX}, not {hours}")
        self.min_part_hours = hours

    def pretend_min_part_hours_passed(self) -> None:
        """Lets every partition move at the next rebalance."""
        self.moves_epoch = 0
        self.hours_since_move = never_moved(self.partitions)

    def required_overload(self) -> float:
        """The overload with which every partition is spread as far as possible."""
        return self._shares().required_overload

    def search(self, wanted: Mapping[str, object]) -> list[Device]:
        """Devices whose fields equal the wanted values; ``meta`` need only contain it."""
        return matching(self.devs, wanted)

    # --- rebalance ----------------------------------------------------------------------------

    def rebalance(
        self,
        seed: str | None = None,
        now: Callable[[], float] = time.time,
        progress: Progress | None = None,
    ) -> RebalanceResult:
        """Assigns every partition with the fewest moves. The same seed gives the same result.

        ``progress`` is called from time to time with the work done and the total.

        :raises BuilderError: too few devices with weight.
        """
        self._refuse_during_power_change("rebalance")
        check_enough(self.devs, self.replicas)
        before = [row[:] for row in self.table]
        self._age_moves(now)
        width = max(self.dev_id_bytes, id_bytes(len(self.devs) - 1))
        lengths = row_lengths(self.replicas, self.partitions)
        self.table = resized(self.table, lengths, width)
        removed = self._forget_removed(no_device(width))
        balancer = Balancer(
            list(self.devices()),
            self.table,
            no_device(width),
            self._shares().target(self.overload),
            may_move(self.hours_since_move, self.min_part_hours),
            random.Random(seed),
            progress,
        )
        balancer.run()
        for partition in balancer.moved:
            self.hours_since_move[partition] = 0
        if balancer.moved:  # no fraction of an hour before the move counts as time after it
            self.moves_epoch = int(now())
        self._count_parts(balancer)
        devices = list(self.devices())
        self.dispersion, self.dispersion_graph = measure(devices, self.table, self.partitions)
        self.devs_changed = False
        self.version += 1
        return RebalanceResult(
            moved_partitions=len(balancer.moved),
            changed_replicas=count_differences(before, self.table),
            removed_devices=removed,
            balance=self.balance(),
            dispersion=self.dispersion,
        )

    def balance_by_device(self) -> dict[int, float]:
        """Percent that each device holds over the share of its weight; negative if under it."""
        return balance_by_device(list(self.devices()), self.partitions, self.replicas)

    def balance(self) -> float:
        """The worst of ``balance_by_device``; 0 for a ring without devices."""
        return max((abs(value) for value in self.balance_by_device().values()), default=0.0)

    def seconds_until_move(self, now: Callable[[], float] = time.time) -> int:
        """Seconds until partitions moved by the last rebalance may move again."""
        elapsed = int(now() - self.moves_epoch)
        return max(0, self.min_part_hours * SECONDS_PER_HOUR - elapsed)

    def validate(self) -> None:
        """Checks that each partition has its replicas on as many different devices.

        :raises BuilderError: names the first partition that has not.
        """
        check_table(self.table, {device["id"]: device for device in self.devices()})

    def ring_data(self) -> RingData:
        """The ring as servers read it."""
        return RingData(
            devs=[dev and without_builder_keys(dev) for dev in self.devs],
            part_shift=32 - self.part_power,
            table=[row[:] for row in self.table],
            version=self.version,
            next_part_power=self.next_part_power,
        )

    # --- helpers ------------------------------------------------------------------------------

    def _changed(self) -> None:
        self.devs_changed = True
        self.version += 1

    def _refuse_during_power_change(self, what: str) -> None:
        if self.next_part_power is not None:
            raise BuilderError(
                f"the partition power is being raised: finish that first, then {what}"
            )

    def _shares(self) -> Shares:
        check_enough(self.devs, self.replicas)
        # The rows may hold a little less than a fraction of a replica.
        rows = row_lengths(self.replicas, self.partitions)
        return make_shares(self.devices(), sum(rows) / self.partitions)

    def _age_moves(self, now: Callable[[], float]) -> None:
        """Adds the whole hours since the last call to the age of every partition."""
        seconds = int(now())
        hours = (seconds - self.moves_epoch) // SECONDS_PER_HOUR
        if hours > 0:
            self.hours_since_move = aged(self.hours_since_move, hours)
            self.moves_epoch = seconds

    def _forget_removed(self, no_device_id: int) -> int:
        """Deletes removed devices from the table and the list of devices; returns their number."""
        gone = set(self.removed_ids)
        remove_devices(self.table, gone, no_device_id)
        for dev_id in gone:
            self.devs[dev_id] = None
        while self.devs and self.devs[-1] is None:
            self.devs.pop()
        self.removed_ids.clear()
        return len(gone)

    def _count_parts(self, balancer: Balancer) -> None:
        held = Counter(chain.from_iterable(self.table))
        for device in self.devices():
            device["parts"] = held[device["id"]]
            device["parts_wanted"] = balancer.quota(device) - held[device["id"]]


def _fields_of(device: Device, keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in device.items() if key in set(keys)}
