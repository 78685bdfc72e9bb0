# SPDX-License-Identifier: Apache-2.0
"""A filter of the account and the container server: a request rate limit for each device.

Each method has its own limit for a device, and all methods together have one. A request over a
limit is answered with 529, and the proxy goes to another replica. The limits are read again from
their own file, so that they can be changed while the server runs. Each worker counts separately.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from martlet.conf.options import ConfigError, load_options, option, read_ini
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import error_response
from martlet.log import get_logger

log = get_logger("martlet.backend_ratelimit")

CONF_NAME = "backend-ratelimit.conf"
_SECTION = "backend_ratelimit"
_METHODS = ("DELETE", "GET", "HEAD", "POST", "PUT", "REPLICATE", "UPDATE")
_PATH = re.compile(r"/([^/]+)/\d+(/|$)", re.ASCII).match
_PER_DEVICE = "requests_per_device_per_second"


@dataclass(frozen=True)
class BackendRatelimitOptions:
    """``[filter:backend_ratelimit]``; the limits may also stand in a file of their own."""

    requests_per_device_per_second: float = option(
        0.0, "All requests for a device together; 0: no limit", "1/s"
    )
    delete_requests_per_device_per_second: float = option(0.0, "DELETEs for a device", "1/s")
    get_requests_per_device_per_second: float = option(0.0, "GETs for a device", "1/s")
    head_requests_per_device_per_second: float = option(0.0, "HEADs for a device", "1/s")
    post_requests_per_device_per_second: float = option(0.0, "POSTs for a device", "1/s")
    put_requests_per_device_per_second: float = option(0.0, "PUTs for a device", "1/s")
    replicate_requests_per_device_per_second: float = option(0.0, "REPLICATEs for a device", "1/s")
    update_requests_per_device_per_second: float = option(0.0, "UPDATEs for a device", "1/s")
    requests_per_device_rate_buffer: float = option(
        1.0, "Unused time that a device may use up later in a burst", "s"
    )
    backend_ratelimit_conf_path: str = option(
        "", f"File with limits that override these; empty: {CONF_NAME} in swift_dir, if it exists"
    )
    config_reload_interval: float = option(60.0, "How often that file is read; 0: once", "s")

    def __post_init__(self) -> None:
        for name in vars(self):
            value = getattr(self, name)
            if isinstance(value, float) and not value >= 0:
                raise ValueError(f"{name} may not be below 0")

    def rate_of(self, method: str) -> float:
        """The limit for a method, requests a second; an empty ``method`` means all together."""
        name = f"{method.lower()}_{_PER_DEVICE}" if method else _PER_DEVICE
        rate: float = getattr(self, name)
        return rate


class BackendRatelimit:
    """The filter."""

    def __init__(
        self,
        app: WSGIApp,
        options: BackendRatelimitOptions,
        read_file: Callable[[], BackendRatelimitOptions | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``read_file`` returns the options merged with the file's, or None without a file."""
        self.app = app  # the entry point finds the application by this name
        self._base = options
        self._read_file = read_file
        self._clock = clock
        self._turns: dict[tuple[str, str], float] = {}  # when the next request may come
        self._options = options
        self._expects_file = bool(options.backend_ratelimit_conf_path)
        self._load()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer 529 to a request over a limit."""
        match = _PATH(environ["PATH_INFO"])
        if match is not None and not self.admits(match[1], environ["REQUEST_METHOD"]):
            return error_response(529)(environ, start_response)
        return self.app(environ, start_response)

    def admits(self, device: str, method: str) -> bool:
        """Whether a request is within the limits; it counts then."""
        interval = self._base.config_reload_interval
        if interval and self._clock() >= self._loaded_at + interval:
            self._load()
        if not self._is_limited or method not in _METHODS:
            return True
        return self._may_go_on(device, method)

    def _load(self) -> None:
        self._loaded_at = self._clock()
        try:
            found = self._read_file()
        except ConfigError as error:
            log.warning("limits unchanged: %s", error)
        else:
            if found is not None:
                self._options = found
            elif self._expects_file:
                log.warning("limits unchanged: the file does not exist")
            self._expects_file = found is not None
        self._is_limited = any(self._options.rate_of(method) for method in ("", *_METHODS))

    def _may_go_on(self, device: str, method: str) -> bool:
        now = self._clock()
        taken = {}
        for kind in ("", method):
            rate = self._options.rate_of(kind)
            if not rate:
                continue
            earliest = now - self._options.requests_per_device_rate_buffer
            turn = max(self._turns.get((device, kind), now), earliest)
            if turn > now:
                return False
            taken[device, kind] = turn + 1 / rate
        self._turns.update(taken)
        return True


def filter_factory(
    global_conf: Mapping[str, str], **local_conf: str
) -> Callable[[WSGIApp], BackendRatelimit]:
    """PasteDeploy's entry point.

    :raises ConfigError: an option is invalid, or the file that it names cannot be read.
    """
    where = f"{global_conf.get('__file__', '')} [filter:backend_ratelimit]".strip()
    options = load_options(BackendRatelimitOptions, local_conf, where)
    swift_dir = Path(global_conf.get("swift_dir", "/etc/martlet"))
    path = Path(options.backend_ratelimit_conf_path or swift_dir / CONF_NAME)

    def read_file() -> BackendRatelimitOptions | None:
        if not path.exists():
            return None
        parser = read_ini(path)
        if not parser.has_section(_SECTION):
            raise ConfigError(f"{path} has no section [{_SECTION}]")
        merged = {**local_conf, **dict(parser.items(_SECTION))}
        return load_options(BackendRatelimitOptions, merged, f"{path} [{_SECTION}]")

    read_file()  # an error in the file prevents the start
    return lambda app: BackendRatelimit(app, options, read_file)
