# SPDX-License-Identifier: Apache-2.0
"""The records of a name that a move to another policy has to send, and what proves that it did.

A version keeps its id and ticks wherever it is. It may have been in the right policy before, and
moved away from there. Its removal there has the next offset, and would void what comes back with
the same time. So it comes back with a greater offset than all that is known of it there, and at
least two greater than its own: each removal of a move was one greater than the version that it
removed. So no earlier removal of a move counts, also one that only a replica has which is away.

Only the removals of moves are passed over so. A client's removal has later ticks, or, of the null
version, the greatest offset of all.

A version is removed in the wrong policy if most devices of the right one have it with that later
time. So two reconcilers that move a version to and fro never remove both copies: the later one is
in neither removal. A version that no device of the right policy knows keeps its time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from container.record_stream import DELETE_MARKER, NULL_ID, RecordHead
from martlet.words.timestamp import Timestamp

#: A version id, and the ticks of its version.
Version = tuple[bytes, int]


def version_of(head: RecordHead) -> Version:
    """The version that a record writes or removes."""
    return head.version_id, head.timestamp.ticks


@dataclass(frozen=True, slots=True)
class Holding:
    """The records that devices of a policy have of a name, by version id: of those that answer.

    A device has one record for each id: the last one. ``asked`` is the number of all devices.
    """

    devices: list[dict[bytes, RecordHead]]
    asked: int

    @property
    def is_complete(self) -> bool:
        """Whether all devices have answered."""
        return len(self.devices) == self.asked

    def is_quorum(self, count: int) -> bool:
        """Whether these are more than half of the devices."""
        return count * 2 > self.asked

    def all_of(self, version_id: bytes) -> list[RecordHead]:
        """The record of each device that has one of an id."""
        return [device[version_id] for device in self.devices if version_id in device]

    def heads(self) -> Iterator[RecordHead]:
        """All records but the removals of moves; equal ones once for each device."""
        for device in self.devices:
            yield from (head for head in device.values() if not head.is_of_move)


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move of the records of a name.

    ``held`` are those that the right policy has, or that do not count any more beside its records.
    ``there`` are the times of its records. ``left`` is the number of versions that it lacks.
    """

    held: list[RecordHead]
    there: dict[tuple[str, int], Timestamp]
    left: int


@dataclass(slots=True)
class Plan:
    """The records of the wrong policy, and the times that versions get in the right one."""

    source: set[RecordHead]
    times: dict[Version, Timestamp]
    lacking: set[RecordHead] = field(default_factory=set)


def make_plan(source: Holding, target: Holding) -> Plan:
    """Compare what two policies have."""
    plan = Plan(set(source.heads()), {})
    for head in plan.source:
        if head.is_version:
            version = version_of(head)
            time = _time(head, target)
            plan.times[version] = max(time, plan.times.get(version, time))
    plan.lacking = plan.source - set(held_of(plan, target))
    return plan


def result(plan: Plan, target: Holding) -> Moved:
    """The result of a plan, by the records that the right policy has now."""
    held = list(held_of(plan, target))
    there: dict[tuple[str, int], Timestamp] = {}
    for head in target.heads():
        key = head.version, head.timestamp.ticks
        there[key] = max(head.timestamp, there.get(key, head.timestamp))
    left = sum(head.is_version for head in plan.source) - sum(head.is_version for head in held)
    return Moved(held, there, left)


def held_of(plan: Plan, target: Holding) -> Iterator[RecordHead]:
    """Those of the records that most devices of the target need no more."""
    nulls = [head for head in plan.source if head.is_null]
    versions = _version_times(plan.source, target) if nulls else []
    for head in plan.source:
        least = plan.times.get(version_of(head), head.timestamp)
        count = sum(
            _counts_over(device.get(head.version_id), head, least)
            or (head.is_null and _is_void_null(head, device, versions))
            for device in target.devices
        )
        if target.is_quorum(count):
            yield head


def _time(head: RecordHead, target: Holding) -> Timestamp:
    """The time of a version in the right policy."""
    time = head.timestamp
    same = [
        known for known in target.all_of(head.version_id) if known.timestamp.ticks == time.ticks
    ]
    is_removed = any(not (known.is_version or known.is_of_move) for known in same)
    if is_removed or (not same and target.is_complete):
        return time  # a client's removal of former releases is one greater
    last = max((known.timestamp.offset, known.is_of_move) for known in same) if same else (0, True)
    is_there = last[0] >= time.offset + 2 and not last[1]
    offset = last[0] if is_there else max(last[0], time.offset + 1) + 1
    return Timestamp.from_ticks(time.ticks, offset)


def _counts_over(known: RecordHead | None, head: RecordHead, least: Timestamp) -> bool:
    """Whether a device with a record does not need another one, of the same id.

    :param least: of the same version, this time is needed.
    """
    if known is None or known.is_of_move:
        return False
    one, other = known.timestamp, head.timestamp
    if head.is_null and one.ticks != other.ticks:
        return False  # the other one may be an old version
    if one.ticks == other.ticks and known.is_version and head.is_version:
        return one >= least and known.has_all_of(head)
    return (one, not known.is_version) >= (other, not head.is_version)


def _version_times(source: Iterable[RecordHead], target: Holding) -> list[Timestamp]:
    heads = [*source, *target.heads()]
    return [head.timestamp for head in heads if head.is_version and not head.is_null]


def _is_void_null(
    head: RecordHead, device: dict[bytes, RecordHead], versions: list[Timestamp]
) -> bool:
    """Whether a device has a null version under an id, or a later one in its place.

    It takes no null version that is older than its own, or that a lock voids. The older one does
    not count, unless a version was written in between: then it is an old version. A delete marker
    is never kept as one.
    """
    time = head.timestamp
    ticks = struct.pack(">Q", time.ticks)  # former releases kept it with its offset
    if any(id_[:8] == ticks and not known.is_of_move for id_, known in device.items()):
        return True
    known = device.get(NULL_ID)
    if known is None or known.is_of_move or known.timestamp.ticks == time.ticks:
        return False
    last = known.timestamp
    if head.kind == DELETE_MARKER:
        return time < last
    # A removal of the null version hides older versions, with a marker of the same ticks.
    between = (time < version and version.ticks < last.ticks for version in versions)
    return time < last and not any(between)
