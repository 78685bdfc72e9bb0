# SPDX-License-Identifier: Apache-2.0
"""The headers that go from a client to the storage servers, and those that come back."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import cache
from urllib.parse import quote, unquote

from martlet.http.environ import HeaderList
from martlet.http.header_names import lower_name, title_name
from martlet.http.request import Request

#: Of a write that is done only if the current object has this timestamp. Filters of the proxy send
#: it, clients cannot.
IF_TIMESTAMP = "X-Backend-If-Timestamp"

# Headers of one connection, headers for the proxy only, and headers that the proxy sets itself: a
# client must not choose the targets of the updates that object servers send. The identity headers
# of Keystone's auth_token are for the proxy only.
_NOT_FORWARDED_NAMES = """
    accept accept-encoding accept-language authorization connection content-length cookie date
    expect host keep-alive origin proxy-authorization proxy-connection referer te
    traceparent tracestate trailer transfer-encoding upgrade user-agent via
    openstack-system-scope x-domain-id x-domain-name x-identity-status x-is-admin-project
    x-project-domain-id x-project-domain-name x-project-id x-project-name x-role x-roles
    x-service-catalog x-service-identity-status x-service-project-domain-id
    x-service-project-domain-name x-service-project-id x-service-project-name x-service-roles
    x-service-user-domain-id x-service-user-domain-name x-service-user-id x-service-user-name
    x-tenant x-tenant-id x-tenant-name x-user x-user-domain-id x-user-domain-name x-user-id
    x-user-name
    x-account-device x-account-host x-account-partition
    x-auth-key x-auth-token x-auth-user x-service-token x-storage-token x-storage-user
    x-container-device x-container-host x-container-partition x-container-root-db-state
    x-copied-from x-copy-from x-copy-from-account
    x-delete-after x-delete-at-container x-delete-at-device x-delete-at-host x-delete-at-partition
    x-detect-content-type x-forwarded-for x-forwarded-host x-forwarded-proto x-fresh-metadata
    x-newest x-open-expired x-openstack-request-id x-real-ip x-timestamp x-trans-id x-trans-id-extra
"""
_NOT_RETURNED_NAMES = """
    connection content-length date keep-alive server transfer-encoding x-delete-after
    x-put-timestamp
"""
_NOT_FORWARDED = frozenset(_NOT_FORWARDED_NAMES.split())
_NOT_RETURNED = frozenset(_NOT_RETURNED_NAMES.split())
_CACHED_NAMES_MAX = 4096

# Storage servers accept ASCII names only. Metadata with other names is sent and stored as system
# metadata: this prefix, then the whole name, percent-encoded. For objects it is the kind of system
# metadata that a POST replaces. Other headers with such names are dropped.
_UTF8_NAME = re.compile(
    r"x-(?:object-(?:transient-)?|container-|account-)sysmeta-utf8-(x-.*)", re.DOTALL
)

_has_kind = re.compile("x-(object|container|account)-", re.ASCII).match

_wire_names: dict[str, str | None] = {}
_client_names: dict[str, str] = {}


def base_headers(req: Request) -> dict[str, str]:
    """The headers of every request to a storage server."""
    return {
        "X-Timestamp": req.environ["HTTP_X_TIMESTAMP"],
        "X-Trans-Id": req.trans_id,
        "User-Agent": _user_agent(),
    }


@cache
def _user_agent() -> str:
    # The first request calls it, which is after the fork of the workers.
    return f"proxy-server {os.getpid()}"


def object_headers(req: Request) -> dict[str, str]:
    """The headers of a client's object request that are for the object server, by wire name.

    The content type is not among them, because it depends on the method.
    """
    headers = base_headers(req)
    for key, value in req.environ.items():
        name = _wire_names[key] if key in _wire_names else _learn_wire_name(key)
        if name is not None:
            headers[name] = value
    return headers


def database_headers(
    req: Request, kind: str, passed: Collection[str] = (), removable: Collection[str] = ()
) -> dict[str, str]:
    """The headers of a client's request that are for an account or container server.

    These are metadata, system metadata and X-Backend-*.

    :param passed: other headers, in lower case.
    :param removable: the X-Remove-… headers that clear one of ``passed``.
    """
    removes = f"x-remove-{kind}-meta-"
    prefixes = (f"x-{kind}-meta-", f"x-{kind}-sysmeta-", "x-backend-")
    cleared: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in req.headers.items():
        lowered = lower_name(name)
        if lowered.startswith(removes) or lowered in removable:
            cleared[_on_wire(name.replace("Remove-", "", 1))] = ""
        elif lowered.startswith(prefixes) or lowered in passed:
            given[_on_wire(name)] = value
    return cleared | given | base_headers(req)


def returned_headers(headers: Mapping[str, str], hidden: Collection[str] = ()) -> HeaderList:
    """The headers of a storage server's answer that the client gets, without ``hidden``."""
    returned: HeaderList = []
    for name, value in headers.items():
        if name not in _NOT_RETURNED and name not in hidden:
            shown = _client_names.get(name) or client_name(name)
            returned.append((shown, value.strip('"') if name == "etag" else value))
    return returned


def client_name(name: str) -> str:
    """The name in the form for clients: ``X-Trans-Id`` for ``x-trans-id``."""
    known = _client_names.get(name)
    if known is None:
        known = title_name(_decoded(name))
        if len(_client_names) < _CACHED_NAMES_MAX:
            _client_names[name] = known
    return known


def _learn_wire_name(key: str) -> str | None:
    name = None
    if key.startswith("HTTP_"):
        lowered = lower_name(key[5:].replace("_", "-"))
        if lowered not in _NOT_FORWARDED:
            encoded = _encoded(lowered)
            name = encoded and title_name(encoded)
    if len(_wire_names) < _CACHED_NAMES_MAX:  # clients choose the names, so the memory is bounded
        _wire_names[key] = name
    return name


def _on_wire(name: str) -> str:
    return name if name.isascii() else title_name(_encoded(lower_name(name)) or "")


def _encoded(lowered: str) -> str | None:
    if lowered.isascii():
        return lowered
    match = _has_kind(lowered)
    if match is None:
        return None
    kind = match[1]
    if kind == "object" and not lowered.startswith("x-object-sysmeta-"):
        kind = "object-transient"
    return f"x-{kind}-sysmeta-utf8-{quote(lowered, encoding='latin-1')}"


def _decoded(lowered: str) -> str:
    match = _UTF8_NAME.fullmatch(lowered)
    return unquote(match[1], encoding="latin-1") if match else lowered
