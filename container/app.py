# SPDX-License-Identifier: Apache-2.0
"""The container server: Swift's backend protocol over container databases (wire-container.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from container.config import ContainerOptions
from container.database import ContainerDatabase, PolicyConflict
from container.feeder import Feeder
from container.grid_update import GridUpdate, read_update
from container.immediate_report import report_to_account
from container.info import ContainerInfo
from container.listing_rows import object_entry, render_rows, version_entry
from container.listing_scope import NamesGivenAway
from container.merges import Merged
from container.record import NULL, Record, parse_record
from container.report_answer import REPORTED_AT
from container.reporter import Reporter
from container.row_requests import row_of_delete, row_of_put, rows_of_update, version_rows
from container.shard_reports import STATS_ONLY, ShardReports
from container.shard_requests import (
    OWN_NAMES,
    RECORD_TYPE,
    SHARDS_EMPTY,
    ranges_of_put,
    record_type,
    redirect_of_row,
    redirect_of_rows,
    scope_of,
    shard_listing,
    takes_redirect,
)
from container.shard_rows import UNSHARDED, root_of
from container.state_headers import not_found, state_headers
from container.sync_target import SYNC_TO, check_sync_target, restarting_sync
from container.version_listing import VersionQuery
from martlet.conf.cluster import ClusterConf
from martlet.conf.options import is_true
from martlet.conf.sync_realms import SyncRealms
from martlet.grid.handlers import GridCall
from martlet.grid.handlers import Handler as GridHandler
from martlet.http.listing import JSON, listing_content_type, render_container
from martlet.http.request import Request
from martlet.http.response import Response, error_response, http_error
from martlet.service.gate import Admits, admits_all
from martlet.service.server import ServerOptions
from martlet.words.timestamp import Timestamp
from ring.ring import Ring
from storage.errors import DatabaseExists, DatabaseMissing
from storage.grid_payloads import pack, pack_answer
from storage.metadata import Metadata, check_total, metadata_of_request
from storage.replicate_requests import Hooks, ReplicateRequests
from storage.storage_server import (
    RequestName,
    StorageServer,
    empty_response,
    listing_query,
    listing_response,
    state_response,
)

SAVED_HEADERS = frozenset(
    {
        "x-container-read",
        "x-container-write",
        "x-container-sync-key",
        SYNC_TO,
        "x-versions-location",
    }
)
_LISTING_PARAMETERS = ("path",)
#: The answer over the grid to an UPDATE that is durable.
_UPDATED = pack(202, {}, b"")


class ContainerServer(StorageServer):
    """The WSGI application."""

    kind = "containers"
    name = "container"
    options_class = ContainerOptions

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
        self.pool = self.pool_of(
            lambda path: ContainerDatabase(path, self.assert_device_there), options
        )
        self.reporter = Reporter(
            options,
            server.devices,
            self.pool,
            self._client,
            lambda: Ring(f"{server.swift_dir}/account.ring.gz", self._hash_path),
            ShardReports(
                self._client,
                lambda: Ring(f"{server.swift_dir}/container.ring.gz", self._hash_path),
            ).send,
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
            "REPLICATE": ReplicateRequests(
                self, self.pool, Hooks(parse_record, self.is_of_hash, self._has_changed)
            ),
            "SNAPSHOT": self.snapshot,
        }

    def _has_changed(self, path: str, is_misplaced: bool) -> None:
        self.reporter.mark_changed(path)
        if is_misplaced:
            self.feeder.mark_misplaced(path)

    def head(self, req: Request) -> Response:
        """Answers 204 with the container's state, or 404."""
        device, partition, account, container = self.split(req, 4, 4)
        content_type = listing_content_type(req.params.get("format"), req.headers.get("accept"))
        path = self.database_path(self.device_path(device), partition, account, container)
        with self.pool.use(path) as database:
            try:
                info = database.info()
            except DatabaseMissing:
                return not_found(None)
        if info.is_deleted:
            return not_found(info)
        return state_response(state_headers(info), content_type)

    def get(self, req: Request) -> Response:
        """Answers 200 with a listing, 204 if a listing in plain text is empty, 404, or 412 if the
        limit is too high. 409 says that rows of these names are in shards.
        """
        device, partition, account, container = self.split(req, 4, 4)
        limit_max = self.cluster.constraints.container_listing_limit
        query = listing_query(req, limit_max, _LISTING_PARAMETERS)
        content_type = listing_content_type(req.params.get("format"), req.headers.get("accept"))
        policy = self.policy_index(req)
        path = self.database_path(self.device_path(device), partition, account, container)
        versions = _version_query(req)
        scope, records = scope_of(req), record_type(req)
        with self.pool.use(path) as database:
            try:
                if records == "shard":
                    return shard_listing(req, database)
                if records == "version":
                    return version_rows(req, database, policy)
                if versions is None:
                    info, rows = database.list_objects(query, policy, scope)
                else:
                    info, rows = database.list_versions(query, policy, versions, scope)
                if scope.unless_sharded and info.sharding_state != UNSHARDED:
                    return shard_listing(req, database)
            except DatabaseMissing:
                return not_found(None)
            except NamesGivenAway:
                raise http_error(409, f"Names of {OWN_NAMES} are in shards") from None
        if info.is_deleted:
            return not_found(info)
        headers = state_headers(info)
        policy = info.storage_policy_index if policy is None else policy
        headers.append((RECORD_TYPE, "object"))
        headers.append(("X-Backend-Record-Storage-Policy-Index", str(policy)))
        shown = "/" + "/".join(root_of(info.raw_metadata, account, container))
        if content_type == JSON and versions is None:
            body = render_rows(rows, shown)
        else:
            entry = object_entry if versions is None else version_entry
            entries = [entry(row, shown) for row in rows]
            body = render_container(entries, content_type, container)
        return listing_response(headers, body, content_type)

    def put(self, req: Request) -> Response:
        """Answers for a container: 201 created, 202 existed, 404 if no replica has the account, 409
        if the request is older than the deletion or has another policy. For an object row: 201,
        404.
        """
        device, partition, account, container, obj = self.split(req, 4, 5, rest=True)
        timestamp = req.timestamp
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account, container)
        if obj:
            row = row_of_put(req, obj, self.policy_index(req) or 0)
            place = path, account, container
            merged = self._merge(
                place, [row], timestamp, self._policy_of_new(req), takes_redirect(req)
            )
            return redirect_of_row(req, merged, obj) or empty_response(201)
        if record_type(req) == "shard":
            return self._put_ranges(req, path, (account, container))
        requested = self.policy_index(req)
        new_policy = self._default_policy(req) if requested is None else requested
        updates = self._metadata(req, timestamp)
        with self.pool.use(path) as database:
            try:
                with restarting_sync(database, updates):
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
        self._report(req, path, info)
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
        while True:
            try:
                return database.put(timestamp, requested, new_policy, updates, self._check)
            except DatabaseMissing:
                if self.is_restored(req, database, account, container):
                    continue
                self._check(updates)
            info = self._create(database, account, container, timestamp, new_policy, updates)
            if info is not None:
                return True, info

    @staticmethod
    def _create(
        database: ContainerDatabase,
        account: str,
        container: str,
        timestamp: Timestamp,
        policy: int,
        metadata: Metadata,
    ) -> ContainerInfo | None:
        """Create a container; return its state, or None if another request was faster."""
        try:
            return database.create(account, container, timestamp.internal, policy, metadata)
        except DatabaseExists:
            return None

    def _default_policy(self, req: Request) -> int:
        asked = self.policy_index(req, "X-Backend-Storage-Policy-Default")
        return self.cluster.default_policy.index if asked is None else asked

    def _report(self, req: Request, path: str, info: ContainerInfo) -> None:
        """Tell the account replicas that the request names, or else all of them soon.

        :raises HTTPException: 404 if each of them says that there is no such account.
        """
        is_told = False
        try:
            is_told = report_to_account(self._client, req, info)
        finally:
            self.reporter.mark_changed(path, info if is_told else None)

    def post(self, req: Request) -> Response:
        """Answers 204 or 404."""
        device, partition, account, container = self.split(req, 4, 4)
        timestamp = req.timestamp
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account, container)
        keeps_time = is_true(req.headers.get("x-backend-no-timestamp-update"))
        put_timestamp = None if keeps_time else timestamp.internal
        updates = self._metadata(req, timestamp)
        with (
            self.pool.use(path) as database,
            restarting_sync(database, updates),
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
        """Answers for a container: 204, 404, 409 if it holds objects or was put later. For an
        object row: 204, 404.
        """
        device, partition, account, container, obj = self.split(req, 4, 5, rest=True)
        timestamp = req.timestamp
        path = self.database_path(self.device_path(device), partition, account, container)
        if obj:
            row = row_of_delete(req, obj, self.policy_index(req) or 0)
            place = path, account, container
            merged = self._merge(
                place, [row], timestamp, self._policy_of_new(req), takes_redirect(req)
            )
            return redirect_of_row(req, merged, obj) or empty_response(204)
        checked = req.headers.get(SHARDS_EMPTY)
        with self.pool.use(path) as database:
            before, info = self.or_restored(
                req,
                database,
                account,
                container,
                lambda: database.delete(timestamp.internal, checked),
            )
        if not before.is_empty or (before.sharding_state != UNSHARDED and not info.is_deleted):
            state = {"X-Backend-Sharding-State": before.sharding_state}
            raise http_error(409, "The container is not empty", state)
        if not info.is_deleted:
            raise http_error(409, "The container was put later")
        self._report(req, path, info)
        # If this database was copied from another replica, the copy may include this request.
        existed = not before.is_deleted or Timestamp(before.delete_timestamp) == timestamp
        existed = existed and bool(Timestamp(before.put_timestamp))
        return empty_response(204) if existed else not_found(None)

    def update(self, req: Request) -> Response:
        """Answers 202 if every row of the JSON list is durable, 400 if none was, 404 or 413.

        301 says that some belong into shards, and that the others are durable.
        """
        device, partition, account, container = self.split(req, 4, 4)
        device_path = self.device_path(device, for_writing=True)
        path = self.database_path(device_path, partition, account, container)
        rows = rows_of_update(req, self._max_update_bytes)
        place = path, account, container
        merged = self._merge(
            place, rows, req.timestamp, self._policy_of_new(req), takes_redirect(req)
        )
        return redirect_of_rows(merged) or empty_response(202)

    def grid_handlers(self, admits: Admits = admits_all) -> dict[str, GridHandler]:
        """The handlers of requests over the grid, by name."""
        serve_update = partial(self._serve_update, admits)
        return {**super().grid_handlers(admits), "container.update": serve_update}

    def _serve_update(self, admits: Admits, call: GridCall) -> bytes:
        """Answer as ``update``, without a request and without JSON."""
        update = read_update(call.payload)
        if not admits(update.device, "UPDATE"):
            return pack_answer(call, "UPDATE", error_response(529))
        name = RequestName("UPDATE", update.path, "-")
        respond = partial(self._update_over_grid, update, len(call.payload))
        response = self.serve_within_limits(update.device, name, respond)
        return _UPDATED if response.status == 202 else pack_answer(call, "UPDATE", response)

    def _update_over_grid(self, update: GridUpdate, size: int) -> Response:
        update.check_names()
        device_path = self.device_path(update.device, for_writing=True)
        account, container = update.account, update.container
        path = self.database_path(device_path, str(update.partition), account, container)
        if size > self._max_update_bytes:
            raise http_error(413, f"An UPDATE may have {self._max_update_bytes} bytes")
        records = update.records()
        timestamp = update.parsed_timestamp()

        def policy_of_new(account: str) -> int | None:
            if not self._creates_itself(account, None):
                return None
            self.check_policy(update.policy_index, f"storage policy {update.policy_index}")
            return update.policy_index

        place = path, account, container
        merged = self._merge(place, records, timestamp, policy_of_new, update.is_redirected)
        return redirect_of_rows(merged) or empty_response(202)

    def _put_ranges(self, req: Request, path: str, names: tuple[str, str]) -> Response:
        """Merge shard ranges, with system metadata. Answers 201 for a new shard, 202, 404, 400.

        A deleted container takes them, too: it has the same shards if it is created again.
        """
        ranges, timestamp = ranges_of_put(req), req.timestamp
        is_report = is_true(req.headers.get(STATS_ONLY))
        updates = self._metadata(req, timestamp)
        asked = self.policy_index(req)
        policy = self._default_policy(req) if asked is None else asked
        is_new, later = False, None
        with self.pool.use(path) as database:
            while True:
                try:
                    if is_report:
                        later = database.merge_shard_stats(ranges)
                    else:
                        database.put_ranges(ranges, timestamp.internal, updates, self._check)
                    break
                except DatabaseMissing:
                    if not is_true(req.headers.get("x-backend-auto-create")):
                        self.restore(database, *names)
                        continue
                info = self._create(database, *names, timestamp, policy, {})
                is_new = info is not None
        # A parent that changes ranges sends them here, too. It has put its estimate of a shard in
        # place of what was reported meanwhile, and would keep that while nothing changes here.
        self.reporter.mark_changed(path, is_repeat=not is_report)
        headers = [] if later is None else [(REPORTED_AT, later.internal)]
        return empty_response(201 if is_new else 202, headers)

    def _merge(
        self,
        place: tuple[str, str, str],
        records: list[Record],
        timestamp: Timestamp,
        policy_of_new: Callable[[str], int | None],
        is_redirected: bool,
    ) -> Merged:
        """Merge rows; a missing container is created if ``policy_of_new`` names its policy.

        :param place: the path of the database, the account and the container.
        :param is_redirected: rows that belong into a shard are left to the sender.
        :raises HTTPException: 404 if the container does not exist and is not created.
        """
        path, account, container = place
        with self.pool.use(path) as database:
            while True:
                try:
                    merged: Merged = database.merge_rows(records, is_redirected)
                    if merged.is_misplaced:
                        self.feeder.mark_misplaced(path)
                    break
                except DatabaseMissing:
                    policy = policy_of_new(account)
                    if policy is None:
                        self.restore(database, account, container)
                        continue
                # The offset of an object's timestamp means nothing for the container.
                created_at = Timestamp.from_ticks(timestamp.ticks)
                self._create(database, account, container, created_at, policy, {})
        self.reporter.mark_changed(path)
        return merged

    def _policy_of_new(self, req: Request) -> Callable[[str], int | None]:
        """The policy of a container that the rows of a request create; None: they do not."""

        def find(account: str) -> int | None:
            if not self._creates_itself(account, req.headers.get("x-backend-auto-create")):
                return None
            policy = self.policy_index(req)
            if policy is None and req.method == "UPDATE":
                raise http_error(400, "X-Backend-Storage-Policy-Index header is required")
            return policy or 0

        return find

    def _creates_itself(self, account: str, asked: str | None) -> bool:
        if asked is not None:
            return is_true(asked)
        prefix = self.cluster.constraints.auto_create_account_prefix
        return account.startswith(prefix) and not account.startswith(f"{prefix}shards_")

    def _metadata(self, req: Request, timestamp: Timestamp) -> Metadata:
        """
        :raises HTTPException: 400 if the container cannot be copied to the sync target.
        """
        check_sync_target(req, self._realms, self._allowed_sync_hosts)
        return metadata_of_request(req.headers, "container", SAVED_HEADERS, timestamp.internal)

    def _check(self, metadata: Metadata) -> None:
        check_total(metadata, "container", self.cluster.constraints)


def _version_query(req: Request) -> VersionQuery | None:
    """The parameters of a listing of versions. None: the request lists objects, not versions.

    :raises HTTPException: 400 if version_marker is not a version id.
    """
    if "versions" not in req.params:
        return None
    names_null = req.params["versions"] == NULL
    marker = req.params.get("version_marker", "")
    if marker in ("", NULL):
        return VersionQuery(marker, names_null)
    try:
        return VersionQuery(Timestamp(marker).internal, names_null)
    except ValueError:
        raise http_error(400, "invalid version_marker param") from None
