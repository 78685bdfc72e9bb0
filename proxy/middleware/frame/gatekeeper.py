# SPDX-License-Identifier: Apache-2.0
"""Removes private headers from clients' requests and from the responses to them.

System metadata and ``X-Backend-*`` headers control the services. A client that could send them
could control the services as well; a client that could read them would see internal data. Place
the filter directly after catch_errors. It also finds the client behind a trusted proxy, because all
filters to the right may ask for its address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.log import get_logger
from proxy.middleware.frame.client_address import networks_of, see_client

log = get_logger("proxy.gatekeeper")

_PRIVATE_NAMES = (
    "(account|container|object)-sysmeta-",
    "object-transient-sysmeta-",
    "backend",
    # These controlled the services before the X-Backend headers existed, and still do.
    "account-(host|device|partition)$",
    "container-(host|device|partition|root-db-state)$",
    "delete-at-(host|device|partition|container)$",
)
_matches_private_header = re.compile(f"x-({'|'.join(_PRIVATE_NAMES)})", re.IGNORECASE).match
_is_private_key = re.compile(f"HTTP_X_({'|'.join(_PRIVATE_NAMES).upper().replace('-', '_')})").match


@lru_cache(1024)  # bounded: clients choose some of the names
def _is_private_header(name: str) -> bool:
    return _matches_private_header(name) is not None


@dataclass(frozen=True)
class GatekeeperOptions:
    """``[filter:gatekeeper]``."""

    shunt_inbound_x_timestamp: bool = option(
        True, "Move a client's X-Timestamp to X-Backend-Inbound-X-Timestamp, where it has no effect"
    )
    allow_reserved_names_header: bool = option(
        False, "Let clients use reserved names with X-Allow-Reserved-Names; for tests only"
    )
    trusted_proxies: list[str] = option(
        [],
        "Addresses and networks whose X-Forwarded-For and X-Forwarded-Proto tell the client's "
        "address and scheme",
    )

    def __post_init__(self) -> None:
        try:
            networks_of(self.trusted_proxies)
        except ValueError as error:
            raise ValueError(f"trusted_proxies: {error}") from None


class Gatekeeper:
    """The filter."""

    def __init__(self, app: WSGIApp, options: GatekeeperOptions) -> None:
        self._app = app
        self._shunt_timestamp = options.shunt_inbound_x_timestamp
        self._allow_reserved_names = options.allow_reserved_names_header
        self._trusted = networks_of(options.trusted_proxies)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Strip private headers from the request, and later from the response."""
        if self._trusted:
            see_client(environ, self._trusted)
        self._clean_request(environ)

        def start_clean_response(status: str, headers: HeaderList, exc_info: Any = None) -> Any:
            clean = [header for header in headers if not _is_private_header(header[0])]
            if environ.get("swift.leave_relative_location"):
                clean = [_without_host(*header) for header in clean]
            return start_response(status, clean, exc_info)

        return self._app(environ, start_clean_response)

    def _clean_request(self, environ: Environ) -> None:
        private = [k for k in environ if k.startswith("HTTP_X_") and _is_private_key(k)]
        for key in private:
            log.debug("removed request header key=%s", key)
            del environ[key]
        if self._shunt_timestamp and "HTTP_X_TIMESTAMP" in environ:
            environ["HTTP_X_BACKEND_INBOUND_X_TIMESTAMP"] = environ.pop("HTTP_X_TIMESTAMP")
        if self._allow_reserved_names and "HTTP_X_ALLOW_RESERVED_NAMES" in environ:
            environ["HTTP_X_BACKEND_ALLOW_RESERVED_NAMES"] = environ.pop(
                "HTTP_X_ALLOW_RESERVED_NAMES"
            )


def _without_host(name: str, value: str) -> tuple[str, str]:
    """Return a header without the host that a third-party filter, such as auth_token, added."""
    if name.lower() == "location":
        value = urlsplit(value)._replace(scheme="", netloc="").geturl()
    return name, value


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], Gatekeeper]:
    """PasteDeploy's entry point."""
    options = load_filter_options(GatekeeperOptions, "gatekeeper", global_conf, local_conf)
    return lambda app: Gatekeeper(app, options)
