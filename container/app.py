# SPDX-License-Identifier: Apache-2.0
"""The container server: Swift's backend protocol over container databases (wire-container.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from container.account_updates import AccountReplica, send_to_account
from container.config import ContainerOptions
from container.database import ContainerDatabase, ContainerInfo, PolicyConflict
from container.feeder import Feeder
from container.listing_rows import object_entry, render_rows, version_entry
from container.record import (
    NULL,
    InvalidRecord,
    Record,
    parse_record,
)
from container.reporter import Reporter
from container.sync_rows import SyncPoints, set_points
from martlet.conf.cluster import ClusterConf
from martlet.conf.options import is_true, load_options
from martlet.conf.sync_realms import SyncRealms
from martlet.http.environ import HeaderList
from martlet.http.listing import JSON, listing_content_type, render_container
from martlet.http.request import Request
from martlet.http.response import Response, http_date, http_error
from martlet.service.server import ServerOptions, read_server_options
from martlet.words.names import quote_path, wsgi_to_str
from martlet.words.timestamp import Timestamp
from ring.ring import Ring
from storage.database_pool import DatabasePool
from storage.errors import DatabaseExists, DatabaseMissing
from storage.metadata import Metadata, check_total, metadata_of_request, shown_metadata
from storage.storage_server import StorageServer, empty_response, listing_query

SAVED_HEADERS = frozenset(
    {
        "x-container-read",
        "x-container-write",
        "x-container-sync-key",
        "x-container-sync-to",
        "x-versions-location",
    }
)
_SYNC_TO = "x-container-sync-to"
_LISTING_PARAMETERS = ("path",)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII).fullmatch
_ZERO = "0000000000.00000"


class ContainerServer(StorageServer):
    """The WSGI application."""

    kind = "containers"
    name = "container"

    def __init__(
        self,
        options: ContainerOptions,
        cluster: ClusterConf,
        server: ServerOptions,
    ) -> None:
        super().__init__(options, cluster, server)
        self._max_update_bytes = options.max_update_bytes
        self._allowed_sync_hosts = options.allowed_sync_hosts
        self._realms = SyncRealms(server.swift_dir)
        self.pool = DatabasePool(
            lambda path: ContainerDatabase(path, self.assert_device_there),
            options.database_pool_size,
        )
        self.reporter = Reporter(
            options,
            server.devices,
            self.pool,
            self._client,
            lambda: Ring(f"{server.swift_dir}/account.ring.gz", self._hash_path),
        )
        self.feeder = Feeder(
            self.pool,
            self._client,
            lambda: Ring(f"{server.swift_dir}/container.ring.gz", self._hash_path),
        )
        self.reporter.swept_too = self.feeder.look_at
        self.handlers = {
            "GET": self.get,
            "HEAD": self.head,
            "PUT": self.put,
            "POST": self.post,
            "DELETE": self.delete,
            "UPDATE": self.update,
            "SNAPSHOT": self.snapshot,
        }

    @classmethod
    def from_conf(
        cls, global_conf: Mapping[str, str], local_conf: Mapping[str, str]
    ) -> ContainerServer:
        """The application of PasteDeploy's ``[DEFAULT]`` and ``[app:container-server]``.

        :raises ConfigError: a section cannot be used.
        """
        server = read_server_options(global_conf, "[DEFAULT]")
        options = load_options(ContainerOptions, local_conf, "[app:container-server]")
        return cls(options, ClusterConf.load(server.swift_dir), server)

    def head(self, req: Request) -> Response:
        """204 with the container's state, 404."""
        device, partition, account, container = self.split(req, 4, 4)
        content_type = listing_content_type(req.params.get("format"), req.headers.get("accept"))
        path = self.database_path(self.device_path(device), partition, account, container)
        with self.pool.use(path) as database:
            try:
                info = database.info()
            except DatabaseMissing:
                return _not_found(None)
        if info.is_deleted:
            return _not_found(info)
        response = empty_response(204, _state_headers(info))
        response.headers["Content-Type"] = f"{content_type}; charset=utf-8"
        return response

    def get(self, req: Request) -> Response:
        """200 with a listing, 204 if it is empty in plain text, 404, 412 for a limit too high."""
        device, partition, account, container = self.split(req, 4, 4)
        limit_max = self.cluster.constraints.container_listing_limit
        query = listing_query(req, limit_max, _LISTING_PARAMETERS)
        content_type = listing_content_type(req.params.get("format"), req.headers.get("accept"))
        policy = self.policy_index(req)
        path = self.database_path(self.device_path(device), partition, account, container)
        version_marker = _version_marker(req)
        with self.pool.use(path) as database:
            try:
                if version_marker is None:
                    info, rows = database.list_objects(query, policy)
                else:
                    info, rows = database.list_versions(query, policy, version_marker)
            except DatabaseMissing:
                return _not_found(None)
        if info.is_deleted:
            return _not_found(info)
        headers = _state_headers(info)
        if req.headers.get("x-backend-record-type", "").lower() == "shard":
            rows = []  # a container that was never sharded has no shard ranges
            headers.append(("X-Backend-Record-Type", "shard"))
        else:
            policy = info.storage_policy_index if policy is None else policy
            headers.append(("X-Backend-Record-Type", "object"))
            headers.append(("X-Backend-Record-Storage-Policy-Index", str(policy)))
        container_path = f"/{account}/{container}"
        if content_type == JSON and version_marker is None:
            body = render_rows(rows, container_path)
        else:
            entry = object_entry if version_marker is None else version_entry
            entries = [entry(row, container_path) for row in rows]
            body = render_container(entries, content_type, container)
        response = Response(200 if body else 204, headers, body)
        response.headers["Content-Type"] = f"{content_type}; charset=utf-8"
        response.headers["Content-Length"] = str(len(body))
        return response

    def put(self, req: Request) -> Response:
        """Container: 201 created, 202 existed, 409 older than its deletion or of another policy,
        404 if no replica has the account. Object row: 201, 404.
        """
        device, partition, account, container, obj = self.split(req, 4, 5, rest=True)
        timestamp = req.timestamp
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account, container)
        if obj:
            return self._put_row(req, path, account, container, obj)
        requested = self.policy_index(req)
        new_policy = self._default_policy(req) if requested is None else requested
        updates = self._metadata(req, timestamp)
        with self.pool.use(path) as database:
            try:
                with self._following_sync_target(database, updates):
                    created, info = self._create_or_put(
                        req,
                        database,
                        account,
                        container,
                        timestamp,
                        (requested, new_policy),
                        updates,
                    )
            except PolicyConflict as conflict:
                index = str(conflict.policy_index)
                raise http_error(409, "", {"X-Backend-Storage-Policy-Index": index}) from None
        if info.is_deleted:
            raise http_error(409, "The container was deleted later")
        self.reporter.mark_changed(path)
        self._update_account(req, info)
        policy_header = ("X-Backend-Storage-Policy-Index", str(info.storage_policy_index))
        return empty_response(201 if created else 202, [policy_header])

    def _create_or_put(
        self,
        req: Request,
        database: ContainerDatabase,
        account: str,
        container: str,
        timestamp: Timestamp,
        policies: tuple[int | None, int],
        updates: Metadata,
    ) -> tuple[bool, ContainerInfo]:
        requested, new_policy = policies
        created = False
        while True:
            try:
                existed = database.put(timestamp, requested, new_policy, updates, self._check)
                return created or existed[0], existed[1]
            except DatabaseMissing:
                if self.is_restored(req, database, account, container):
                    continue
                self._check(updates)
                created = self._create(database, account, container, timestamp, new_policy, updates)

    @staticmethod
    def _create(
        database: ContainerDatabase,
        account: str,
        container: str,
        timestamp: Timestamp,
        policy: int,
        metadata: Metadata,
    ) -> bool:
        try:
            database.create(account, container, timestamp.internal, policy, metadata)
        except DatabaseExists:
            return False  # another request was faster
        return True

    def _default_policy(self, req: Request) -> int:
        asked = self.policy_index(req, "X-Backend-Storage-Policy-Default")
        return self.cluster.default_policy.index if asked is None else asked

    def _put_row(self, req: Request, path: str, account: str, container: str, obj: str) -> Response:
        headers = req.headers
        try:
            row = {
                "name": obj,
                "created_at": req.timestamp.internal,
                "size": int(headers["x-size"]),
                "content_type": wsgi_to_str(headers["x-content-type"]),
                "etag": wsgi_to_str(headers["x-etag"]),
                "storage_policy_index": self.policy_index(req) or 0,
                "ctype_timestamp": headers.get("x-content-type-timestamp"),
                "meta_timestamp": headers.get("x-meta-timestamp"),
                "version_id": headers.get("x-backend-version-id"),
            }
        except KeyError as error:
            raise http_error(400, f"Missing header {error}") from None
        except ValueError as error:
            raise http_error(400, f"Bad header: {error}") from None
        self._merge(req, path, account, container, [_record(row)])
        return empty_response(201)

    def post(self, req: Request) -> Response:
        """204, 404."""
        device, partition, account, container = self.split(req, 4, 4)
        timestamp = req.timestamp
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account, container)
        keeps_time = is_true(req.headers.get("x-backend-no-timestamp-update"))
        put_timestamp = None if keeps_time else timestamp.internal
        updates = self._metadata(req, timestamp)
        with (
            self.pool.use(path) as database,
            self._following_sync_target(database, updates),
        ):
            is_there = self.or_restored(
                req,
                database,
                account,
                container,
                lambda: database.post(put_timestamp, updates, self._check),
            )
            if not is_there:
                raise http_error(404)
        self.reporter.mark_changed(path)
        return empty_response(204)

    def delete(self, req: Request) -> Response:
        """Container: 204, 404, 409 if it holds objects or was put later. Object row: 204, 404."""
        device, partition, account, container, obj = self.split(req, 4, 5, rest=True)
        timestamp = req.timestamp
        path = self.database_path(self.device_path(device), partition, account, container)
        if obj:
            self._merge(req, path, account, container, [self._tombstone(req, obj)])
            return empty_response(204)
        with self.pool.use(path) as database:
            before, info = self.or_restored(
                req, database, account, container, lambda: database.delete(timestamp.internal)
            )
        if not before.is_empty:
            raise http_error(409, "The container is not empty")
        if not info.is_deleted:
            raise http_error(409, "The container was put later")
        self.reporter.mark_changed(path)
        self._update_account(req, info)
        # The replica that this one was made from may have had this very request already.
        existed = not before.is_deleted or Timestamp(before.delete_timestamp) == timestamp
        existed = existed and bool(Timestamp(before.put_timestamp))
        return empty_response(204) if existed else _not_found(None)

    def _tombstone(self, req: Request, obj: str) -> Record:
        return _record(
            {
                "name": obj,
                "created_at": req.timestamp.internal,
                "size": 0,
                "content_type": "application/deleted",
                "etag": "noetag",
                "deleted": 1,
                "storage_policy_index": self.policy_index(req) or 0,
                "version_id": req.headers.get("x-backend-version-id"),
            }
        )

    def update(self, req: Request) -> Response:
        """202 once every row of the JSON list is durable, 404, 400 with nothing taken, 413."""
        device, partition, account, container = self.split(req, 4, 4)
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account, container)
        records = self._read_records(req)
        self._merge(req, path, account, container, records)
        return empty_response(202)

    def _read_records(self, req: Request) -> list[Record]:
        length = req.content_length
        limit = self._max_update_bytes
        if length is None or length <= limit:
            body = req.body_file.read(limit + 1 if length is None else length)
        if (length or len(body)) > limit:
            raise http_error(413, f"An UPDATE may have {limit} bytes")
        if length is not None and len(body) < length:
            raise http_error(400, "The body is shorter than its Content-Length")
        try:
            items = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise http_error(400, f"The body is not JSON: {error}") from None
        if not isinstance(items, list):
            raise http_error(400, "The body is not a list of rows")
        return [_record(item) for item in items]

    def _merge(
        self, req: Request, path: str, account: str, container: str, records: list[Record]
    ) -> None:
        """
        :raises HTTPException: 404 if there is no such container and it does not create itself.
        """
        timestamp = req.timestamp
        with self.pool.use(path) as database:
            while True:
                try:
                    if database.merge(records):
                        self.feeder.mark_misplaced(path)
                    break
                except DatabaseMissing:
                    if not self._creates_itself(req, account):
                        self.restore(database, account, container)
                        continue
                policy = self.policy_index(req)
                if policy is None and req.method == "UPDATE":
                    raise http_error(400, "X-Backend-Storage-Policy-Index header is required")
                # An object's offset is of no meaning for the container.
                created_at = Timestamp.from_ticks(timestamp.ticks)
                self._create(database, account, container, created_at, policy or 0, {})
        self.reporter.mark_changed(path)

    def _creates_itself(self, req: Request, account: str) -> bool:
        asked = req.headers.get("x-backend-auto-create")
        if asked is not None:
            return is_true(asked)
        prefix = self.cluster.constraints.auto_create_account_prefix
        return account.startswith(prefix) and not account.startswith(f"{prefix}shards_")

    def _metadata(self, req: Request, timestamp: Timestamp) -> Metadata:
        """
        :raises HTTPException: (400) it names a cluster that the container cannot go to.
        """
        target = req.headers.get(_SYNC_TO)
        if target:
            try:
                self._realms.parse(wsgi_to_str(target), self._allowed_sync_hosts)
            except ValueError as error:
                raise http_error(400, str(error)) from None
        return metadata_of_request(req.headers, "container", SAVED_HEADERS, timestamp.internal)

    @staticmethod
    @contextmanager
    def _following_sync_target(database: ContainerDatabase, updates: Metadata) -> Iterator[None]:
        """Sync begins anew after a write that gives the container another target."""
        changed = {n: v for n, (v, _) in updates.items() if n.lower() == _SYNC_TO}
        before: Metadata = {}
        if changed:
            try:
                before = database.info().metadata
            except DatabaseMissing:
                changed = {}
        yield
        if any(before.get(name, ("", ""))[0] != value for name, value in changed.items()):
            set_points(database, SyncPoints(-1, -1))

    def _check(self, metadata: Metadata) -> None:
        check_total(metadata, "container", self.cluster.constraints)

    def _update_account(self, req: Request, info: ContainerInfo) -> None:
        """Tell the account replicas that the proxy names; what they miss now, the reporter brings.

        :raises HTTPException: 404 if every one of them says that there is no such account.
        """
        replicas = _account_replicas(req)
        if not replicas:
            return
        extra = {
            "X-Trans-Id": req.headers.get("x-trans-id", "-"),
            "Referer": f"{req.method} {quote_path(req.path)}",
        }
        if is_true(req.headers.get("x-account-override-deleted")):
            extra["X-Account-Override-Deleted"] = "yes"
        statuses = send_to_account(self._client, replicas, info, extra)
        if all(status == 404 for status in statuses):
            raise http_error(404)


def _record(item: Any) -> Record:
    try:
        return parse_record(item)
    except InvalidRecord as error:
        raise http_error(400, str(error)) from None


def _account_replicas(req: Request) -> list[AccountReplica]:
    """
    :raises HTTPException: 400 if the lists do not match or an address is malformed.
    """
    partition = req.headers.get("x-account-partition", "")
    hosts = [h.strip() for h in req.headers.get("x-account-host", "").split(",")]
    devices = [d.strip() for d in req.headers.get("x-account-device", "").split(",")]
    if len(hosts) != len(devices):
        raise http_error(400, "X-Account-Host and X-Account-Device differ in length")
    replicas = []
    for host, device in zip(hosts, devices, strict=True) if partition else ():
        ip, _, port = host.rpartition(":")
        if not ip or not _PORT(port) or not 0 < int(port) < 65536:
            raise http_error(400, "X-Account-Host is not a list of ip:port")
        replicas.append(AccountReplica((ip.strip("[]"), int(port)), device, partition))
    return replicas


def _not_found(info: ContainerInfo | None) -> Response:
    response = http_error(404).response
    for name, value in _backend_headers(info):
        response.headers[name] = value
    return response


def _backend_headers(info: ContainerInfo | None) -> HeaderList:
    stamps = (
        (info.created_at, info.put_timestamp, info.delete_timestamp, info.status_changed_at)
        if info is not None
        else (_ZERO,) * 4
    )
    names = ("Timestamp", "PUT-Timestamp", "DELETE-Timestamp", "Status-Changed-At")
    headers = [
        (f"X-Backend-{name}", Timestamp(stamp).internal)
        for name, stamp in zip(names, stamps, strict=True)
    ]
    policy = info.storage_policy_index if info is not None else 0
    headers.append(("X-Backend-Storage-Policy-Index", str(policy)))
    return headers


def _state_headers(info: ContainerInfo) -> HeaderList:
    headers = _backend_headers(info)
    put_timestamp = Timestamp(info.put_timestamp)
    headers += [
        ("X-Container-Object-Count", str(info.object_count)),
        ("X-Container-Bytes-Used", str(info.bytes_used)),
        ("X-Timestamp", Timestamp(info.created_at).normal),
        ("X-PUT-Timestamp", put_timestamp.normal),
        ("X-Backend-Sharding-State", "unsharded"),
        ("Last-Modified", http_date(put_timestamp.ceil())),
    ]
    headers += shown_metadata(info.metadata)
    return headers


def _version_marker(req: Request) -> str | None:
    """Where a listing of versions begins within the marker's name; None for one of objects.

    :raises HTTPException: 400 if it is no version id.
    """
    if "versions" not in req.params:
        return None
    marker = req.params.get("version_marker", "")
    if marker in ("", NULL):
        return marker
    try:
        return Timestamp(marker).internal
    except ValueError:
        raise http_error(400, "invalid version_marker param") from None
