# SPDX-License-Identifier: Apache-2.0
"""The WSGI base of the account and the container server: paths, devices, errors, responses.

Only this module converts the errors of a request to responses: bad input 4xx, a device that is
missing, full or failing 507, a damaged database 500.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import FileIO
from typing import Any, NamedTuple, Self, TypeVar

from martlet.conf.cluster import CONF_NAME, ClusterConf
from martlet.conf.constraints import ConstraintError
from martlet.conf.options import is_true, load_options, option
from martlet.grid.handlers import GridCall
from martlet.grid.handlers import Handler as GridHandler
from martlet.grid.http_login import Logins
from martlet.http.backend_client import BackendClient
from martlet.http.environ import Environ, HeaderList, StartResponse
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response, error_response, http_error
from martlet.log import fields, get_logger, log_request
from martlet.metrics.requests import requests
from martlet.service.descriptors import databases_max
from martlet.service.disk_calls import limits, on_disk
from martlet.service.gate import Admits, MakesSpans, admits_all
from martlet.service.release import RUNNING
from martlet.service.server import ServerOptions, read_server_options
from martlet.words.names import BadNameError, check_text, wsgi_to_str
from ring.device_marker import DeviceMarkers
from ring.hashing import HashPath
from ring.ring import Ring
from storage.database import Database
from storage.database_copy import remove_scratch_file
from storage.database_files import database_path, device_path_of
from storage.database_pool import DESCRIPTORS_EACH, AnyDatabase, DatabasePool
from storage.device_check import DeviceCheck, parse_reserve
from storage.errors import DatabaseError, DatabaseMissing, DeviceBusy, DeviceStuck, ProcessLost
from storage.grid_payloads import PARTITION_MAX, pack_answer, read_request
from storage.long_work import TooMuchWork, long_work
from storage.name_listing import ListingQuery
from storage.peers import Verdict
from storage.restorer import Restorer

Handler = Callable[[Request], Response]
T = TypeVar("T")

#: The header with which the proxy says that the account or container exists.
RESTORE_HEADER = "X-Backend-Restore"
# With this header the proxy does not count the answer as a failure of the device.
_CANNOT_SAY = {"X-Backend-Doubt": "unknown"}
#: The size of the pieces in which a copy of a database is sent.
_COPY_PIECE_BYTES = 1 << 20

# The number of a partition in its only spelling, because the text names a directory.
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII).fullmatch
_SMALL_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch
#: The methods whose requests come over the grid, too. A copy of a database does not: it is large.
_GRID_METHODS = ("PUT", "GET", "HEAD", "POST", "DELETE")


class RequestName(NamedTuple):
    """The words of the log for a request; ``path`` is a WSGI string."""

    method: str
    path: str
    trans_id: str


@dataclass(frozen=True)
class StorageOptions:
    """The common options of the account and the container server."""

    log_requests: bool = option(True, "Log a line for each request")
    fallocate_reserve: str = option("1%", "Space to keep free on a device", "bytes or %")
    database_pool_size: int = option(256, "Most unused databases kept open")
    threads_per_disk: int = option(4, "Parallel calls to a device, in each worker")
    disk_timeout: float = option(10.0, "Time without an answer after which a device is stuck", "s")
    conn_timeout: float = option(0.5, "Longest wait for a connection to another server", "s")
    node_timeout: float = option(3.0, "Longest wait for another server's answer", "s")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        if self.database_pool_size < 1:
            raise ValueError("database_pool_size must be at least 1")
        if self.threads_per_disk < 1:
            raise ValueError("threads_per_disk must be at least 1")
        for name in ("disk_timeout", "conn_timeout", "node_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        parse_reserve(self.fallocate_reserve)


class StorageServer:
    """A WSGI application over the databases on the devices of this server.

    Subclasses set ``kind`` (``accounts`` or ``containers``), ``name``, ``options_class`` and
    ``handlers``.
    """

    kind: str
    name: str
    options_class: type[StorageOptions]
    pool: DatabasePool[Any]

    def __init__(
        self, options: StorageOptions, cluster: ClusterConf, server: ServerOptions
    ) -> None:
        self.cluster = cluster
        self.devices = server.devices
        self._log_requests = options.log_requests
        self._device_check = DeviceCheck(
            server.devices,
            server.mount_check,
            options.fallocate_reserve,
            DeviceMarkers(cluster.hash, server.mount_check),
        )
        limits.threads_per_disk = options.threads_per_disk
        limits.disk_timeout = options.disk_timeout
        #: For databases, which call it in native threads.
        self.assert_device_there = self._device_check.assert_there
        self._requests_of_device_max = max(1, server.max_clients // 2)
        self._requests_of_device: Counter[str] = Counter()
        self._hash_path = HashPath.from_conf(f"{server.swift_dir}/{CONF_NAME}")
        self._client = BackendClient(
            options.conn_timeout,
            options.node_timeout,
            start_login=Logins(cluster.grid.secrets, cluster.grid.plain_http),
            secure=cluster.grid.secure(),
        )
        self.restorer = Restorer(
            self.name,
            self._client,
            lambda: Ring(f"{server.swift_dir}/{self.name}.ring.gz", self._hash_path),
            lambda path: self.device_path(os.path.basename(device_path_of(path)), for_writing=True),
        )
        self.log = get_logger(f"martlet.{self.name}")
        self.handlers: dict[str, Handler] = {}
        self._spans: MakesSpans | None = None

    @classmethod
    def from_conf(cls, global_conf: Mapping[str, str], local_conf: Mapping[str, str]) -> Self:
        """The application of PasteDeploy's ``[DEFAULT]`` and ``[app:<name>-server]``.

        :raises ConfigError: a section cannot be used.
        """
        server = read_server_options(global_conf, "[DEFAULT]")
        options = load_options(cls.options_class, local_conf, f"[app:{cls.name}-server]")
        return cls(options, ClusterConf.load(server.swift_dir), server)

    @staticmethod
    def pool_of(
        open_database: Callable[[str], AnyDatabase], options: StorageOptions
    ) -> DatabasePool[AnyDatabase]:
        """The pool of this server's databases."""
        limit = databases_max(options.database_pool_size, DESCRIPTORS_EACH)
        return DatabasePool(open_database, limit)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self._serve(Request(environ))(environ, start_response)

    def grid_handlers(self, admits: Admits = admits_all) -> dict[str, GridHandler]:
        """The handlers of requests over the grid (doc/formats/grid-messages.md), by name.

        :param admits: whether a request is within the limits of the filters; it counts then.
        """
        return {
            f"{self.name}.{method.lower()}": partial(self._serve_grid, admits, method)
            for method in _GRID_METHODS
        }

    def _serve_grid(self, admits: Admits, method: str, call: GridCall) -> bytes:
        req = read_request(method, call)
        device = req.environ["PATH_INFO"].lstrip("/").partition("/")[0]
        response = self._serve(req) if admits(device, method) else error_response(529)
        return pack_answer(call, method, response)

    def use_spans(self, filter_: MakesSpans) -> None:
        """Ask this filter for the span of each request."""
        self._spans = filter_

    def _serve(self, req: Request) -> Response:
        span = None if self._spans is None else self._spans.begin_span(req)
        if span is None:
            return self._serve_untraced(req)
        try:
            response = self._serve_untraced(req)
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        span.end(response.status)
        return response

    def _serve_untraced(self, req: Request) -> Response:
        path: str = req.environ["PATH_INFO"]
        device = path.lstrip("/").partition("/")[0]
        name = RequestName(req.method, path, req.headers.get("X-Trans-Id") or "-")
        return self.serve_within_limits(device, name, partial(self._respond, req))

    def serve_within_limits(
        self, device: str, name: RequestName, respond: Callable[[], Response]
    ) -> Response:
        """Answer a request for a device: 529 above the limit of requests, else ``respond``.

        Errors become responses, and the request gets its line in the log.
        """
        started = time.monotonic()
        if self._requests_of_device[device] >= self._requests_of_device_max:
            # A device that is slow or stuck must not occupy the places of other devices.
            refusal = error_response(529)
            requests.add(name.method, "", 529, 0.0)
            if self._log_requests:
                self._log(name, refusal, 0.0)
            return refusal
        self._requests_of_device[device] += 1
        try:
            response = self._without_errors(name, respond)
        finally:
            self._requests_of_device[device] -= 1
            if not self._requests_of_device[device]:
                del self._requests_of_device[device]
        seconds = time.monotonic() - started
        requests.add(name.method, "", response.status, seconds)
        if self._log_requests:
            self._log(name, response, seconds)
        return response

    def _respond(self, req: Request) -> Response:
        try:
            check_text(req.path)
        except BadNameError as error:
            return error_response(412, str(error))
        handler = self.handlers.get(req.method)
        return self._unhandled(req) if handler is None else handler(req)

    def _without_errors(self, name: RequestName, respond: Callable[[], Response]) -> Response:
        try:
            return respond()
        except HTTPException as error:
            return error.response
        except ConstraintError as error:
            return error_response(error.status, str(error))
        except BadNameError as error:
            return error_response(400, str(error))
        except DatabaseError as error:
            # A device that does not answer has been logged already, once; a busy one is no failure.
            is_known = isinstance(error, DeviceBusy | DeviceStuck | ProcessLost)
            if error.status >= 500 and not is_known:
                self.log.error("database error %s", fields(error=error, trans_id=name.trans_id))
            return error_response(error.status, error.reason if error.status < 500 else "")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
                self.log.error("device failed %s", f"{_fields_of(name)} {fields(error=error)}")
                return error_response(507)
            self.log.exception("request failed %s", _fields_of(name))
            return error_response(500)
        except Exception:
            self.log.exception("request failed %s", _fields_of(name))
            return error_response(500)

    def _unhandled(self, req: Request) -> Response:
        allow = {"Allow": ", ".join(sorted([*self.handlers, "OPTIONS"]))}
        if req.method != "OPTIONS":
            return error_response(405, headers=allow)
        # Monitoring asks for the kind of a server.
        return Response(200, {**allow, "Server": f"{self.name}-server/{RUNNING}"})

    def _log(self, name: RequestName, response: Response, seconds: float) -> None:
        transaction = "" if name.trans_id == "-" else f" trans_id={name.trans_id}"
        log_request(
            self.log,
            f"request method={name.method} path={name.path} "
            f"status={response.status} seconds={seconds:.4f}{transaction}",
        )

    def split(self, req: Request, minsegs: int, maxsegs: int, rest: bool = False) -> list[str]:
        """Split the path into device, partition and names; missing names are empty strings.

        :raises HTTPException: 400 for a path of another form.
        """
        try:
            segments = [s or "" for s in req.split_path(minsegs, maxsegs, rest)]
        except ValueError as error:
            raise http_error(400, str(error)) from None
        if not _PARTITION(segments[1]) or int(segments[1]) > PARTITION_MAX:
            raise http_error(400, "The partition must be a number of 32 bits")
        return segments

    def device_path(self, device: str, for_writing: bool = False) -> str:
        """The directory of a device.

        :raises HTTPException: 400 if no device can have that name; 507 if it is missing, not
            mounted, too full to write to, or stuck.
        """
        return self._device_check.usable_path(device, for_writing)

    def database_path(
        self, device_path: str, partition: str, account: str, container: str | None = None
    ) -> str:
        """The database file of an account or container."""
        hexdigest = self._hash_path.hexdigest(account, container)
        return database_path(device_path, self.kind, partition, hexdigest)

    def is_of_hash(self, names: Mapping[str, str], hexdigest: str) -> bool:
        """Whether a database of these names, of the account and container, has this hash."""
        return self._hash_path.hexdigest(*names.values()) == hexdigest

    def snapshot(self, req: Request) -> Response:
        """Answer 200 with the database, deleted or not, as one SQLite file; or 404, or 529."""
        segments = 3 if self.kind == "accounts" else 4
        device, partition, *names = self.split(req, segments, segments)
        device_path = self.device_path(device, for_writing=True)
        with self.pool.use(self.database_path(device_path, partition, *names)) as database:
            return self.copy_of(database)

    def copy_of(self, database: Database) -> Response:
        """Answer 200 with a copy of a database.

        :raises HTTPException: 529 if too many copies of the device are made.
        """
        device_path = device_path_of(database.path)
        try:
            with long_work(device_path):
                file = database.copy()
        except TooMuchWork:
            raise http_error(529) from None
        handle, size = on_disk(device_path, _open_and_unlink, file)
        response = Response(200, app_iter=_pieces(device_path, handle))
        response.headers["Content-Type"] = "application/vnd.sqlite3"
        response.headers["Content-Length"] = str(size)
        return response

    def restore(self, database: Database, account: str, container: str | None = None) -> None:
        """Restore a missing database from its other replicas.

        :raises HTTPException: 404 if none of them has it, 503 while that is unknown.
        """
        verdict = self.restorer.restore(database, account, container)
        if verdict is Verdict.ABSENT:
            raise http_error(404)
        if verdict is not Verdict.COPIED:
            raise http_error(503, "", _CANNOT_SAY)

    def or_restored(
        self,
        req: Request,
        database: Database,
        account: str,
        container: str | None,
        action: Callable[[], T],
    ) -> T:
        """Return the result of an action on a database.

        If the database is missing and the proxy says that it exists, it is restored first.

        :raises HTTPException: as for ``restore``.
        """
        try:
            return action()
        except DatabaseMissing:
            if not is_true(req.headers.get(RESTORE_HEADER)):
                raise
        self.restore(database, account, container)
        return action()

    def is_restored(
        self, req: Request, database: Database, account: str, container: str | None = None
    ) -> bool:
        """Restore a database before a PUT would create it; return whether it was restored.

        A PUT does not wait for a replica that does not answer: it creates the database.

        :raises HTTPException: 503 while a restore is possible: a new, empty database would stay.
        """
        if not is_true(req.headers.get(RESTORE_HEADER)):
            return False
        verdict = self.restorer.restore(database, account, container)
        if verdict is Verdict.LATER:
            raise http_error(503, "", _CANNOT_SAY)
        return verdict is Verdict.COPIED

    def policy_index(
        self, req: Request, header: str = "X-Backend-Storage-Policy-Index"
    ) -> int | None:
        """The index of the storage policy in a header, or None without the header.

        :raises HTTPException: 400 if there is no such policy.
        """
        text = req.headers.get(header)
        if text is None:
            return None
        index = int(text) if _SMALL_NUMBER(text) else -1
        self.check_policy(index, f"{header} {text[:32]!r}")
        return index

    def check_policy(self, index: int, words: str) -> None:
        """
        :raises HTTPException: 400 if there is no such policy; ``words`` name it.
        """
        if self.cluster.policy_by_index(index) is None:
            raise http_error(400, f"Invalid {words}")


def _fields_of(name: RequestName) -> str:
    """The fields of a log line that identify the request."""
    path = wsgi_to_str(name.path)  # it was checked before
    return fields(method=name.method, path=path, trans_id=name.trans_id)


def listing_query(req: Request, limit_max: int, parameters: Collection[str]) -> ListingQuery:
    """Parse the query of a listing; ``path`` only if ``parameters`` has it.

    :raises HTTPException: 412 for a limit above ``limit_max``.
    :raises BadNameError: a parameter is not UTF-8.
    """
    params = req.params
    text = params.get("limit", "")
    limit = limit_max
    if text.isascii() and text.isdigit():
        limit = int(text) if len(text) <= 18 else limit_max + 1
        if limit > limit_max:
            raise http_error(412, f"Maximum limit is {limit_max}")
    return ListingQuery(
        limit=limit,
        marker=params.get("marker", ""),
        end_marker=params.get("end_marker", ""),
        prefix=params.get("prefix", ""),
        delimiter=params.get("delimiter", ""),
        is_reversed=is_true(params.get("reverse")),
        path=params.get("path") if "path" in parameters else None,
    )


def empty_response(status: int, headers: Iterable[tuple[str, str]] = ()) -> Response:
    """A response without a body; the explicit Content-Length keeps the connection open."""
    response = Response(status, headers)
    response.headers["Content-Length"] = "0"
    return response


def state_response(headers: HeaderList, content_type: str) -> Response:
    """The answer to a HEAD of what exists: 204, with the media type that a listing would have."""
    response = empty_response(204, headers)
    response.headers["Content-Type"] = f"{content_type}; charset=utf-8"
    return response


def listing_response(headers: HeaderList, body: bytes, content_type: str) -> Response:
    """The answer to a GET of what exists: 200 with the listing, 204 if its body is empty."""
    response = Response(200 if body else 204, headers, body)
    response.headers["Content-Type"] = f"{content_type}; charset=utf-8"
    response.headers["Content-Length"] = str(len(body))
    return response


def _open_and_unlink(file: str) -> tuple[FileIO, int]:
    """Open a file and unlink it, so that closing deletes it; return it with its size."""
    handle = open(file, "rb", buffering=0)  # noqa: SIM115  # the response closes it
    remove_scratch_file(file)
    return handle, os.fstat(handle.fileno()).st_size


def _pieces(device_path: str, handle: FileIO) -> Iterator[bytes]:
    with handle:
        while piece := on_disk(device_path, handle.read, _COPY_PIECE_BYTES):
            yield piece
