# SPDX-License-Identifier: Apache-2.0
"""Look-ups in a ring: the nodes of a name, and its hand-offs; reloads the file while in use."""

from __future__ import annotations

import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import Struct
from typing import NotRequired, cast

from ring.devices import Device, Tier, tiers_of
from ring.errors import RingError, RingFileError
from ring.file_format import RingData, read_ring
from ring.handoffs import handoff_ids
from ring.hashing import HashPath, md5, partition_of

RELOAD_SECONDS = 15.0
# Each takes some 160 bytes.
CACHED_PARTITIONS_MAX = 2**16
CONF_NAME = "martlet.conf"
_first_word = Struct(">I").unpack_from
_POLICY_RING = re.compile(r"object(?:-([1-9][0-9]*))?\.ring\.gz\Z")


class Node(Device):
    """A device in its role for one partition: ``index`` if primary, else ``handoff_index``."""

    index: NotRequired[int]
    handoff_index: NotRequired[int]


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The identity of one state of a file."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _Stamp | None:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return cls(found.st_mtime_ns, found.st_size, found.st_ino)


class _IndexedNodes(dict[int, Node]):
    """Device id -> the device as primary number ``index``; made on first use, then shared."""

    def __init__(self, devs: Sequence[Device | None], index: int) -> None:
        super().__init__()
        self._devs = devs
        self._index = index

    def __missing__(self, dev_id: int) -> Node:
        node = cast(Node, {**_device(self._devs, dev_id), "index": self._index})
        self[dev_id] = node
        return node


class _Snapshot:
    """One loaded ring file; only its caches change, so a look-up cannot see two rings."""

    def __init__(self, data: RingData) -> None:
        if not data.table:
            raise RingFileError("no partition is assigned to a device yet")
        self.data = data
        self.part_shift = data.part_shift
        self.primaries: dict[int, tuple[Node, ...]] = {}
        self._nodes = [_IndexedNodes(data.devs, index) for index in range(len(data.table))]
        self._whole = [row for row in data.table if len(row) == data.partition_count]
        self._short = data.table[len(self._whole) :]
        self._is_three = len(self._whole) == 3 and not self._short

    @cached_property
    def tier_counts(self) -> tuple[int, ...]:
        """The numbers of regions, zones, servers and devices with at least one partition."""
        tiers: list[set[Tier]] = [set(), set(), set(), set()]
        for dev_id in {dev_id for row in self.data.table for dev_id in set(row)}:
            for found, tier in zip(tiers, tiers_of(self.device(dev_id)), strict=True):
                found.add(tier)
        return tuple(len(found) for found in tiers)

    @cached_property
    def partitions_by_device(self) -> Mapping[int, int]:
        """The number of replicas of partitions on each device, by its id."""
        counts: Counter[int] = Counter()
        for row in self.data.table:
            counts.update(row)
        return counts

    def device(self, dev_id: int) -> Device:
        return _device(self.data.devs, dev_id)

    def part_nodes(self, partition: int) -> tuple[Node, ...]:
        """The primaries of a partition, which are then cached."""
        if self._is_three:
            # The fast path for three replicas: without loops it takes a third of the time.
            (row_0, row_1, row_2), (nodes_0, nodes_1, nodes_2) = self._whole, self._nodes
            id_0, id_1, id_2 = row_0[partition], row_1[partition], row_2[partition]
            if id_0 != id_1 and id_1 != id_2 and id_0 != id_2:
                return self._remember(partition, (nodes_0[id_0], nodes_1[id_1], nodes_2[id_2]))
        ids = [row[partition] for row in self._whole]
        ids += [row[partition] for row in self._short if partition < len(row)]
        each_once = dict.fromkeys(ids)
        nodes = tuple(n[dev_id] for n, dev_id in zip(self._nodes, each_once, strict=False))
        return self._remember(partition, nodes)

    def _remember(self, partition: int, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        if len(self.primaries) >= CACHED_PARTITIONS_MAX:
            self.primaries.clear()
        self.primaries[partition] = nodes
        return nodes


def _device(devs: Sequence[Device | None], dev_id: int) -> Device:
    device = devs[dev_id]
    assert device is not None, "read_ring admits assigned devices only"
    return device


class Ring:
    """Look-ups in one ring file.

    A look-up checks the file for changes, at most every ``reload_seconds``. A new ring replaces the
    old one in one assignment. While the new file is damaged or missing, the old ring stays in use,
    with one line in the log for each reason. Node dicts and tuples are shared between calls: do not
    change them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        hash_path: HashPath,
        *,
        reload_seconds: float = RELOAD_SECONDS,
        logger: logging.Logger | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:raises RingFileError: the file is missing, damaged, or assigns no partition."""
        self.path = Path(path)
        self._hash_path = hash_path
        # ASCII salts are joined with a path as text in one step; other salts take the slow path.
        self._is_ascii = hash_path.prefix.isascii() and hash_path.suffix.isascii()
        self._prefix = hash_path.prefix.decode("ascii", "replace")
        self._suffix = hash_path.suffix.decode("ascii", "replace")
        self._reload_seconds = reload_seconds
        self._logger = logger or logging.getLogger("martlet.ring")
        self._clock = clock
        self._stamp = _Stamp.of(self.path)
        # Why the last look could not read the file. The next one tries again.
        self._unread = ""
        self._snapshot = self._load()
        self._next_look = clock() + reload_seconds

    def get_part(self, account: str, container: str | None = None, obj: str | None = None) -> int:
        """The partition of a name.

        :raises ValueError: an object without a container.
        """
        digest = self._hash_path.digest(account, container, obj)
        return partition_of(digest, self._current().data.part_shift)

    def get_nodes(
        self, account: str, container: str | None = None, obj: str | None = None
    ) -> tuple[int, tuple[Node, ...]]:
        """The partition of a name and the nodes that hold it, both from the same ring.

        :raises ValueError: an object without a container.
        """
        # This runs for every request, so it avoids function calls.
        if self._clock() >= self._next_look:
            self._current()
        snapshot = self._snapshot
        if obj and container and self._is_ascii:
            path = f"{self._prefix}/{account}/{container}/{obj}{self._suffix}"
            digest = md5(path.encode()).digest()
        else:
            digest = self._hash_path.digest(account, container, obj)
        partition: int = _first_word(digest)[0] >> snapshot.part_shift
        nodes = snapshot.primaries.get(partition)
        return partition, snapshot.part_nodes(partition) if nodes is None else nodes

    def get_part_nodes(self, partition: int) -> tuple[Node, ...]:
        """The nodes that hold a partition, each once, with its ``index``.

        :raises IndexError: there is no such partition.
        """
        snapshot = self._current()
        return snapshot.primaries.get(partition) or snapshot.part_nodes(_not_negative(partition))

    def get_more_nodes(self, partition: int) -> Iterator[Node]:
        """The hand-off nodes of a partition, best first, each with its ``handoff_index``.

        Every device that holds some partition comes once, except the primaries.

        :raises IndexError: there is no such partition.
        """
        snapshot = self._current()
        primaries = [node["id"] for node in snapshot.part_nodes(_not_negative(partition))]
        ids = handoff_ids(snapshot.data, primaries, partition, snapshot.tier_counts)
        return (
            cast(Node, {**snapshot.device(dev_id), "handoff_index": handoff_index})
            for handoff_index, dev_id in enumerate(ids)
        )

    @property
    def devs(self) -> list[Device | None]:
        """The devices by id; None for a removed one."""
        return self._current().data.devs

    @property
    def partitions_by_device(self) -> Mapping[int, int]:
        """The number of replicas of partitions on each device, by its id; 0 is left out."""
        return self._current().partitions_by_device

    @property
    def partition_count(self) -> int:
        """2 ** ``part_power``."""
        return self._current().data.partition_count

    @property
    def part_power(self) -> int:
        """The number of bits of the hash that make the partition."""
        return 32 - self._current().data.part_shift

    @property
    def replica_count(self) -> float:
        """The replicas of each partition; with a fraction, some have one more than others."""
        return self._current().data.replica_count

    @property
    def version(self) -> int | None:
        """The version, which grows with each change of the builder; None in rings of old tools."""
        return self._current().data.version

    @property
    def next_part_power(self) -> int | None:
        """The next partition power while it is being raised, else None."""
        return self._current().data.next_part_power

    def _current(self) -> _Snapshot:
        now = self._clock()
        if now >= self._next_look:
            self._next_look = now + self._reload_seconds
            self._look_for_change()
        return self._snapshot

    def _look_for_change(self) -> None:
        stamp, before = _Stamp.of(self.path), self._stamp
        unread, self._unread = self._unread, ""
        if stamp == before:
            if unread:
                self._logger.info(
                    "event=ring_restored path=%s: the file of the ring in use", self.path
                )
            return
        # Taken before reading: the next check detects a file that is replaced in between. The stamp
        # of a damaged file is kept as well, so it is reported once and not at every check.
        self._stamp = stamp
        try:
            self._snapshot = self._load()
        except RingFileError as error:
            # The disk, or a want of descriptors, may be the reason, and the file good.
            if stamp is not None and isinstance(error.__cause__, OSError):
                self._stamp, self._unread = before, str(error)
            if str(error) != unread:
                self._logger.error("event=ring_reload_failed the old ring stays in use: %s", error)
        else:
            self._logger.info(
                "event=ring_reloaded path=%s version=%s", self.path, self._snapshot.data.version
            )

    def _load(self) -> _Snapshot:
        data = read_ring(self.path)
        try:
            return _Snapshot(data)
        except RingFileError as error:
            raise RingFileError(f"{self.path}: {error}") from error


def _not_negative(partition: int) -> int:
    # In a list, -1 would be the last element.
    if partition < 0:
        raise IndexError(f"there is no partition {partition}")
    return partition


@dataclass(frozen=True, slots=True)
class RingSet:
    """The rings of a cluster; ``objects`` by storage policy index."""

    account: Ring
    container: Ring
    objects: dict[int, Ring]
    hash_path: HashPath

    def object_ring(self, policy_index: int) -> Ring:
        """:raises RingError: there is no ring of that storage policy."""
        try:
            return self.objects[policy_index]
        except KeyError:
            raise RingError(f"there is no ring of storage policy {policy_index}") from None


def load_rings(
    swift_dir: str | os.PathLike[str],
    *,
    policies: Iterable[int] = (0,),
    reload_seconds: float = RELOAD_SECONDS,
    logger: logging.Logger | None = None,
) -> RingSet:
    """Load account, container, object and object-N ``.ring.gz`` of a folder, and martlet.conf.

    :raises RingFileError: the account or container ring or that of one of the storage
        ``policies`` is missing, or a ring is damaged.
    :raises HashConfError: martlet.conf is missing or has no hash prefix and suffix.
    """
    folder = Path(swift_dir)
    hash_path = HashPath.from_conf(folder / CONF_NAME)

    def ring(name: str) -> Ring:
        return Ring(folder / name, hash_path, reload_seconds=reload_seconds, logger=logger)

    names = {
        int(match[1] or 0): match[0]
        for match in map(_POLICY_RING.match, os.listdir(folder))
        if match
    }
    for policy in policies:
        name = f"object-{policy}.ring.gz" if policy else "object.ring.gz"
        if policy not in names:
            raise RingFileError(f"{folder / name} is missing: storage policy {policy} needs it")
    return RingSet(
        account=ring("account.ring.gz"),
        container=ring("container.ring.gz"),
        objects={index: ring(name) for index, name in sorted(names.items())},
        hash_path=hash_path,
    )
