# SPDX-License-Identifier: Apache-2.0
"""The reaper: empties deleted accounts, as in OpenStack Swift.

It goes through the account databases of this host that are marked as deleted, and deletes their
objects, then their containers. The containers are shared out among the hosts of the primaries by
their names. Nothing is remembered: a pass after a kill goes on with what is left. The replicator
removes the database of an empty account after ``reclaim_age``.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Protocol

from account.database import AccountDatabase
from martlet.http.response import HTTPException
from martlet.log import fields, get_logger
from martlet.service.disk_calls import DiskStuck, on_disk
from martlet.words.timestamp import Timestamp
from replicator.options import ReaperOptions
from replicator.reaper_requests import Entry, Page, ReapError
from replicator.walk import Held, databases_on, local_devices
from ring.devices import Device
from ring.ring import Ring
from storage.concurrency import for_each
from storage.errors import DatabaseError, DatabaseMissing
from storage.fingerprint import fingerprint

#: Containers of an account that are listed at once.
CONTAINERS_AT_ONCE = 1000
_FIRST = Entry("")


class Requests(Protocol):
    """The requests to the other servers; `reaper_requests.ReaperRequests` makes them."""

    def list_objects(
        self, account: str, container: str, after: Entry, policy_index: int | None
    ) -> Page | None:
        """A part of the listing; None if there is no such container."""

    def delete_object(self, account: str, container: str, entry: Entry, policy_index: int) -> None:
        """Delete an object or a version."""

    def delete_container(self, account: str, container: str) -> list[int]:
        """Delete a container; return the statuses of its replicas."""

    def forget_container(self, account: str, container: str) -> list[int]:
        """Remove the row of a container that has no replica."""


@dataclass
class ReapFigures:
    """The work of a pass."""

    accounts: int = 0  # that are deleted and not empty
    delayed: int = 0  # of them, deleted less than delay_reaping ago
    containers: int = 0  # deleted
    objects: int = 0  # deleted, with versions
    containers_left: int = 0  # of this host's share, not deleted
    failures: int = 0  # requests, databases and devices that failed
    seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The figures by name."""
        return asdict(self)

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether something failed."""
        return self.failures > 0 or self.containers_left > 0


class Reaper:
    """The passes over the deleted accounts of this host."""

    def __init__(
        self,
        options: ReaperOptions,
        ring: Ring,
        port: int,
        usable_path: Callable[[str], str],
        open_database: Callable[[str], AccountDatabase],
        requests: Requests,
        policies: Sequence[int],
        now: Callable[[], float] = time.time,
    ) -> None:
        """``policies`` are the indexes of all storage policies."""
        self.interval = options.interval
        self._options = options
        self._ring = ring
        self._port = port
        self._usable_path = usable_path
        self._open_database = open_database
        self._requests = requests
        self._policies = policies
        self._now = now
        # As in Swift, the square root for containers, and for the objects of each.
        self._at_once = max(1, math.isqrt(options.concurrency))
        # Fingerprints of accounts without work, which need not be opened; by hash of the path.
        self._done: dict[int, int] = {}
        self._log = get_logger("martlet.account.reaper")

    def run_once(self, devices: Collection[str] = ()) -> ReapFigures:
        """Run one pass, over all devices or some, and return its figures.

        :raises RingError: there is no ring.
        """
        figures, started = ReapFigures(), time.monotonic()
        local = local_devices(self._ring, self._port)
        if not local:
            figures.failures += 1
            self._log.error("the ring has no device of this host with port %d", self._port)
        wanted = [device for device in local if not devices or device["device"] in devices]
        for_each(lambda device: self._run_device(device, figures), wanted, max(1, len(wanted)))
        figures.seconds = time.monotonic() - started
        shown = {name: round(value, 2) for name, value in figures.as_dict().items()}
        self._log.info("pass done %s", fields(**shown))
        return figures

    def _run_device(self, device: Device, figures: ReapFigures) -> None:
        try:
            path = self._usable_path(device["device"])
            for held in databases_on(path, device, "accounts", None):
                share = self._share_of(held)
                if share is not None:
                    self._look_at(path, held, share, figures)
        except (DiskStuck, OSError, HTTPException) as error:
            figures.failures += 1
            words = error.response.status if isinstance(error, HTTPException) else error
            self._log.error("pass skips a device %s", fields(device=device["device"], error=words))

    def _share_of(self, held: Held) -> tuple[int, int] | None:
        """The number of this device among the primaries, and theirs; None if it is none."""
        if held.partition >= self._ring.partition_count:
            return None
        ids = [node["id"] for node in self._ring.get_part_nodes(held.partition)]
        return (ids.index(held.device["id"]), len(ids)) if held.device["id"] in ids else None

    def _look_at(
        self, device_path: str, held: Held, share: tuple[int, int], figures: ReapFigures
    ) -> None:
        """Reap an account if it is deleted."""
        database = self._open_database(held.path)
        try:
            mark = on_disk(device_path, fingerprint, held.path, time.time())
            if mark is not None and self._done.get(hash(held.path)) == mark:
                return
            info = database.info()
            if info.is_marked_deleted and info.container_count:
                age = self._now() - float(Timestamp(info.delete_timestamp))
                self._reap(database, info.account, age, share, figures)
            elif mark is not None:
                self._done[hash(held.path)] = mark
        except (FileNotFoundError, DatabaseMissing):
            pass  # removed since it was listed
        except DatabaseError as error:
            figures.failures += 1
            self._log.error("cannot read an account: %s", error)
        finally:
            database.close()

    def _reap(
        self,
        database: AccountDatabase,
        account: str,
        age: float,
        share: tuple[int, int],
        figures: ReapFigures,
    ) -> None:
        """Delete the containers of an account that are this device's share.

        :raises DatabaseError: the database cannot be read.
        """
        figures.accounts += 1
        if age < self._options.delay_reaping:
            figures.delayed += 1
            return
        # The account may be made again meanwhile: its status is read anew before each container.
        own = takewhile(
            lambda _: database.info().is_marked_deleted,
            (name for name in _containers(database) if is_of_share(name, *share)),
        )
        for_each(
            lambda container: self._reap_container(account, container, figures), own, self._at_once
        )
        if age > self._options.delay_reaping + self._options.reap_warn_after:
            days = f"{age / 86400:.1f}"
            self._log.warning("account is not reaped yet %s", fields(account=account, days=days))

    def _reap_container(self, account: str, container: str, figures: ReapFigures) -> None:
        try:
            is_gone = self._empty_and_delete(account, container, figures)
        except ReapError as error:
            figures.failures += 1
            self._log.warning("cannot reap a container: %s", error)
            is_gone = False
        except Exception:
            figures.failures += 1
            path = f"/{account}/{container}"
            self._log.exception("cannot reap a container %s", fields(path=path))
            is_gone = False
        if is_gone:
            figures.containers += 1
        else:
            figures.containers_left += 1

    def _empty_and_delete(self, account: str, container: str, figures: ReapFigures) -> bool:
        """Delete the objects of a container, then itself; return whether it is gone.

        :raises ReapError: its listing cannot be read.
        """
        own_policy = self._delete_objects(account, container, None, figures)
        statuses = self._requests.delete_container(account, container)
        others = [policy for policy in self._policies if policy != own_policy]
        if 409 in statuses and others:
            # It may have misplaced objects, of another policy than its own.
            for policy in others:
                self._delete_objects(account, container, policy, figures)
            statuses = self._requests.delete_container(account, container)
        if all(status == 404 for status in statuses):
            # No replica can tell the account any more, or all have done so.
            statuses = self._requests.forget_container(account, container)
        taken = sum(status // 100 == 2 or status == 404 for status in statuses)
        return taken * 2 > len(statuses)

    def _delete_objects(
        self, account: str, container: str, policy_index: int | None, figures: ReapFigures
    ) -> int | None:
        """Delete the objects with a policy, None: that of the container; return the policy.

        :raises ReapError: a listing cannot be read.
        """
        after, policy = _FIRST, policy_index
        while True:
            page = self._requests.list_objects(account, container, after, policy_index)
            if page is None:
                return policy
            policy = page.policy_index if policy_index is None else policy_index
            if not page.entries:
                return policy

            def work(entry: Entry, policy: int = policy) -> None:
                try:
                    self._requests.delete_object(account, container, entry, policy)
                    figures.objects += 1
                except ReapError as error:
                    figures.failures += 1
                    self._log.warning("cannot reap an object: %s", error)
                except Exception:
                    figures.failures += 1
                    path = f"/{account}/{container}/{entry.name}"
                    self._log.exception("cannot reap an object %s", fields(path=path))

            for_each(work, page.entries, self._at_once)
            after = page.entries[-1]


def is_of_share(container: str, number: int, count: int) -> bool:
    """Whether a container is reaped by the primary of a number, as in OpenStack Swift. Pure."""
    digest = hashlib.md5(container.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big") % count == number


def _containers(database: AccountDatabase) -> Iterator[str]:
    """The containers of an account.

    :raises DatabaseError: the database cannot be read.
    """
    marker = ""
    while names := database.containers_after(marker, CONTAINERS_AT_ONCE):
        yield from names
        marker = names[-1]
