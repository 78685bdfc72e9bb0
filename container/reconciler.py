# SPDX-License-Identifier: Apache-2.0
"""The reconciler: moves the objects in the queue to the policy of their container.

The steps for an entry may be repeated, by another process in parallel or after a crash between any
two steps: the timestamp of every step is derived from the object's (misplaced.py). The removal of
the entry from the queue is the last step. A name with versions is moved whole (version_mover.py).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from container.config import ReconcilerOptions
from container.misplaced import (
    QUEUE_ACCOUNT,
    Entry,
    Failed,
    Step,
    next_step,
    parse_entry,
    queue_container,
)
from container.queue_servers import Unanswered, VersionRows
from container.record import CURRENT, NULL, Times, decode_times
from container.record_stream import RecordHead
from container.version_mover import Left
from container.version_plan import Moved
from martlet.http.headers import Headers
from martlet.http.internal_client import InternalClient, InternalResponse
from martlet.log import get_logger
from martlet.recon.cache import write_figures
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from storage.concurrency import for_each

_POLICY = "X-Backend-Storage-Policy-Index"
_VERSION = "X-Backend-Version-Id"
_STAYS = frozenset(("waiting", "locked"))
#: The outcomes of entries, by the words of the log.
OUTCOMES = (
    *("copied", "deleted", "found", "in_place", "versions"),
    *("waiting", "unanswered", "given_up", "locked", "failed"),
)
# Headers of an answer, not of the object. X-Backend-* and X-Timestamp are left out, too.
_NOT_OF_THE_OBJECT_NAMES = """
    accept-ranges connection content-length content-range date last-modified transfer-encoding
    x-openstack-request-id x-timestamp x-trans-id
"""
_NOT_OF_THE_OBJECT = frozenset(_NOT_OF_THE_OBJECT_NAMES.split())


class Queue(Protocol):
    """The direct requests of the reconciler to container servers."""

    def policy_of(self, account: str, container: str) -> int | None:
        """The policy of a container; None if it is not known.

        :raises Unanswered: too few of its replicas answer.
        """

    def is_agreed(self, account: str, container: str, policy: int, *, by_most: bool) -> bool:
        """Whether none of the replicas of a container that answer now has another policy.

        :raises Unanswered: not all of them answer, or not most.
        """

    def remove_entry(self, container: str, entry: Entry) -> None:
        """Remove an entry from the queue."""

    def version_rows(self, entry: Entry) -> Iterator[VersionRows] | None:
        """The rows of the name's versions in the policy of the entry, in pages.

        None: it has no versions.
        """

    def move_rows(self, found: VersionRows, policy: int) -> None:
        """Store rows anew, in another policy."""


class Mover(Protocol):
    """The direct requests of the reconciler to object servers; see `version_mover`."""

    def copy(self, entry: Entry, policy_index: int) -> Moved:
        """Copy the records of a name that another policy lacks."""

    def remove(self, entry: Entry, records: Iterable[RecordHead]) -> Left:
        """Remove versions in the policy of the entry; return how many stay."""


class Reconciler:
    """The passes over the queue."""

    def __init__(
        self,
        options: ReconcilerOptions,
        client: InternalClient,
        queue: Queue,
        mover: Mover,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self._options = options
        self._client = client
        self._queue = queue
        self._mover = mover
        self._now = now
        self._waits_for: Counter[str] = Counter()  # replicas that did not answer in this pass
        self._log = get_logger("martlet.container.reconciler")

    def run_forever(self) -> None:
        """Run passes with a pause between them."""
        while True:
            try:
                self.run_once()
            except Exception:
                self._log.exception("pass failed")
            time.sleep(self._options.interval)

    def run_once(self) -> Counter[str]:
        """Run one pass; return the number of entries for each outcome."""
        ends: Counter[str] = Counter()
        self._waits_for.clear()
        started = time.monotonic()
        for container in self._containers():
            self._work_off_container(container, ends)
        counts = " ".join(f"{end}={count}" for end, count in sorted(ends.items()))
        seconds = time.monotonic() - started
        self._log.info("pass done seconds=%.2f %s", seconds, counts or "empty=1")
        self._show(ends, seconds)
        return ends

    def _show(self, ends: Counter[str], seconds: float) -> None:
        """Write the figures of a pass for recon."""
        stats: dict[str, object] = {end: ends[end] for end in OUTCOMES}
        # A list: a map would keep the replicas of passes before.
        waits_for = [[name, self._waits_for[name]] for name in sorted(self._waits_for)]
        figures = {
            "reconciler_last": float(self._now()),
            "reconciler_time": seconds,
            "reconciler_stats": stats,
            "reconciler_waits_for": waits_for,
        }
        write_figures(self._options.recon_cache_path, "container", figures)

    def _work_off_container(self, container: str, ends: Counter[str]) -> None:
        is_empty = True

        def own_entries() -> Iterator[Entry]:
            nonlocal is_empty
            for entry in self._entries(container):
                is_empty = False
                if self._is_mine(entry):
                    yield entry

        def work(entry: Entry) -> None:
            ends[self._work_off(container, entry)] += 1

        for_each(work, own_entries(), self._options.concurrency)
        is_old = int(container) < float(self._now()) - self._options.reclaim_age
        if is_empty and is_old:  # it will receive no more entries
            path = quote_path(f"/v1/{QUEUE_ACCOUNT}/{container}")
            self._client.request("DELETE", path).close()

    # --- the queue --------------------------------------------------------------------------------

    def _containers(self) -> Iterator[str]:
        """Yield the container of this hour, which the account may not list yet, then the others.

        The newest come first, because old ones are mostly empty.
        """
        current = queue_container(self._now())
        yield current
        names = [str(row["name"]) for row in self._listing(f"/v1/{QUEUE_ACCOUNT}")]
        yield from (name for name in reversed(names) if name != current and name.isdigit())

    def _entries(self, container: str) -> Iterator[Entry]:
        for row in self._listing(quote_path(f"/v1/{QUEUE_ACCOUNT}/{container}")):
            try:
                yield parse_entry(row)
            except ValueError as error:
                self._log.error("not an entry container=%s reason=%s", container, error)

    def _listing(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield all rows; none if there is no such account or container.

        :raises Failed: the listing cannot be read.
        """
        marker = ""
        while True:
            query = f"?format=json&marker={quote(marker, safe='')}"
            response = self._client.request("GET", path + query)
            body = response.body()
            if response.status == 404:
                return
            if response.status // 100 != 2:
                raise Failed(f"GET {path} was answered {response.status}")
            rows = json.loads(body or b"[]")
            if not rows:
                return
            yield from rows
            marker = rows[-1]["name"]

    def _is_mine(self, entry: Entry) -> bool:
        if not self._options.processes:
            return True
        digest = hashlib.md5(entry.name.encode(), usedforsecurity=False).digest()
        return int.from_bytes(digest, "big") % self._options.processes == self._options.process

    # --- an entry ---------------------------------------------------------------------------------

    def _work_off(self, container: str, entry: Entry) -> str:
        """Process an entry; return the outcome as a word for the log."""
        try:
            end = self._reconcile(entry)
        except Unanswered as error:
            self._waits_for.update(error.replicas)
            self._log.warning(
                "waits for a container replica entry=%s replicas=%s",
                *(entry.name, ",".join(error.replicas)),
            )
            return "unanswered"
        except Failed as error:
            self._log.warning("to be repeated entry=%s reason=%s", entry.name, error)
            return "failed"
        except Exception:
            self._log.exception("to be repeated entry=%s", entry.name)
            return "failed"
        if end not in _STAYS:
            self._queue.remove_entry(container, entry)
        return end

    def _reconcile(self, entry: Entry) -> str:
        """
        :raises Failed: the entry stays in the queue.
        """
        policy = self._queue.policy_of(entry.account, entry.container)
        if policy is None:
            self._log.warning("policy of the container is not known entry=%s", entry.name)
            return "waiting"
        if policy == entry.policy_index:
            return "in_place"
        rows = self._queue.version_rows(entry)
        if rows is not None:
            return self._move_versions(entry, policy, rows)
        with self._ask("HEAD", entry, policy, {"X-Newest": "true"}, (2, 404)) as there:
            is_there = _time_of(there.headers) >= entry.written_at
            has_versions = _VERSION in there.headers
        if not is_there:
            return self._bring(entry, policy)
        if not has_versions:  # else the misplaced object may be an old version
            with self._ask("HEAD", entry, entry.policy_index, {}, (2, 404)) as source:
                has_versions = _VERSION in source.headers
        if has_versions:
            return self._move_versions(entry, policy, ())
        self._remove_source(entry, entry.written_at)
        return "found"

    def _move_versions(self, entry: Entry, policy: int, found: Iterable[VersionRows]) -> str:
        """Move all versions of a name, then their rows, then remove them in the wrong policy.

        Only rows of records that are there now are changed. Others wait: an object server that
        does not answer now may have their records. What is not there is not removed.

        Two reconcilers that know different policies of the container would move the versions to
        and fro. So all its replicas must agree. That would lose nothing, so a replica that is away
        does not hold up old entries.
        """
        if not self._is_agreed(entry, policy):
            return "waiting"
        moved = self._mover.copy(entry, policy)
        waiting = sum(self._move_rows(page, policy, moved.there) for page in found)
        if not self._is_agreed(entry, policy):
            return "waiting"
        stays = self._mover.remove(entry, moved.held)
        if stays.locked:
            self._log.warning("locked versions stay entry=%s count=%d", entry.name, stays.locked)
            return "locked"
        left = moved.left + stays.posted
        if not waiting and not left:
            return "versions"
        self._log.warning(
            "versions are not moved entry=%s rows=%d not_taken=%d posted=%d",
            *(entry.name, waiting, moved.left, stays.posted),
        )
        return "given_up" if self._is_old(entry) else "waiting"

    def _is_old(self, entry: Entry) -> bool:
        since = max(entry.written_at, entry.queued_at)  # of versions that may be much older
        return float(self._now()) - float(since) > self._options.reclaim_age

    def _is_agreed(self, entry: Entry, policy: int) -> bool:
        names, by_most = (entry.account, entry.container), self._is_old(entry)
        if self._queue.is_agreed(*names, policy, by_most=by_most):
            return True
        self._log.warning("replicas do not agree about the policy entry=%s", entry.name)
        return False

    def _move_rows(
        self, found: VersionRows, policy: int, there: Mapping[tuple[str, int], Timestamp]
    ) -> int:
        """Move the rows of records that are there; return the number of the other rows."""
        here = [_row_at(row, there[key]) for row in found.rows if (key := _key(row)) in there]
        if here:
            self._queue.move_rows(found._replace(rows=here), policy)
        return len(found.rows) - len(here)

    def _bring(self, entry: Entry, policy: int) -> str:
        """Copy the object, or its deletion, to the policy of its container."""
        headers = {"X-Newest": "true"}
        with self._ask("GET", entry, entry.policy_index, headers) as source:
            has_versions = _VERSION in source.headers
            written_at = _time_of(source.headers)
            age = self._options.reclaim_age
            step = next_step(entry, source.status, written_at, self._now(), age)
            if step is Step.COPY and not has_versions:
                self._copy(entry, policy, source, entry.moved_at(written_at))
        if has_versions:
            return self._move_versions(entry, policy, ())
        if step is Step.COPY:
            # The time is that of the copied object, which may be newer than the entry.
            self._remove_source(entry, written_at)
            return "copied"
        if step is Step.DELETE:
            stamp = {"X-Timestamp": entry.deleted_at.internal}
            self._ask("DELETE", entry, policy, stamp, (2, 404, 409)).close()
            return "deleted"
        self._log.warning("%s entry=%s status=%d", step.value, entry.name, source.status)
        return "given_up" if step is Step.GIVE_UP else "waiting"

    def _copy(
        self, entry: Entry, policy: int, source: InternalResponse, moved_at: Timestamp
    ) -> None:
        headers = {
            name: value
            for name, value in source.headers.items()
            if name.lower() not in _NOT_OF_THE_OBJECT and not name.lower().startswith("x-backend-")
        }
        headers |= {_POLICY: str(policy), "X-Timestamp": moved_at.internal}
        length = int(source.headers.get("Content-Length", "0"))
        with self._client.upload(_path(entry), headers, source, length) as answer:
            if answer.status // 100 != 2:
                raise Failed(f"PUT into policy {policy} was answered {answer.status}")

    def _remove_source(self, entry: Entry, source: Timestamp) -> None:
        """Delete the misplaced copy; a misplaced deletion has none.

        A newer object stays: it has, or will get, its own entry.
        """
        if not entry.is_deletion:
            stamp = {"X-Timestamp": entry.removed_at(source).internal}
            self._ask("DELETE", entry, entry.policy_index, stamp, (2, 404, 409)).close()

    def _ask(
        self,
        method: str,
        entry: Entry,
        policy: int,
        headers: dict[str, str],
        wanted: tuple[int, ...] = (),
    ) -> InternalResponse:
        """Send a request for the object in a policy; ``wanted`` are statuses, or 2 for all 2xx.

        :raises Failed: another status.
        """
        response = self._client.request(method, _path(entry), {_POLICY: str(policy), **headers})
        if wanted and response.status not in wanted and response.status // 100 not in wanted:
            response.close()
            raise Failed(f"{method} in policy {policy} was answered {response.status}")
        return response


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    """The version of a row and its ticks, as those of its record."""
    version = row["version_id"]
    is_client = version not in (NULL, CURRENT)
    return version if is_client else "", decode_times(row["created_at"]).data.ticks


def _row_at(row: dict[str, Any], time: Timestamp) -> dict[str, Any]:
    """A row with the time that its record has: the move may have given that a greater offset."""
    times = decode_times(row["created_at"])
    if times.data >= time:
        return row
    moved = Times(time, max(time, times.content_type), max(time, times.metadata))
    return row | {"created_at": moved.encode()}


def _path(entry: Entry) -> str:
    return quote_path(f"/v1/{entry.account}/{entry.container}/{entry.obj}")


def _time_of(headers: Headers) -> Timestamp:
    return Timestamp(headers.get("X-Backend-Timestamp") or headers.get("X-Timestamp") or "0")
