# SPDX-License-Identifier: Apache-2.0
"""The account server: Swift's backend protocol over account databases (wire-account.md)."""

from __future__ import annotations

from typing import Any

from account.config import AccountOptions
from account.database import AccountDatabase, AccountInfo
from account.record import COUNT_MAX, make_record
from account.replica_rows import Report, parse_item, parse_report
from martlet.conf.cluster import ClusterConf
from martlet.http.environ import HeaderList
from martlet.http.listing import listing_content_type, render_account
from martlet.http.request import Request
from martlet.http.response import Response, error_response, http_error
from martlet.service.server import ServerOptions
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from storage.errors import DatabaseExists, DatabaseMissing
from storage.json_body import json_list
from storage.metadata import Metadata, check_total, metadata_of_request, shown_metadata
from storage.name_listing import Row, Subdir
from storage.replica import BadState
from storage.replicate_requests import Hooks, ReplicateRequests
from storage.storage_server import (
    StorageServer,
    empty_response,
    listing_query,
    listing_response,
    state_response,
)

#: The largest body of an UPDATE: a thousand containers with the longest names.
UPDATE_BYTES_MAX = 4 * 1024**2
#: When totals were read: those of a request, or later ones that are stored here.
REPORTED_AT = "X-Backend-Reported-At"
_DELETED = (("X-Account-Status", "Deleted"),)


class AccountServer(StorageServer):
    """The WSGI application."""

    kind = "accounts"
    name = "account"
    options_class = AccountOptions

    def __init__(
        self, options: AccountOptions, cluster: ClusterConf, server: ServerOptions
    ) -> None:
        super().__init__(options, cluster, server)
        self.pool = self.pool_of(
            lambda path: AccountDatabase(path, self.assert_device_there), options
        )
        self.handlers = {
            "GET": self.get,
            "HEAD": self.head,
            "PUT": self.put,
            "POST": self.post,
            "DELETE": self.delete,
            "UPDATE": self.update,
            "REPLICATE": ReplicateRequests(
                self, self.pool, Hooks(parse_item, self.is_of_hash, lambda path, is_misplaced: None)
            ),
            "SNAPSHOT": self.snapshot,
        }

    def head(self, req: Request) -> Response:
        """Answer 204 with the account's state, or 404."""
        device, partition, account = self.split(req, 3, 3)
        content_type = listing_content_type(req.params.get("format"), req.headers.get("accept"))
        path = self.database_path(self.device_path(device), partition, account)
        with self.pool.use(path) as database:
            info = database.info()
        if info.is_deleted:
            return _gone(info)
        return state_response(self._state_headers(info), content_type)

    def get(self, req: Request) -> Response:
        """Answer 200 with a listing, 204 if it is empty plain text, 404, or 412: limit too high."""
        device, partition, account = self.split(req, 3, 3)
        query = listing_query(req, self.cluster.constraints.account_listing_limit, ())
        content_type = listing_content_type(req.params.get("format"), req.headers.get("accept"))
        path = self.database_path(self.device_path(device), partition, account)
        with self.pool.use(path) as database:
            info, rows = database.list_containers(query)
        if info.is_deleted:
            return _gone(info)
        body = render_account([self._entry(row) for row in rows], content_type, account)
        return listing_response(self._state_headers(info), body, content_type)

    def put(self, req: Request) -> Response:
        """Create or update an account, or merge a container's row into it.

        Account: 201 created, 202 existed, 403 recently deleted. Row: 201, 204 if deleted, 404.
        """
        device, partition, account, container = self.split(req, 3, 4)
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account)
        if container:
            return self._put_container(req, path, account, container)
        timestamp = req.timestamp
        updates = self._metadata(req, timestamp)
        created = False
        with self.pool.use(path) as database:
            while True:
                try:
                    info = database.put(timestamp.internal, updates, self._check)
                    break
                except DatabaseMissing:
                    if self.is_restored(req, database, account):
                        continue
                    self._check(updates)
                    created = _create(database, account, timestamp, updates)
        if info.is_marked_deleted:
            return error_response(403, "Recently deleted", _DELETED)
        return empty_response(201 if created else 202)

    def _put_container(self, req: Request, path: str, account: str, container: str) -> Response:
        report = self._report(req, container)
        headers = self._merge(req, path, account, [report])
        record = report.record
        is_deletion = record.delete_timestamp > record.put_timestamp
        return empty_response(204 if is_deletion else 201, headers)

    def update(self, req: Request) -> Response:
        """Merge the rows of containers in a JSON list; answer 202, 400, 404 or 413."""
        device, partition, account = self.split(req, 3, 3)
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account)
        try:
            reports = [parse_report(item) for item in json_list(req, UPDATE_BYTES_MAX)]
        except BadState as error:
            raise http_error(400, str(error)) from None
        for index in {report.record.storage_policy_index for report in reports}:
            self.check_policy(index, f"storage policy {index}")
        return empty_response(202, self._merge(req, path, account, reports))

    def _merge(self, req: Request, path: str, account: str, reports: list[Report]) -> HeaderList:
        """Merge reports of containers; return the headers of the answer.

        :raises HTTPException: 404 if there is no such account, or it is deleted.
        """
        is_override = req.headers.get("x-account-override-deleted", "").lower() == "yes"
        with self.pool.use(path) as database:
            while True:
                try:
                    taken = database.put_containers(reports, is_override)
                    break
                except DatabaseMissing:
                    prefix = self.cluster.constraints.auto_create_account_prefix
                    if not account.startswith(prefix):
                        self.restore(database, account)
                        continue
                has_time = "x-timestamp" in req.headers
                timestamp = req.timestamp if has_time else Timestamp.now()
                _create(database, account, timestamp, {})
        if not taken.is_merged:
            raise http_error(404)
        return [] if taken.later is None else [(REPORTED_AT, taken.later.internal)]

    def _report(self, req: Request, container: str) -> Report:
        headers = req.headers
        try:
            counts = int(headers["x-object-count"]), int(headers["x-bytes-used"])
            put = Timestamp(headers["x-put-timestamp"])
            delete = Timestamp(headers["x-delete-timestamp"])
            read_at = Timestamp(headers.get("x-backend-reported-at") or Timestamp.now())
        except KeyError as error:
            raise http_error(400, f"Missing header {error}") from None
        except ValueError as error:
            raise http_error(400, f"Bad header: {error}") from None
        if not all(0 <= count <= COUNT_MAX for count in counts):
            raise http_error(400, "X-Object-Count and X-Bytes-Used must not be negative")
        record = make_record(container, (put, delete), *counts, self.policy_index(req) or 0)
        return Report(record, read_at.internal)

    def post(self, req: Request) -> Response:
        """Update metadata; answer 204 or 404."""
        device, partition, account = self.split(req, 3, 3)
        timestamp = req.timestamp
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account)
        with self.pool.use(path) as database:
            updates = self._metadata(req, timestamp)
            info = self.or_restored(
                req, database, account, None, lambda: database.post(updates, self._check)
            )
        return _gone(info) if info.is_deleted else empty_response(204)

    def delete(self, req: Request) -> Response:
        """Mark the account deleted; answer 204 or 404."""
        device, partition, account = self.split(req, 3, 3)
        timestamp = req.timestamp
        path = self.database_path(self.device_path(device), partition, account)
        with self.pool.use(path) as database:
            before, after = self.or_restored(
                req, database, account, None, lambda: database.delete(timestamp.internal)
            )
        # The replica that this one was copied from may have executed the same request already.
        if before.is_deleted and Timestamp(before.delete_timestamp) != timestamp:
            return _gone(before)
        return empty_response(204, _DELETED if after.is_marked_deleted else ())

    def _metadata(self, req: Request, timestamp: Timestamp) -> Metadata:
        return metadata_of_request(req.headers, "account", (), timestamp.internal)

    def _check(self, metadata: Metadata) -> None:
        check_total(metadata, "account", self.cluster.constraints)

    def _state_headers(self, info: AccountInfo) -> HeaderList:
        headers = [
            ("X-Account-Container-Count", str(info.container_count)),
            ("X-Account-Object-Count", str(info.object_count)),
            ("X-Account-Bytes-Used", str(info.bytes_used)),
            ("X-Timestamp", Timestamp(info.created_at).normal),
            ("X-PUT-Timestamp", Timestamp(info.put_timestamp).normal),
            *_backend_headers(info),
        ]
        for stat in info.policies:
            policy = self.cluster.policy_by_index(stat.storage_policy_index)
            if policy is None:
                continue
            prefix = f"X-Account-Storage-Policy-{str_to_wsgi(policy.name)}"
            headers += [
                (f"{prefix}-Container-Count", str(stat.container_count)),
                (f"{prefix}-Object-Count", str(stat.object_count)),
                (f"{prefix}-Bytes-Used", str(stat.bytes_used)),
            ]
        headers += shown_metadata(info.metadata)
        return headers

    def _entry(self, row: Row | Subdir) -> dict[str, Any]:
        if isinstance(row, Subdir):
            return {"subdir": row.name}
        name, object_count, bytes_used, put_timestamp, policy_index = row
        entry = {
            "name": name,
            "count": object_count,
            "bytes": bytes_used,
            "last_modified": Timestamp(put_timestamp).isoformat,
        }
        policy = self.cluster.policy_by_index(policy_index)
        if policy is not None:
            entry["storage_policy"] = policy.name
        return entry


def _create(
    database: AccountDatabase, account: str, timestamp: Timestamp, metadata: Metadata
) -> bool:
    try:
        database.create(account, timestamp.internal, metadata)
    except DatabaseExists:
        return False  # another request was faster
    return True


def _gone(info: AccountInfo) -> Response:
    status = _DELETED if info.is_marked_deleted else ()
    return error_response(404, headers=(*status, *_backend_headers(info)))


def _backend_headers(info: AccountInfo) -> HeaderList:
    """Headers with the state of this replica, for other replicas."""
    return [
        ("X-Backend-PUT-Timestamp", Timestamp(info.put_timestamp).internal),
        ("X-Backend-DELETE-Timestamp", Timestamp(info.delete_timestamp).internal),
    ]
