# SPDX-License-Identifier: Apache-2.0
"""Requests that a filter itself makes to the filters and the app to its right in the pipeline.

A sub-request shares the transaction, the cache and the known facts about accounts and containers
with the request it serves. It carries those headers that identify the client. It is authorized
like a request of the client, unless the filter has already authorized it (``pre_authorized``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

from martlet.http.call import call_app
from martlet.http.environ import (
    ACCESS_LOG_MADE,
    FETCH_KEYS,
    KEYSTONE_IDENTITY,
    KEYSTONE_INFO,
    LOCKS_AT_LEAST,
    LOOK_UP,
    MADE_BY_QUORUM,
    MADE_OF,
    ORIGINAL_METHOD,
    RELATIVE_LOCATION,
    RESELLER_REQUEST,
    SENT_BEFORE,
    SPARES_LARGE,
    UPDATE_FOOTERS,
    Environ,
    WSGIApp,
)
from martlet.http.headers import Headers, environ_key
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from proxy.lookup.info import Info, account_key, container_key, look_up
from proxy.lookup.known import Known
from proxy.lookup.usage import AccountUsage, Usage

_T = TypeVar("_T")

#: The keys that a sub-request copies: the user, the connection and the transaction.
_SHARED_NAMES = """
    HTTP_HOST HTTP_ORIGIN HTTP_REFERER HTTP_USER_AGENT HTTP_X_AUTH_TOKEN HTTP_X_FORWARDED_FOR
    HTTP_X_BACKEND_ALLOW_RESERVED_NAMES HTTP_X_BACKEND_LOCK_BYPASS HTTP_X_OPEN_EXPIRED
    HTTP_X_OPENSTACK_REQUEST_ID HTTP_X_SERVICE_TOKEN
    HTTP_X_STORAGE_TOKEN HTTP_X_TRANS_ID HTTP_X_TRANS_ID_EXTRA
    REMOTE_ADDR REMOTE_PORT REMOTE_USER SCRIPT_NAME SERVER_NAME SERVER_PORT SERVER_PROTOCOL
"""
_SHARED = frozenset([*_SHARED_NAMES.split(), KEYSTONE_IDENTITY, KEYSTONE_INFO, RESELLER_REQUEST])
_SHARED_PREFIXES = (
    "HTTP_X_DOMAIN_",
    "HTTP_X_IDENTITY_",
    "HTTP_X_PROJECT_",
    "HTTP_X_ROLE",
    "HTTP_X_SERVICE_",
    "HTTP_X_TENANT_",
    "HTTP_X_USER_",
    "martlet.",
    "swift.",
    "wsgi.",
)
#: Keys about the request itself, not about the client: a sub-request does not copy them.
_OWN = frozenset(
    [
        ACCESS_LOG_MADE,
        FETCH_KEYS,
        LOCKS_AT_LEAST,
        LOOK_UP,
        MADE_BY_QUORUM,
        MADE_OF,
        ORIGINAL_METHOD,
        RELATIVE_LOCATION,
        SENT_BEFORE,
        SPARES_LARGE,
        UPDATE_FOOTERS,
        "wsgi.input",
    ]
)


@lru_cache(1024)  # bounded: clients choose some of the names
def is_shared(key: str) -> bool:
    """Whether a sub-request copies this key of the environ of the request that it serves."""
    return (key in _SHARED or key.startswith(_SHARED_PREFIXES)) and key not in _OWN


class Answered(NamedTuple):
    """The answer to a sub-request, read to its end."""

    status: int
    headers: Headers
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


def sub_environ(
    environ: Environ,
    method: str,
    path: str,
    source: str,
    *,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    pre_authorized: bool = False,
) -> Environ:
    """Return the environ of a sub-request for ``environ``.

    :param path: WSGI string, not quoted, as PATH_INFO.
    :param source: the filter that asks, for the access log (``swift.source``), e.g. ``SLO``.
    :param headers: WSGI strings; they override the shared ones.
    :param pre_authorized: skip authorization and show the headers for owners.
    """
    shared = {key: value for key, value in environ.items() if is_shared(key)}
    # Both requests share what either of them learns about a container.
    shared["swift.infocache"] = environ.setdefault("swift.infocache", {})
    return environ_of(
        shared,
        method,
        path,
        source,
        query=query,
        headers=headers,
        body=body,
        pre_authorized=pre_authorized,
    )


def environ_of(
    shared: Environ,
    method: str,
    path: str,
    source: str,
    *,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    pre_authorized: bool = False,
) -> Environ:
    """As ``sub_environ``, for a filter that makes several requests of the same shared keys."""
    result = dict(shared)
    result.setdefault("SCRIPT_NAME", "")
    result["REQUEST_METHOD"] = method
    result["PATH_INFO"] = path
    result["QUERY_STRING"] = query
    result["CONTENT_LENGTH"] = str(len(body))
    result["wsgi.input"] = BytesIO(body)
    result["swift.source"] = source
    if headers:
        for name, value in headers.items():
            result[environ_key(name)] = value
    if pre_authorized:
        result.pop("swift.authorize", None)
        result["swift.authorize_override"] = True
        result["swift_owner"] = True
    return result


def ask_app(app: WSGIApp, environ: Environ) -> Answered:
    """Run a sub-request and read the whole answer; use it for answers known to be small."""
    status, header_list, body = call_app(app, environ)
    return Answered(int(status.split(" ", 1)[0]), Headers(header_list), read_body(body))


def ask_status(app: WSGIApp, environ: Environ) -> int:
    """Run a sub-request to its end and return its status alone."""
    status, _, body = call_app(app, environ)
    read_body(body)
    return int(status[:3])


def read_body(body: Iterable[bytes]) -> bytes:
    """Read a WSGI body to its end and close it."""
    try:
        return b"".join(body)
    finally:
        close_body(body)


def close_body(body: Iterable[bytes]) -> None:
    """Close a WSGI body that will not be read further; this releases the connection below it."""
    close: Callable[[], Any] | None = getattr(body, "close", None)
    if close is not None:
        close()


def get_account_info(environ: Environ, app: WSGIApp, account: str, source: str) -> Info:
    """Return the info of an account (text, not a WSGI string); see ``proxy.lookup.info``."""
    info, _ = look_up(environ, account_key(account))
    return info or _info(environ, app, f"/v1/{account}", source)


def get_container_info(
    environ: Environ, app: WSGIApp, account: str, container: str, source: str
) -> Info:
    """Return the info of a container, with a ``status`` when the container cannot be used.

    ``status`` is 404 if the container does not exist, 503 if that is unknown, and 412 for a name
    that clients may not use.
    """
    info, _ = look_up(environ, container_key(account, container))
    return info or _info(environ, app, f"/v1/{account}/{container}", source)


def _info(environ: Environ, app: WSGIApp, path: str, source: str) -> Info:
    info, status = _ask_proxy(environ, app, path, source, lambda known: known.info())
    if info is not None:
        return info
    return {"status": 412 if status == 412 else 503, "meta": {}, "sysmeta": {}}


def get_container_usage(
    environ: Environ, app: WSGIApp, account: str, container: str, source: str
) -> Usage | None:
    """Return a container's current usage; None if it is unknown. See ``proxy.lookup.usage``."""
    path = f"/v1/{account}/{container}"
    return _ask_proxy(environ, app, path, source, lambda known: known.container_usage())[0]


def get_account_usage(
    environ: Environ, app: WSGIApp, account: str, container: str, source: str
) -> AccountUsage | None:
    """Return an account's usage, with ``container`` as it is now; None if it is unknown."""
    path = f"/v1/{account}/{container}"
    return _ask_proxy(environ, app, path, source, lambda known: known.account_usage())[0]


def delete_later(
    environ: Environ,
    app: WSGIApp,
    container: tuple[str, str],
    names: Sequence[str],
    due: Timestamp,
    source: str,
    *,
    withdraws: bool = False,
) -> bool:
    """Leave objects to the expirer, without a check of rights; whether it has its tasks now.

    :param container: account and container, text.
    :param names: of the objects in it, text; not empty.
    :param due: when they are deleted. A later write stays.
    :param withdraws: take the tasks of an earlier call back, if they are not done yet.
    """

    def queue(known: Known) -> bool:
        return known.delete_later(names, due, withdraws=withdraws)

    return bool(_ask_proxy(environ, app, "/v1/" + "/".join(container), source, queue)[0])


def _ask_proxy(
    environ: Environ, app: WSGIApp, path: str, source: str, question: Callable[[Known], _T]
) -> tuple[_T | None, int]:
    """Ask the proxy application about ``path``.

    :returns: the result of ``question``, None without one, and the status of the application's
        answer, which gives the reason.
    """
    found: _T | None = None

    def take(known: Known) -> None:
        nonlocal found
        found = question(known)

    request = sub_environ(environ, "HEAD", str_to_wsgi(path), source, pre_authorized=True)
    request[LOOK_UP] = take
    status = ask_status(app, request)
    return found, status
