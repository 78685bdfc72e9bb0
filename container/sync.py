# SPDX-License-Identifier: Apache-2.0
"""Container sync, the sending side: copies the writes of a container to another cluster.

A pass reads every container on this server's devices. It syncs the new rows of each one with
``X-Container-Sync-To`` and ``X-Container-Sync-Key``. Objects are read through the daemon's own
proxy and put to the other cluster with the same timestamp; deletions are sent, too. So a repetition
or another order is harmless. sync_rows.py assigns the rows to the replicas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from container.config import SyncOptions
from container.database import ContainerDatabase
from container.info import ContainerInfo
from container.sync_remote import Remote, RemoteError
from container.sync_rows import SyncPoints, SyncRow, read_points, rows_after, set_points
from martlet.conf.options import is_true
from martlet.conf.sync_realms import SyncRealms, SyncTarget
from martlet.http.headers import Headers
from martlet.http.internal_client import InternalClient
from martlet.log import get_logger
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.hashing import HashPath
from storage.concurrency import for_each
from storage.errors import DatabaseError, DatabaseMissing

_ROWS_AT_ONCE = 100
_VERSIONS_ENABLED = "x-container-sysmeta-versions-enabled"
#: Headers of an answer, not of the object.
_NOT_SENT_NAMES = """
    accept-ranges connection content-range date etag last-modified transfer-encoding
    x-openstack-request-id x-timestamp x-trans-id
"""
_NOT_SENT = frozenset(_NOT_SENT_NAMES.split())


class Held(NamedTuple):
    """A container database on a device of this host, number ``replica`` of ``replicas``."""

    path: str
    replica: int
    replicas: int


class _Job(NamedTuple):
    """A container to sync to another cluster."""

    info: ContainerInfo
    target: SyncTarget
    user_key: str
    held: Held


class ContainerSync:
    """The passes over the containers of this host."""

    def __init__(
        self,
        options: SyncOptions,
        allowed_hosts: list[str],
        realms: SyncRealms,
        client: InternalClient,
        remote: Remote,
        hash_path: HashPath,
        held: Callable[[], Iterator[Held]],
    ) -> None:
        """``held`` yields the databases of this host."""
        self._options = options
        self._allowed_hosts = allowed_hosts
        self._realms = realms
        self._client = client
        self._remote = remote
        self._hash_path = hash_path
        self._held = held
        self._log = get_logger("martlet.container.sync")
        self._failures = 0

    def run_forever(self) -> None:
        """Run a pass in every interval."""
        while True:
            started = time.monotonic()
            try:
                self.run_once()
            except Exception:
                self._log.exception("pass failed")
            time.sleep(max(1.0, self._options.interval - (time.monotonic() - started)))

    def run_once(self) -> int:
        """Run one pass; return the number of rows that could not be synced."""
        self._failures = synced = 0
        started = time.monotonic()
        for held in self._held():
            try:
                synced += self._sync_database(held)
            except DatabaseMissing:
                pass  # removed since it was listed
            except DatabaseError as error:
                self._log.error("cannot read a database path=%s error=%s", held.path, error)
        seconds = time.monotonic() - started
        form = "pass done seconds=%.2f containers=%d failures=%d"
        self._log.info(form, seconds, synced, self._failures)
        return self._failures

    def _sync_database(self, held: Held) -> bool:
        """Sync one container; return whether it goes to another cluster."""
        database = ContainerDatabase(held.path)
        try:
            info = database.info()
            metadata = {name.lower(): entry[0] for name, entry in info.metadata.items()}
            sync_to = metadata.get("x-container-sync-to", "")
            user_key = metadata.get("x-container-sync-key", "")
            if not sync_to or not user_key or info.is_deleted:
                return False
            try:
                # The proxy refuses the two together, but two requests at once may both pass.
                if is_true(metadata.get(_VERSIONS_ENABLED)):
                    raise ValueError("object versioning is enabled")
                target = self._realms.parse(sync_to, self._allowed_hosts)
            except ValueError as error:
                self._failures += 1
                self._log.error("cannot sync path=%s reason=%s", _path(info), error)
                return False
            self._sync(database, _Job(info, target, user_key, held))
            return True
        finally:
            database.close()

    def _sync(self, database: ContainerDatabase, job: _Job) -> None:
        end = time.monotonic() + self._options.container_time
        points = self._check_old_rows(database, job, read_points(database), end)
        while time.monotonic() < end:
            rows = rows_after(database, points.shared, _ROWS_AT_ONCE)
            if not rows:
                return
            mine = [row for row in rows if self._is_mine(job, row)]
            # A row that fails is tried again later, as it is before the shared point.
            for_each(lambda row: self._sync_row(job, row), mine, self._options.sync_row_concurrency)
            points = points._replace(shared=rows[-1].rowid)
            set_points(database, points)

    def _check_old_rows(
        self, database: ContainerDatabase, job: _Job, points: SyncPoints, end: float
    ) -> SyncPoints:
        """Try all rows between the points again, of every replica, up to the first failure."""
        at = points.checked
        while at < points.shared and time.monotonic() < end:
            rows = [r for r in rows_after(database, at, _ROWS_AT_ONCE) if r.rowid <= points.shared]
            failed: set[int] = set()

            def work(row: SyncRow, failed: set[int] = failed) -> None:
                if not self._sync_row(job, row):
                    failed.add(row.rowid)

            for_each(work, rows, self._options.sync_row_concurrency)
            # A row that was written again has a greater ROWID: no rows may be left between.
            at = rows[-1].rowid if rows else points.shared
            if failed:
                at = min(failed) - 1
            set_points(database, points._replace(checked=at))
            if failed:
                break
        return points._replace(checked=at)

    def _is_mine(self, job: _Job, row: SyncRow) -> bool:
        digest = self._hash_path.digest(job.info.account, job.info.container, row.name)
        return int.from_bytes(digest[:4], "big") % job.held.replicas == job.held.replica

    def _sync_row(self, job: _Job, row: SyncRow) -> bool:
        """Sync one row; return whether the other cluster has its state."""
        if row.policy_index != job.info.storage_policy_index:
            return True  # misplaced; there will be a row of the right policy
        try:
            if row.is_deleted:
                self._remote.delete(job.target, job.user_key, row.name, row.timestamp)
            else:
                self._put(job, row)
        except RemoteError as error:
            self._complain(job, row, str(error))
            return False
        except Exception as error:
            self._log.exception("cannot sync path=%s object=%s", _path(job.info), ascii(row.name))
            self._complain(job, row, repr(error))
            return False
        return True

    def _complain(self, job: _Job, row: SyncRow, reason: str) -> None:
        self._failures += 1
        host = urlsplit(job.target.url).netloc
        self._log.warning(
            "to be repeated path=%s object=%s to=%s reason=%s",
            _path(job.info),
            ascii(row.name),
            host,
            reason,
        )

    def _put(self, job: _Job, row: SyncRow) -> None:
        """
        :raises RemoteError: the object was not copied.
        """
        written_at = Timestamp(row.timestamp)
        there = self._remote.written_at(job.target, job.user_key, row.name, row.timestamp)
        if there is not None and there >= written_at:
            return
        path = quote_path(f"/v1/{job.info.account}/{job.info.container}/{row.name}")
        headers = {
            "X-Newest": "true",
            "X-Backend-Storage-Policy-Index": str(row.policy_index),
        }
        with self._client.request("GET", f"{path}?symlink=get", headers) as source:
            if source.status == 404:
                return  # deleted since; the deletion has its own row
            if source.status != 200:
                raise RemoteError(f"the object could not be read: {source.status}")
            found = source.headers.get("x-timestamp", "0")
            if Timestamp(found) < written_at:
                raise RemoteError("the replicas that could be read are older")
            chunks = iter(lambda: source.read(65536), b"")
            sent = _headers_to_send(source.headers)
            self._remote.put(job.target, job.user_key, row.name, found, sent, chunks)


def _headers_to_send(headers: Headers) -> dict[str, str]:
    sent = {
        name: value
        for name, value in headers.items()
        if name.lower() not in _NOT_SENT and not name.lower().startswith("x-backend-")
    }
    etag = headers.get("etag", "").strip('"')
    if etag and "x-static-large-object" not in headers:
        sent["Etag"] = etag
    return sent


def _path(info: ContainerInfo) -> str:
    return quote_path(f"/{info.account}/{info.container}")
