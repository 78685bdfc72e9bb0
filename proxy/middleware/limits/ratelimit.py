# SPDX-License-Identifier: Apache-2.0
"""Rate limits: writes to an account and to a container, listings of a container.

A request above the rate waits for its turn. If the wait would be too long, it is refused with 498.
The turns are counted in the cache; with memcached, all proxies share the count. doc/ratelimit.md
explains the options.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from martlet.conf.cluster import ClusterConf
from martlet.conf.options import ConfigError, option
from martlet.filters.filter_options import load_filter_options, where
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import error_response
from martlet.log import fields, get_logger
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.cache.interface import Cache
from proxy.info_registry import register_info
from proxy.middleware.limits.ratelimit_rules import (
    LISTINGS_PREFIX,
    WRITES_PREFIX,
    RateStep,
    rate_for,
    read_steps,
)
from proxy.middleware.subrequest import get_account_info, get_container_info

log = get_logger("proxy.ratelimit")

_SOURCE = "RL"
#: Set on a counted request, so that the sub-requests of filters are not counted again.
_COUNTED = "swift.ratelimit.handled"
_SYSMETA = "global-write-ratelimit"
_OBJECT_WRITES = ("PUT", "DELETE", "POST", "COPY")
_BLACKLISTED_WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class RatelimitOptions:
    """``[filter:ratelimit]``, beside ``container_ratelimit_*`` and
    ``container_listing_ratelimit_*``."""

    account_ratelimit: float = option(
        0.0, "PUTs and DELETEs of containers in an account; 0: no limit", "1/s"
    )
    max_sleep_time_seconds: float = option(60.0, "A longer wait is refused with 498", "s")
    log_sleep_time_seconds: float = option(0.0, "Waits longer than this are logged; 0: none", "s")
    rate_buffer_seconds: int = option(5, "Time for which unused turns are kept", "s")
    clock_accuracy: int = option(1000, "Number of clock steps in a second", "1/s")
    account_whitelist: list[str] = option([], "Accounts without limits")
    account_blacklist: list[str] = option([], "Accounts whose requests are all refused with 497")

    def __post_init__(self) -> None:
        for name in ("account_ratelimit", "max_sleep_time_seconds", "log_sleep_time_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} may not be below 0")
        if self.clock_accuracy < 1:
            raise ValueError("clock_accuracy must be at least 1")


class Ratelimit:
    """The filter. Place it right of the cache."""

    def __init__(
        self,
        app: WSGIApp,
        options: RatelimitOptions,
        write_steps: list[RateStep],
        listing_steps: list[RateStep],
        api_versions: Iterable[str],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the filter; ``clock`` returns seconds since 1970, ``sleep`` waits."""
        self._app = app
        self._options = options
        self._write_steps = write_steps
        self._listing_steps = listing_steps
        self._api_versions = frozenset(api_versions)
        self._clock = clock
        self._sleep = sleep

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 497 for a blacklisted account, 498 for too many requests; delay the others."""
        app = self._app
        cache: Cache | None = environ.get("swift.cache")
        if cache is not None and not environ.get(_COUNTED):
            try:
                path = wsgi_to_str(environ["PATH_INFO"])
                version, account, container, obj = split_path(path, 2, 4, True)
            except (ValueError, BadNameError):
                version = None  # e.g. /info; the proxy application answers errors
            if version in self._api_versions:
                environ[_COUNTED] = True
                app = self._hold(environ, cache, account or "", container, obj) or app
        return app(environ, start_response)

    def _hold(
        self, environ: Environ, cache: Cache, account: str, container: str | None, obj: str | None
    ) -> WSGIApp | None:
        """Wait for the request's turn and return None, or return the refusal."""
        info = get_account_info(environ, self._app, account, _SOURCE)
        account_limit: str = info.get("sysmeta", {}).get(_SYSMETA, "")
        options = self._options
        if account in options.account_whitelist or account_limit == "WHITELIST":
            return None
        if account in options.account_blacklist or account_limit == "BLACKLIST":
            log.error("refused with 497 %s", fields(account=account))
            self._sleep(_BLACKLISTED_WAIT_SECONDS)
            return error_response(497, "Your account has been blacklisted")
        for key, rate in self._limits(environ, account, container, obj, account_limit):
            wait = self._wait_for(cache, key, rate)
            said = fields(method=environ["REQUEST_METHOD"], key=key, wait=f"{wait:.2f}")
            if wait >= options.max_sleep_time_seconds:
                log.error("refused with 498 %s", said)
                return error_response(498, "Slow down")
            if 0 < options.log_sleep_time_seconds < wait:
                log.warning("held back %s", said)
            if wait > 0:
                self._sleep(wait)
        return None

    def _limits(
        self,
        environ: Environ,
        account: str,
        container: str | None,
        obj: str | None,
        account_limit: str,
    ) -> Iterator[tuple[str, float]]:
        """Yield the keys under which the request is counted, each with its rate."""
        method = environ["REQUEST_METHOD"]
        is_write = method in _OBJECT_WRITES
        if container and not obj and method in ("PUT", "DELETE"):
            if self._options.account_ratelimit:
                yield f"ratelimit/{account}", self._options.account_ratelimit
        elif container and (is_write if obj else method == "GET"):
            steps = self._write_steps if obj else self._listing_steps
            if steps:
                info = get_container_info(environ, self._app, account, container, _SOURCE)
                rate = rate_for(steps, int(info.get("object_count") or 0))
                kind = "ratelimit" if obj else "ratelimit_listing"
                if rate:
                    yield f"{kind}/{account}/{container}", rate
        if is_write and (rate := _number(account_limit)):
            yield f"ratelimit/global-write/{account}", rate

    def _wait_for(self, cache: Cache, key: str, rate: float) -> float:
        """Take the next turn and return the wait in seconds; take none if the wait is too long.

        The cache holds under the key the time of the next free turn, in steps of the clock.
        """
        accuracy = self._options.clock_accuracy
        now = round(self._clock() * accuracy)
        # Whole steps, correct on average: a rate of 700 a second takes 1 or 2 steps a turn.
        step = int(accuracy / rate + random.random())
        following = cache.incr(key, step)
        if following is None:
            return 0.0  # the cache is unreachable: serve without limits rather than fail
        if now - following > self._options.rate_buffer_seconds * accuracy:
            cache.set(key, now + step)
            return 0.0
        wait = max(0, following - now - step) / accuracy
        if wait >= self._options.max_sleep_time_seconds:
            cache.incr(key, -step)
        return wait


def _number(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def filter_factory(
    global_conf: Mapping[str, str], **local_conf: str
) -> Callable[[WSGIApp], Ratelimit]:
    """PasteDeploy's entry point."""
    try:
        writes = read_steps(local_conf, WRITES_PREFIX)
        listings = read_steps(local_conf, LISTINGS_PREFIX)
    except ValueError as error:
        raise ConfigError(f"{where('ratelimit', global_conf)}: {error}") from None
    steps = {n for n in local_conf if n.startswith((WRITES_PREFIX, LISTINGS_PREFIX))}
    options = load_filter_options(RatelimitOptions, "ratelimit", global_conf, local_conf, steps)
    shown: dict[str, Any] = {
        "account_ratelimit": options.account_ratelimit,
        "max_sleep_time_seconds": options.max_sleep_time_seconds,
        "container_ratelimits": [list(step) for step in writes],
        "container_listing_ratelimits": [list(step) for step in listings],
    }
    register_info("ratelimit", **shown)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    api_versions = cluster.constraints.valid_api_versions
    return lambda app: Ratelimit(app, options, writes, listings, api_versions)
