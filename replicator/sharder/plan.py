# SPDX-License-Identifier: Apache-2.0
"""The decisions about a container that only one node takes: the first primary of its partition."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from container.database import ContainerDatabase
from container.info import ContainerInfo
from container.shard_range import (
    ACTIVE,
    CLEAVED,
    CREATED,
    FOUND,
    QUOTED_PARENT,
    QUOTED_ROOT,
    SHARDED,
    SHARDING,
    SHRINKING,
    SHRUNK,
    ShardRange,
    is_below,
    shard_name,
    shards_account,
)
from container.shard_rows import (
    Sharding,
    is_shard,
    merge_ranges,
    parent_of,
    read_sharding,
    root_of,
)
from martlet.conf.options import is_true
from martlet.log import fields, get_logger
from martlet.words.timestamp import Timestamp
from replicator.sharder.figures import SharderFigures
from replicator.sharder.finder import Pair, acceptor_of, divide, name_after_in, pair_to_join
from replicator.sharder.options import SharderOptions
from replicator.sharder.requests import ShardRequests


class Plan:
    """Decides for the databases of one process."""

    def __init__(self, options: SharderOptions, requests: ShardRequests, hidden: str) -> None:
        """``hidden`` is the prefix of accounts that clients cannot use."""
        self._options = options
        self._requests = requests
        self._hidden = hidden
        self._log = get_logger("martlet.container.sharder")

    def is_to_be_sharded(self, info: ContainerInfo, sharding: Sharding | None) -> bool:
        """Whether a container has so many objects that it is divided now."""
        options = self._options
        if info.is_deleted:
            return False
        if info.object_count < options.rows + options.rows_min:
            return False  # too few for two shards
        is_large = info.object_count >= options.shard_container_threshold
        if not (options.auto_shard and is_large) and not _is_asked_for(info):
            return False
        if sharding is not None and (sharding.ranges or sharding.is_being_filled):
            return False
        names = info.account, info.container
        if parent_of(info.raw_metadata, *names) != root_of(info.raw_metadata, *names):
            return False  # the shard that it was split off leaves its place first
        hidden = info.account.startswith(self._hidden) and not is_shard(info.raw_metadata)
        # Container sync reads the rows of one database.
        return not hidden and not info.metadata.get("X-Container-Sync-To", ("", ""))[0]

    def find(
        self, database: ContainerDatabase, info: ContainerInfo, figures: SharderFigures
    ) -> None:
        """Choose the ranges of a container.

        :raises ShardError, DatabaseError: nothing was chosen.
        """
        names = info.account, info.container
        known = [item for item in self._requests.ranges_of(names) if not item.deleted]
        if any(item.name != "/".join(names) for item in known):
            self._merge(database, known)
            return
        now = Timestamp.now().normal
        own = own_range(database, info)
        count = info.object_count

        def look(connection: sqlite3.Connection) -> list[ShardRange]:
            name_after = name_after_in(connection, own.upper)
            rows, rows_min = self._options.rows, self._options.rows_min
            found = divide(name_after, count, rows, rows_min, own.lower, own.upper)
            account = shards_account(info.account, self._hidden)
            root = root_of(info.raw_metadata, info.account, info.container)[1]
            return [
                ShardRange(
                    shard_name(account, root, info.container, now, index),
                    now,
                    lower,
                    upper,
                    meta_timestamp=now,
                    state=FOUND,
                    state_timestamp=now,
                )
                for index, (lower, upper, _) in enumerate(found)
            ]

        ranges = database.read(look)
        if len(ranges) < 2:
            return
        own = replace(own.in_state(SHARDING, now), epoch=now)
        if is_shard(info.raw_metadata):
            # Its parent must not let it take the rows of a neighbour now.
            self._requests.send_ranges(_parent(info), [own])

        def write(connection: sqlite3.Connection) -> bool:
            sharding = read_sharding(connection)
            if sharding is not None and (sharding.ranges or sharding.is_being_filled):
                return False
            return merge_ranges(connection, [own, *ranges])

        if database.write(write):
            figures.found += len(ranges)
            self._log.info("shards of a container found %s", _words(info, ranges=len(ranges)))
        elif is_shard(info.raw_metadata):
            # A neighbour began to shrink into it meanwhile.
            own = own_range(database, info).in_state(ACTIVE, Timestamp.now().normal)
            self._requests.send_ranges(_parent(info), [own])

    def create(
        self,
        database: ContainerDatabase,
        info: ContainerInfo,
        sharding: Sharding,
        figures: SharderFigures,
    ) -> None:
        """Create the shards that were found, and let all replicas know them.

        :raises ShardError, DatabaseError: not all were created; the others are.
        """
        names = info.account, info.container
        root = root_of(info.raw_metadata, *names)
        headers = {
            "X-Backend-Auto-Create": "true",
            "X-Backend-Storage-Policy-Index": str(info.storage_policy_index),
            QUOTED_ROOT: quote("/".join(root)),
            "X-Container-Sysmeta-Sharding": "True",
        }
        if root != names:
            headers[QUOTED_PARENT] = quote("/".join(names))
        for item in sharding.ranges:
            if item.state != FOUND:
                continue
            created = item.in_state(CREATED, Timestamp.now().normal)
            self._requests.send_ranges(created.path, [created], headers)
            self._merge(database, [created])
            figures.created += 1

    def tell_replicas(self, database: ContainerDatabase, info: ContainerInfo) -> None:
        """Send all ranges to the other replicas of their container.

        :raises ShardError: less than most have them.
        :raises DatabaseError: as for every read.
        """
        sharding = database.read(read_sharding)
        if sharding is not None:
            own = [sharding.own] if sharding.has_own else []
            names = info.account, info.container
            self._requests.send_ranges(names, [*own, *sharding.ranges])

    def activate(
        self,
        database: ContainerDatabase,
        info: ContainerInfo,
        sharding: Sharding,
        figures: SharderFigures,
    ) -> bool:
        """Make those ranges active that all replicas have given; return whether all are.

        :raises ShardError, DatabaseError: as for ``create``.
        """
        waiting = [r for r in sharding.ranges if r.state in (CREATED, CLEAVED)]
        if not waiting:
            return all(r.state != FOUND for r in sharding.ranges)
        given = self._requests.given_by_all((info.account, info.container))
        if given is None:
            return False  # a replica is away; its rows are not in the shards
        is_all = True
        for item in waiting:
            if not all(_has_given(bounds, item) for bounds in given):
                is_all = False
                continue
            active = item.in_state(ACTIVE, Timestamp.now().normal)
            if sharding.own.state != SHRINKING:
                self._requests.send_ranges(active.path, [active])
            self._merge(database, [active])
            figures.active += 1
        return is_all and all(r.state != FOUND for r in sharding.ranges)

    def finish(
        self,
        database: ContainerDatabase,
        info: ContainerInfo,
        sharding: Sharding,
        figures: SharderFigures,
    ) -> None:
        """Note that all replicas of a container have given all rows. A shard leaves its parent.

        :raises ShardError, DatabaseError: it is to be repeated.
        """
        own = sharding.own
        now = Timestamp.now().normal
        if not is_shard(info.raw_metadata):
            self._merge(database, [own.in_state(SHARDED, now)])
            self._log.info("container sharded %s", _words(info, ranges=len(sharding.ranges)))
            return
        self._leave(info, sharding)
        state = SHRUNK if own.state == SHRINKING else SHARDED
        self._merge(database, [replace(own.in_state(state, now), deleted=1, timestamp=now)])
        figures.joined += 1
        self._log.info("shard left its place %s", _words(info, ranges=len(sharding.ranges)))

    def _leave(self, info: ContainerInfo, sharding: Sharding) -> None:
        """Put the shards of a shard, or the neighbour that took its rows, in its place.

        A repetition sends the same timestamps, so it undoes nothing that came later.
        """
        parent, own = _parent(info), sharding.own
        by_name = {item.name: item for item in self._requests.ranges_of(parent)}
        latest = max(item.timestamp for item in sharding.ranges)
        changed = [replace(own, deleted=1, timestamp=latest)]
        for item in sharding.ranges:
            neighbour = by_name.get(item.name)
            if own.state == SHRINKING and neighbour is not None:
                changed.append(_grown(neighbour, item, by_name.get(own.name, own)))
            else:
                changed.append(item)
        self._requests.send_ranges(parent, changed)
        root = root_of(info.raw_metadata, info.account, info.container)
        headers = {QUOTED_PARENT: "" if parent == root else quote("/".join(parent))}
        for item in changed[1:]:
            if own.state == SHRINKING:
                self._requests.send_ranges(item.path, [replace(item, state_timestamp="0")])
            else:
                self._requests.send_ranges(item.path, [item], headers)

    def shrink(
        self,
        database: ContainerDatabase,
        info: ContainerInfo,
        sharding: Sharding,
        figures: SharderFigures,
    ) -> None:
        """Let a small shard shrink into a neighbour, one at a time.

        :raises ShardError, DatabaseError: it is to be repeated.
        """
        moving = [item for item in sharding.ranges if item.state == SHRINKING]
        if not moving and self._options.auto_shard and not info.is_deleted:
            pair = pair_to_join(sharding.ranges, self._options.shrink_max, self._options.joined_max)
            if pair is not None and self._fits(pair):
                moving = [pair.donor.in_state(SHRINKING, Timestamp.now().normal)]
                self._merge(database, moving)
                figures.shrinking += 1
        for donor in moving:
            acceptor = acceptor_of(donor, sharding.ranges)
            if acceptor is None:
                continue
            taken = replace(
                acceptor,
                lower=donor.lower,
                upper=donor.upper,
                timestamp=donor.state_timestamp,
                object_count=0,
                bytes_used=0,
                meta_timestamp=donor.state_timestamp,
                state=CREATED,
                state_timestamp=donor.state_timestamp,
            )
            # Every replica of the neighbour must know that these rows do not count yet.
            self._requests.send_ranges(acceptor.path, [donor], needs_all=True)
            self._requests.send_ranges(donor.path, [donor, taken])

    def _fits(self, pair: Pair) -> bool:
        """Whether a shard fits into its neighbour by what both hold now, and neither is divided.

        What they have reported may be old.

        :raises ShardError: a replica of one does not answer.
        """
        donated, _ = self._requests.counts_of(pair.donor.path)
        held, _ = self._requests.counts_of(pair.acceptor.path)
        options = self._options
        if donated > options.shrink_max or donated + held > options.joined_max:
            return False
        return self._is_quiet(pair.donor) and self._is_quiet(pair.acceptor)

    def _is_quiet(self, item: ShardRange) -> bool:
        """Whether a shard is not about to be divided itself. Its first primary may know alone."""
        return all(
            other.name == item.name or other.deleted or other.state == SHRINKING
            for other in self._requests.ranges_of(item.path, needs_all=True)
        )

    @staticmethod
    def _merge(database: ContainerDatabase, ranges: Sequence[ShardRange]) -> None:
        database.write(lambda connection: merge_ranges(connection, ranges))


def _is_asked_for(info: ContainerInfo) -> bool:
    """Whether an operator wants a container divided."""
    if is_shard(info.raw_metadata):
        return False  # each has the mark from the beginning
    value, _ = info.metadata.get("X-Container-Sysmeta-Sharding", ("", ""))
    return is_true(value)


def own_range(database: ContainerDatabase, info: ContainerInfo) -> ShardRange:
    """The range of a container itself."""
    sharding = database.read(read_sharding)
    if sharding is not None:
        return sharding.own
    created_at = Timestamp(info.created_at).normal
    return ShardRange(
        f"{info.account}/{info.container}",
        created_at,
        meta_timestamp=created_at,
        state=ACTIVE,
        state_timestamp=created_at,
    )


def _has_given(bounds: Sequence[tuple[str, str]], item: ShardRange) -> bool:
    return any(lower <= item.lower and not is_below(upper, item.upper) for lower, upper in bounds)


def _grown(neighbour: ShardRange, taken: ShardRange, donor: ShardRange) -> ShardRange:
    """A neighbour with the names of the shard whose rows it took."""
    if neighbour.is_around(taken.lower, taken.upper):
        return neighbour
    upper = taken.upper if is_below(neighbour.upper, taken.upper) else neighbour.upper
    grown = replace(
        neighbour,
        lower=min(neighbour.lower, taken.lower),
        upper=upper,
        timestamp=max(neighbour.timestamp, taken.timestamp),
    )
    stamp = Timestamp.now().normal
    size = neighbour.bytes_used + donor.bytes_used
    return grown.with_stats(neighbour.object_count + donor.object_count, size, stamp)


def _parent(info: ContainerInfo) -> tuple[str, str]:
    return parent_of(info.raw_metadata, info.account, info.container)


def _words(info: ContainerInfo, **more: object) -> str:
    return fields(path=f"/{info.account}/{info.container}", **more)
