# SPDX-License-Identifier: Apache-2.0
"""The replication of one database: exchanges with all primaries, then what these allow.

A database on a device that is no primary is removed once all primaries have everything in it. A
deleted account or container is removed once it is old and all primaries know of its deletion.
Tombstones are removed once they are old and all primaries have them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from martlet.http.backend_client import BackendClient
from martlet.log import fields, get_logger
from martlet.service.disk_calls import on_disk
from martlet.words.timestamp import Timestamp
from replicator.exchange import Kind, Limits, Result, exchange
from replicator.figures import Figures
from replicator.options import ReplicatorOptions
from replicator.peer import Peer, PeerCannotStore, PeerError
from replicator.walk import Held
from ring.hashing import HashPath
from ring.ring import Node, Ring
from storage.database_copy import BadCopy
from storage.database_files import clear_set_aside, device_path_of, remove_empty_parents
from storage.errors import DatabaseDamaged, DatabaseError, DatabaseMissing
from storage.replica import NO_ROW
from storage.replicated_database import ReplicatedDatabase
from storage.vacuum import Method, method_for, space_in, vacuum


@dataclass(frozen=True)
class Place:
    """Where a database belongs."""

    partition: int
    primaries: tuple[Node, ...]
    is_here: bool  # it lies on one of its primaries

    def peers_of(self, device_id: int) -> list[Node]:
        """The other primaries, from the one after the device on: not all start with the same."""
        ids = [node["id"] for node in self.primaries]
        start = ids.index(device_id) if device_id in ids else 0
        turned = self.primaries[start:] + self.primaries[:start]
        return [node for node in turned if not (self.is_here and node["id"] == device_id)]


class Replication:
    """The replication of single databases of one kind."""

    def __init__(
        self,
        kind: str,
        options: ReplicatorOptions,
        ring: Ring,
        hash_path: HashPath,
        client: BackendClient,
        open_database: Callable[[str], ReplicatedDatabase],
        now: Callable[[], float] = time.time,
    ) -> None:
        """``kind`` is ``account`` or ``container``."""
        self._options = options
        self._ring = ring
        self._hash_path = hash_path
        self._client = client
        self._open_database = open_database
        self._now = now
        self._log = get_logger(f"martlet.{kind}.replicator")

    def replicate(self, held: Held, figures: Figures) -> bool:
        """Replicate a database; return whether all peers have it, so that nothing is left to do.

        Errors are logged and counted.
        """
        database = self._open_database(held.path)
        try:
            return self._replicate(database, held, figures)
        except DatabaseMissing:
            return False  # removed since it was listed
        except DatabaseDamaged as error:
            self._log.error("a damaged database: %s", error)
            self._fetch(database, held, figures)
            return False
        except DatabaseError as error:
            figures.failures += 1
            self._log.error("cannot replicate a database: %s", error)
            return False
        finally:
            database.close()

    def _fetch(self, database: ReplicatedDatabase, held: Held, figures: Figures) -> None:
        """Fetch a database that is in quarantine from the first primary that has it.

        If none of them answers now, the next pass of one that has it sends it.
        """
        primaries = self._ring.get_part_nodes(held.partition)
        for node in primaries:
            if node["id"] == held.device["id"]:
                continue
            peer = Peer(self._client, node, held.partition, held.name)
            try:
                database.adopt_replica(
                    peer.fetch_copy(),
                    lambda names: self._hash_path.hexdigest(*names.values()) == held.name,
                )
            except (PeerError, BadCopy) as error:
                self._log.warning("no copy fetched %s", fields(path=held.path, error=error))
                continue
            figures.fetched += 1
            self._log.warning("fetched a copy %s", fields(path=held.path, source=peer.name))
            return
        figures.failures += 1

    def place_of(self, held: Held, names: Iterable[str]) -> Place:
        """The primaries of a database by the ring, and whether it lies on one of them."""
        partition = self._ring.get_part(*names)
        primaries = self._ring.get_part_nodes(partition)
        is_own = held.device["id"] in {node["id"] for node in primaries}
        return Place(partition, primaries, is_own and partition == held.partition)

    def _replicate(self, database: ReplicatedDatabase, held: Held, figures: Figures) -> bool:
        names = database.names()
        if self._hash_path.hexdigest(*names) != held.name:
            figures.failures += 1
            self._log.error("a database is not of its path %s", fields(path=held.path))
            return False
        place = self.place_of(held, names)
        if not place.is_here:
            figures.handoffs += 1
        if place.is_here and self._options.handoffs_only:
            return False
        horizon = Timestamp(max(0.0, self._now() - self._options.reclaim_age)).internal
        is_old = database.read(lambda c: database.is_forgettable(c, horizon))
        results = self._exchange_with_all(database, held, place, (is_old, horizon), figures)
        if results is None:
            return False
        if is_old and self._remove(
            database,
            results,
            lambda c: database.is_forgettable(c, horizon) and database.is_reported(c),
        ):
            figures.removed += 1
            self._log.info("removed a deleted database %s", fields(path=held.path))
            return False
        if not place.is_here:
            # Peers that have forgotten a deleted one do not report it either.
            is_known = all(result.kind is not Kind.ABSENT for result in results)
            if self._remove(database, results, lambda c: is_known or database.is_reported(c)):
                figures.moved += 1
                self._log.info("moved a database to its primaries %s", fields(path=held.path))
            return False
        rows = [result.points for result in results] or [database.replica_state().max_rows]
        points = {s: min(p.get(s, NO_ROW) for p in rows) for s in database.streams}
        figures.forgotten += database.forget(points, horizon)
        if database.read(lambda c: method_for(space_in(c))) is not Method.NONE:
            self._vacuum(held, figures)
        return True

    def _vacuum(self, held: Held, figures: Figures) -> None:
        try:
            freed = vacuum(held.path)
        except sqlite3.Error as error:
            self._log.warning("cannot vacuum a database %s", fields(path=held.path, error=error))
            return
        if freed:
            figures.vacuumed += 1
            self._log.info("vacuumed a database %s", fields(path=held.path, bytes=freed))

    def _exchange_with_all(
        self,
        database: ReplicatedDatabase,
        held: Held,
        place: Place,
        age: tuple[bool, str],
        figures: Figures,
    ) -> list[Result] | None:
        """The results of all primaries; None if one of them has not everything now."""
        is_forgettable, horizon = age
        limits = Limits(self._options.per_diff, self._options.max_diffs, horizon)
        handoffs = self._ring.get_more_nodes(place.partition)
        results, is_complete = list[Result](), True
        todo: Iterator[Node] = iter(place.peers_of(held.device["id"]))
        more: list[Node] = []
        for node in chain(todo, _popping(more)):
            peer = Peer(self._client, node, place.partition, held.name)
            try:
                result = exchange(database, peer, limits, is_forgettable)
            except PeerError as error:
                figures.failures += 1
                is_complete = False
                self._log.warning("exchange failed %s", fields(path=held.path, error=error))
                if isinstance(error, PeerCannotStore):
                    more += _next_other(handoffs, held.device["id"])
                continue
            results.append(result)
            _count(figures, result)
            is_complete = is_complete and result.is_complete
        return results if is_complete else None

    def _remove(
        self,
        database: ReplicatedDatabase,
        results: list[Result],
        is_removable: Callable[[sqlite3.Connection], bool],
    ) -> bool:
        """Remove a database if all peers have what it holds at that moment."""

        def look(connection: sqlite3.Connection) -> bool:
            state = database.state_in(connection)
            has_all = all(
                result.sent.stat == state.stat
                and all(result.points.get(s, NO_ROW) >= row for s, row in state.max_rows.items())
                for result in results
            )
            return has_all and is_removable(connection)

        if not database.remove(look):
            return False
        device = device_path_of(database.path)
        on_disk(device, clear_set_aside, device)
        on_disk(device, remove_empty_parents, database.path)
        return True


def _count(figures: Figures, result: Result) -> None:
    figures.rows += result.rows
    if result.kind is Kind.SENT:
        figures.sent += 1
    elif result.kind is Kind.COPIED:
        figures.copied += 1
    elif result.kind is Kind.PARTLY:
        figures.partly += 1
    else:
        figures.same += 1


def _next_other(handoffs: Iterator[Node], device_id: int) -> list[Node]:
    """The next hand-off that is not this device, if there is one."""
    for node in handoffs:
        if node["id"] != device_id:
            return [node]
    return []


def _popping(nodes: list[Node]) -> Iterator[Node]:
    """The nodes of a list that grows meanwhile."""
    while nodes:
        yield nodes.pop(0)
