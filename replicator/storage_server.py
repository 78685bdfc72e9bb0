# SPDX-License-Identifier: Apache-2.0
"""The WSGI base of the account and the container server: paths, devices, errors, responses.

Errors of a request become responses here and nowhere else: bad input 4xx, a device that is missing,
full or failing 507, a damaged database 500.
"""

from __future__ import annotations

import errno
import importlib.metadata
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from martlet.cluster_conf import CONF_NAME, ClusterConf
from martlet.config import is_true, option
from martlet.constraints import ConstraintError
from martlet.disk_calls import limits
from martlet.http import (
    Environ,
    HTTPException,
    Request,
    Response,
    StartResponse,
    error_response,
    http_error,
)
from martlet.log import fields, get_logger
from martlet.names import BadNameError, check_text
from martlet.server import ServerOptions
from replicator.database_files import database_path
from replicator.device_check import DeviceCheck, parse_reserve
from replicator.errors import DatabaseError, DeviceStuck, ProcessLost
from replicator.name_listing import ListingQuery
from ring.hashing import HashPath

Handler = Callable[[Request], Response]

_PARTITION = re.compile(r"[0-9]{1,10}", re.ASCII).fullmatch
_SMALL_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII).fullmatch


@dataclass(frozen=True)
class StorageOptions:
    """Options that the account and the container server have in common."""

    log_requests: bool = option(False, "Log a line for each request")
    fallocate_reserve: str = option("1%", "Space to keep free on a device", "bytes or %")
    database_pool_size: int = option(128, "Databases kept open while unused, at most")
    threads_per_disk: int = option(4, "Calls to a device at once, in each worker")
    disk_timeout: float = option(10.0, "Silence after which a device counts as hanging", "s")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        if self.database_pool_size < 1:
            raise ValueError("database_pool_size must be at least 1")
        if self.threads_per_disk < 1:
            raise ValueError("threads_per_disk must be at least 1")
        if self.disk_timeout <= 0:
            raise ValueError("disk_timeout must be above 0")
        parse_reserve(self.fallocate_reserve)


class StorageServer:
    """A WSGI application over the databases on the devices of this server.

    Subclasses set ``kind`` (``accounts`` or ``containers``) and ``handlers``.
    """

    kind: str
    name: str

    def __init__(
        self, options: StorageOptions, cluster: ClusterConf, server: ServerOptions
    ) -> None:
        self.cluster = cluster
        self.devices = server.devices
        self._log_requests = options.log_requests
        self._device_check = DeviceCheck(
            server.devices, server.mount_check, options.fallocate_reserve
        )
        limits.threads_per_disk = options.threads_per_disk
        limits.disk_timeout = options.disk_timeout
        #: For databases, which call it in native threads.
        self.assert_device_there = self._device_check.assert_there
        self._requests_of_device_max = max(1, server.max_clients // 2)
        self._requests_of_device: Counter[str] = Counter()
        self._hash_path = HashPath.from_conf(f"{server.swift_dir}/{CONF_NAME}")
        self.log = get_logger(f"martlet.{self.name}")
        self.handlers: dict[str, Handler] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        started = time.monotonic() if self._log_requests else 0.0
        req = Request(environ)
        device = environ["PATH_INFO"].lstrip("/").partition("/")[0]
        if self._requests_of_device[device] >= self._requests_of_device_max:
            # One device that is slow or hangs must leave the places of others.
            return error_response(529)(environ, start_response)
        self._requests_of_device[device] += 1
        try:
            response = self._respond(req)
        finally:
            self._requests_of_device[device] -= 1
            if not self._requests_of_device[device]:
                del self._requests_of_device[device]
        if self._log_requests:
            self._log(req, response, time.monotonic() - started)
        return response(environ, start_response)

    def _respond(self, req: Request) -> Response:
        try:
            check_text(req.path)
        except BadNameError as error:
            return error_response(412, str(error))
        handler = self.handlers.get(req.method)
        if handler is None:
            return self._unhandled(req)
        try:
            return handler(req)
        except HTTPException as error:
            return error.response
        except ConstraintError as error:
            return error_response(error.status, str(error))
        except BadNameError as error:
            return error_response(400, str(error))
        except DatabaseError as error:
            # That a device does not answer has been logged once.
            if error.status >= 500 and not isinstance(error, DeviceStuck | ProcessLost):
                self.log.error("database error %s", fields(error=error, trans_id=req.trans_id))
            return error_response(error.status, error.reason if error.status < 500 else "")
        except OSError as error:
            self.log.exception("request failed %s", fields(method=req.method, path=req.path))
            out_of_space = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
            return error_response(507 if out_of_space else 500)
        except Exception:
            self.log.exception("request failed %s", fields(method=req.method, path=req.path))
            return error_response(500)

    def _unhandled(self, req: Request) -> Response:
        allow = {"Allow": ", ".join(sorted([*self.handlers, "OPTIONS"]))}
        if req.method != "OPTIONS":
            return error_response(405, headers=allow)
        # Monitoring asks of which kind a server is.
        version = importlib.metadata.version("martlet")
        return Response(200, {**allow, "Server": f"{self.name}-server/{version}"})

    def _log(self, req: Request, response: Response, seconds: float) -> None:
        self.log.info(
            "request method=%s path=%s status=%d seconds=%.4f trans_id=%s",
            req.method,
            req.environ["PATH_INFO"],
            response.status,
            seconds,
            req.headers.get("x-trans-id", "-"),
        )

    def split(self, req: Request, minsegs: int, maxsegs: int, rest: bool = False) -> list[str]:
        """Device, partition and the names that follow, absent ones as empty strings.

        :raises HTTPException: 400 for a path of another form.
        """
        try:
            segments = [s or "" for s in req.split_path(minsegs, maxsegs, rest)]
        except ValueError as error:
            raise http_error(400, str(error)) from None
        if not _PARTITION(segments[1]):
            raise http_error(400, "The partition must be a number")
        return segments

    def device_path(self, device: str, for_writing: bool = False) -> str:
        """The directory of a device.

        :raises HTTPException: 507 if it is missing, not mounted, too full to write to, or hangs.
        """
        return self._device_check.usable_path(device, for_writing)

    def database_path(
        self, device_path: str, partition: str, account: str, container: str | None = None
    ) -> str:
        """The database file of an account or container."""
        hexdigest = self._hash_path.hexdigest(account, container)
        return database_path(device_path, self.kind, partition, hexdigest)

    def policy_index(
        self, req: Request, header: str = "X-Backend-Storage-Policy-Index"
    ) -> int | None:
        """The storage policy that a header names, or None where the request has none.

        :raises HTTPException: 400 if there is no such policy.
        """
        text = req.headers.get(header)
        if text is None:
            return None
        index = int(text) if _SMALL_NUMBER(text) else -1
        if self.cluster.policy_by_index(index) is None:
            raise http_error(400, f"Invalid {header} {text[:32]!r}")
        return index


def listing_query(req: Request, limit_max: int, parameters: Collection[str]) -> ListingQuery:
    """The query parameters of a listing, of those named in ``parameters``.

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
    """A response without a body. Content-Length is explicit, so that connections are kept."""
    response = Response(status, headers)
    response.headers["Content-Length"] = "0"
    return response
