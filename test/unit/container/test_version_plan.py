"""Moves of versions between policies, to and fro: reconcilers disagree, and replicas are away.

Each policy has three devices in memory, which follow the order of writes of the object server.
One of the versions may be the null version. Otherwise there are DELETEs without versioning.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field, replace
from itertools import permutations

import pytest

from container.record_stream import DELETE_MARKER, PUT, TOMBSTONE, RecordHead
from container.version_plan import Holding, Moved, Plan, make_plan, result, version_of
from martlet.words.timestamp import Timestamp

GOLD, SILVER = 0, 1
NULL = bytes(16)
#: The orders of the three steps of each of two reconcilers, by the policy that each empties.
ORDERS = sorted(set(permutations((GOLD, GOLD, GOLD, SILVER, SILVER, SILVER))))
#: The offset of a client's removal of the null version, which has the ticks of that.
REMOVED = 1 << 48
Device = dict[bytes, RecordHead]


def at(ticks: int, offset: int = 0) -> Timestamp:
    return Timestamp.from_ticks(ticks, offset)


def id_of(ticks: int) -> bytes:
    return struct.pack(">QQ", ticks, 0)


def hidden(ticks: int) -> RecordHead:
    """The record that hides what is older than a DELETE."""
    id_ = struct.pack(">QQ", 0xC0 << 56 | ticks, 0)
    return RecordHead(DELETE_MARKER, id_, at(ticks), 1, False, at(ticks), at(ticks))


def is_plain_delete(head: RecordHead) -> bool:
    """Whether a record is a DELETE of a name that had no versions there."""
    is_removal = head.is_null and not head.is_version and not head.is_of_move
    return is_removal and head.timestamp.offset < REMOVED


def order_of(head: RecordHead) -> tuple[Timestamp, bool]:
    return head.timestamp, not head.is_version


def take(device: Device, head: RecordHead) -> None:
    """Store a record, if it counts more than the one of its id.

    A DELETE hides older versions, whichever comes first.
    """
    last = device.get(NULL)
    has_versions = any(version_id != NULL for version_id in device)
    deleted: RecordHead | None = None
    if has_versions and is_plain_delete(head):
        deleted = head if last is None or order_of(head) > order_of(last) else None
    elif last and not has_versions and is_plain_delete(last) and head.is_version:
        deleted = last if not head.is_null and order_of(last) > order_of(head) else None
    if deleted is not None:
        store(device, hidden(deleted.timestamp.ticks))
    store(device, head)


def store(device: Device, head: RecordHead) -> None:
    known = device.get(head.version_id)
    wins = known is None or order_of(head) > order_of(known)
    if wins:
        device[head.version_id] = head
    if known is None or not (known.is_version and head.is_version):
        return
    other = known if wins else head
    if not device[head.version_id].has_all_of(other):  # later metadata outlive
        device[head.version_id] = posted(device[head.version_id], other.metadata_at)


def posted(head: RecordHead, time: Timestamp) -> RecordHead:
    return replace(head, metadata_at=time)


def current(device: Device) -> bytes | None:
    """The id of the current version of a device."""
    live = [head for head in device.values() if head.is_version]
    newest = max(live, key=lambda head: (head.timestamp, head.version_id), default=None)
    return newest.version_id if newest and newest.kind == PUT else None


def written(version_id: bytes, time: Timestamp) -> RecordHead:
    return RecordHead(PUT, version_id, time, 1, False, time, time)


@dataclass
class Reconciler:
    """A reconciler between two steps of a move."""

    source: int
    plan: Plan | None = None
    removals: list[RecordHead] = field(default_factory=list)


class Cluster:
    """Devices of two policies, some of which are away."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.devices: list[list[Device]] = [[{}, {}, {}], [{}, {}, {}]]
        self.away: list[int | None] = [None, None]
        self.policy = GOLD
        self.ticks = 100
        self.kept: dict[bytes, tuple[Timestamp, Timestamp]] = {}  # acknowledged: time, last POST
        self.removed: set[bytes] = set()
        self.has_deletes = rng.randrange(2) == 0  # and no null version
        self.deleted_at = 0
        self.reconcilers = [Reconciler(GOLD), Reconciler(SILVER), Reconciler(SILVER)]

    def up(self, policy: int) -> list[Device]:
        return [d for n, d in enumerate(self.devices[policy]) if n != self.away[policy]]

    def write(self, policy: int) -> None:
        self.ticks += 1
        if len(self.kept) + len(self.removed) > 5:
            return
        has_null = self.has_deletes or NULL in self.kept or NULL in self.removed
        version_id = id_of(self.ticks) if has_null else NULL
        for device in self.up(policy):
            take(device, written(version_id, at(self.ticks)))
        self.kept[version_id] = at(self.ticks), at(self.ticks)

    def delete(self, policy: int) -> None:
        """A DELETE without versioning. Where there are versions, it hides them."""
        self.ticks += 1
        time = at(self.ticks)
        marker = RecordHead(DELETE_MARKER, NULL, time, 1, False, time, time)
        for device in self.up(policy):
            has_versions = any(version_id != NULL for version_id in device)
            take(device, marker if has_versions else RecordHead(TOMBSTONE, NULL, time, 1))
        self.deleted_at = self.ticks

    @property
    def current(self) -> bytes | None:
        """The id of the version that is to be current."""
        newest = max(self.kept, key=lambda version_id: self.kept[version_id][0], default=None)
        if newest is None or self.kept[newest][0] < at(self.deleted_at):
            return None
        return newest

    def choose(self) -> bytes | None:
        """A version that most devices of the policy have; time goes on."""
        seen = [v for v in self.kept if self.count(self.policy, v) > 1]
        if not seen:
            return None
        self.ticks += 1
        return self.rng.choice(seen)

    def remove(self) -> None:
        """A client removes a version that it sees."""
        version_id = self.choose()
        if version_id is None:
            return
        time = at(self.ticks)
        if version_id == NULL:
            time = at(self.kept[NULL][0].ticks, REMOVED)
        for device in self.up(self.policy):
            take(device, RecordHead(TOMBSTONE, version_id, time, 1))
        del self.kept[version_id]
        self.removed.add(version_id)

    def post(self) -> None:
        """A client changes the metadata of a version that most devices of a policy have."""
        version_id = self.choose()
        if version_id is None:
            return
        for device in self.up(self.policy):
            known = device.get(version_id)
            if known is not None and known.is_version:
                device[version_id] = posted(known, at(self.ticks))
        self.kept[version_id] = self.kept[version_id][0], at(self.ticks)

    def count(self, policy: int, version_id: bytes) -> int:
        """The number of devices that have a version and are not away."""
        found = (device.get(version_id) for device in self.up(policy))
        return sum(head is not None and head.is_version for head in found)

    def replicate(self, policy: int) -> None:
        up = self.up(policy)
        one, other = self.rng.sample(up, 2)
        for head in list(one.values()):
            take(other, head)

    def holding(self, policy: int) -> Holding:
        return Holding([dict(device) for device in self.up(policy)], 3)

    def step(self, who: Reconciler, until: int) -> None:
        """Go on with a move: read, then copy, then remove. Any step may end in the middle."""
        target = 1 - who.source
        if who.plan is None and not who.removals:
            who.plan = make_plan(self.holding(who.source), self.holding(target))
        elif who.plan is not None:
            for head in sorted(who.plan.lacking, key=lambda head: head.timestamp)[:until]:
                time = who.plan.times.get(version_of(head), head.timestamp)
                for device in self.up(target):
                    take(device, moved_to(head, time))
            done = result(who.plan, self.holding(target))
            who.removals = [head for head in done.held if head.is_version]
            who.plan = None
        else:
            for device in self.up(who.source)[:until]:
                for head in who.removals:
                    known = device.get(head.version_id)
                    if known and known.is_version and known.metadata_at > head.metadata_at:
                        continue
                    removal = at(head.timestamp.ticks, head.timestamp.offset + 1)
                    take(device, RecordHead(TOMBSTONE, head.version_id, removal, 1, True))
            who.removals = []

    def settle(self) -> None:
        self.away = [None, None]
        for _ in range(4):
            for policy in (GOLD, SILVER):
                for _ in range(20):
                    self.replicate(policy)
            who = Reconciler(1 - self.policy)
            for _ in range(3):
                self.step(who, 100)


def moved_to(head: RecordHead, time: Timestamp) -> RecordHead:
    if not head.is_version:
        return head
    metadata_at = time if head.metadata_at == head.timestamp else head.metadata_at
    return replace(head, timestamp=time, metadata_at=metadata_at, type_at=time)


def test_a_null_version_outlasts_a_removal_that_only_an_absent_device_has() -> None:
    """The removal is of an earlier move. Replication brings it to the others."""
    null = written(NULL, at(102))
    source = Holding([{NULL: null}, {NULL: null}, {NULL: null}], 3)
    plan = make_plan(source, Holding([{}, {}], 3))
    assert plan.times == {(NULL, 102): at(102, 2)}
    device = {NULL: moved_to(null, at(102, 2))}
    take(device, RecordHead(TOMBSTONE, NULL, at(102, 1), 1, True))
    assert result(plan, Holding([device, device], 3)) == Moved([null], {("", 102): at(102, 2)}, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_two_reconcilers_never_remove_both_copies_of_a_null_version(order: tuple[int, ...]) -> None:
    """Both policies have it. Each reconciler believes that the other policy is the wrong one."""
    cluster = Cluster(random.Random(0))
    cluster.ticks += 1
    cluster.kept[NULL] = at(101), at(101)
    for device in cluster.up(GOLD) + cluster.up(SILVER):
        take(device, written(NULL, at(101)))
    reconcilers = [Reconciler(GOLD), Reconciler(SILVER)]
    for source in order:
        cluster.step(reconcilers[source], 100)
    cluster.settle()
    assert all(device[NULL].is_version for device in cluster.devices[GOLD])
    assert not any(device[NULL].is_version for device in cluster.devices[SILVER])


@pytest.mark.parametrize("seed", range(400))
def test_nothing_is_lost_and_nothing_comes_back(seed: int) -> None:
    """Reconcilers know different policies of the container, which the real ones ask for twice."""
    rng = random.Random(seed)
    cluster = Cluster(rng)
    for _ in range(rng.choice((12, 120))):  # after a few steps some devices have nothing yet
        match rng.randrange(10):
            case 0:
                cluster.write(rng.choice((GOLD, SILVER)))
            case 1 if rng.randrange(2):
                cluster.remove()
            case 1:
                cluster.post()
            case 2 if cluster.has_deletes and rng.randrange(2):
                cluster.delete(rng.choice((GOLD, SILVER)))
            case 2:
                cluster.policy = rng.choice((GOLD, SILVER))
            case 3:
                cluster.away[rng.randrange(2)] = rng.choice((None, 0, 1, 2))
            case 4 | 5:
                cluster.replicate(rng.randrange(2))
            case _:
                cluster.step(rng.choice(cluster.reconcilers), rng.choice((1, 2, 100)))
    cluster.settle()
    for device in cluster.devices[cluster.policy]:
        versions = {head.version_id for head in device.values() if head.kind == PUT}
        assert versions == cluster.kept.keys()
        assert current(device) == cluster.current
    for device in cluster.devices[1 - cluster.policy]:
        assert not any(head.is_version for head in device.values())


@pytest.mark.parametrize("removed_offset", [4, REMOVED])
def test_a_clients_removal_wins_over_a_move(removed_offset: int) -> None:
    """Former releases gave it the next offset, not the greatest one.

    One of the devices that have it is away. The third one has not got it yet.
    """
    removal = RecordHead(TOMBSTONE, NULL, at(102, removed_offset), 1)
    source = Holding([{NULL: written(NULL, at(102, 3))}], 3)
    target = Holding([{NULL: removal}, {}], 3)
    plan = make_plan(source, target)
    assert plan.times[NULL, 102] < removal.timestamp


def test_an_old_null_delete_marker_does_not_count() -> None:
    """It is older than a version and a null version, and no server keeps it under an id."""
    times = at(101), at(103)
    old, last = (RecordHead(DELETE_MARKER, NULL, time, 1, False, time, time) for time in times)
    version = written(id_of(102), at(102))
    target = Holding([{NULL: last, version.version_id: version}] * 3, 3)
    plan = make_plan(Holding([{NULL: old}], 3), target)
    assert not plan.lacking
    assert result(plan, target).left == 0


def test_a_null_version_that_former_releases_kept_is_not_sent_again() -> None:
    """Its id had the offset of the null version; clients may have removed it by that id."""
    null = written(NULL, at(102, 3))
    version = written(id_of(103), at(103))
    for kind in (PUT, TOMBSTONE):
        kept = RecordHead(kind, struct.pack(">QQ", 102, 3), at(105), 1)
        later = written(NULL, at(104))
        device = {NULL: later, kept.version_id: kept, version.version_id: version}
        plan = make_plan(Holding([{NULL: null}], 3), Holding([device] * 3, 3))
        assert not plan.lacking
