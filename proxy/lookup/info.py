# SPDX-License-Identifier: Apache-2.0
"""The information about an account or container, which the proxy caches for a limited time.

It is a dict of plain values, the same that OpenStack Swift's middlewares use, under Swift's cache
keys. A look-up tries the request's own ``swift.infocache``, then the cache of the cluster, then the
servers. The information that something is missing is cached for a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from martlet.http.environ import CACHE, INFO_CACHE, Environ
from martlet.http.request import Request
from martlet.words.names import BadNameError, quote_path, wsgi_to_str
from proxy.cache.interface import Cache, Lease
from proxy.headers import base_headers
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders

Info = dict[str, Any]

_MISSING_SHARE = 0.1


def account_key(account: str) -> str:
    """The cache key of an account."""
    return f"account/{account}"


def container_key(account: str, container: str) -> str:
    """The cache key of a container."""
    return f"container/{account}/{container}"


def account_info(core: Core, req: Request, account: str) -> Info:
    """The account's information. Its ``status`` is 404 or 410 if it is missing, 503 if unknown."""
    key = account_key(account)
    info, lease = look_up(req.environ, key)
    if info is None:
        answer = _head(core, req, "Account", account, None)
        info = account_info_of(answer)
        _store(req.environ, key, info, core.options.recheck_account_existence, lease)
    return info


def container_info(core: Core, req: Request, account: str, container: str) -> Info:
    """The container's information; a container of a missing account is missing."""
    key = container_key(account, container)
    info, lease = look_up(req.environ, key)
    if info is None:
        if not account.startswith(core.constraints.auto_create_account_prefix):
            status = account_info(core, req, account)["status"]
            if not 200 <= status < 300:
                return container_info_of(Answer(status))
        answer = _head(core, req, "Container", account, container)
        info = container_info_of(answer)
        _store(req.environ, key, info, core.options.recheck_container_existence, lease)
    return info


def restore_header(info: Info | None) -> dict[str, str]:
    """The header by which a server that lacks an existing account or container copies it from the
    other replicas (wire-container.md).

    :param info: the cached information, None if there is none.
    """
    is_known = info is not None and 200 <= info["status"] < 300
    return {"X-Backend-Restore": "true"} if is_known else {}


def account_info_of(answer: Answer) -> Info:
    """The information in an account server's answer."""
    headers = answer.headers
    meta, sysmeta = _metadata(headers, "account")
    return {
        "status": answer.status,
        "container_count": _number(headers, "x-account-container-count"),
        "total_object_count": _number(headers, "x-account-object-count"),
        "bytes": _number(headers, "x-account-bytes-used"),
        "meta": meta,
        "sysmeta": sysmeta,
        "account_really_exists": 200 <= answer.status < 300,
    }


def container_info_of(answer: Answer) -> Info:
    """The information in a container server's answer."""
    headers = answer.headers
    meta, sysmeta = _metadata(headers, "container")
    return {
        "status": answer.status,
        "read_acl": _text(headers, "x-container-read"),
        "write_acl": _text(headers, "x-container-write"),
        "sync_to": _text(headers, "x-container-sync-to"),
        "sync_key": _text(headers, "x-container-sync-key"),
        "object_count": _number(headers, "x-container-object-count"),
        "bytes": _number(headers, "x-container-bytes-used"),
        "versions": _text(headers, "x-versions-location"),
        "storage_policy": _number(headers, "x-backend-storage-policy-index"),
        "cors": {
            "allow_origin": meta.get("access-control-allow-origin"),
            "expose_headers": meta.get("access-control-expose-headers"),
            "max_age": meta.get("access-control-max-age"),
        },
        "meta": meta,
        "sysmeta": sysmeta,
        "sharding_state": headers.get("x-backend-sharding-state", "unsharded"),
        "created_at": headers.get("x-backend-timestamp"),
        "put_timestamp": headers.get("x-backend-put-timestamp"),
        "delete_timestamp": headers.get("x-backend-delete-timestamp"),
        "status_changed_at": headers.get("x-backend-status-changed-at"),
    }


def forget_info(environ: Environ, account: str, container: str | None = None) -> None:
    """Remove an account or container from the caches. Call it after each change, failed or not."""
    key = container_key(account, container) if container else account_key(account)
    environ.get(INFO_CACHE, {}).pop(key, None)
    cache: Cache | None = environ.get(CACHE)
    if cache is not None:
        cache.delete(key)


def look_up(environ: Environ, key: str) -> tuple[Info | None, Lease | None]:
    """The cached information; else None, and a lease for storing the servers' answer."""
    infocache: dict[str, Info] = environ.setdefault(INFO_CACHE, {})
    info = infocache.get(key)
    if info is not None:
        return info, None
    cache: Cache | None = environ.get(CACHE)
    if cache is None:
        return None, None
    info, lease = cache.lookup(key)
    if info is not None:
        infocache[key] = info
    return info, lease


def _store(environ: Environ, key: str, info: Info, seconds: float, lease: Lease | None) -> None:
    status = info["status"]
    if status in (404, 410):
        seconds *= _MISSING_SHARE
    elif not 200 <= status < 300:
        return  # the servers gave no usable answer
    environ[INFO_CACHE][key] = info
    cache: Cache | None = environ.get(CACHE)
    if cache is not None and seconds > 0:
        cache.set(key, info, time=seconds, lease=lease)


def _head(
    core: Core, req: Request, server_type: str, account: str, container: str | None
) -> Answer:
    ring = core.rings.container if container else core.rings.account
    nodes = core.nodes(ring, account, container, is_read=True)
    path = quote_path(f"/{account}/{container}" if container else f"/{account}")
    request = core.request(req, server_type, nodes.partition, path, method="HEAD")
    search = Search(core, request, nodes)
    source = search.find(WireHeaders(base_headers(req)))
    if source is None:
        return search.failure()
    source.response.close()
    return Answer(source.response.status, source.response.headers)


def _metadata(headers: Mapping[str, str], kind: str) -> tuple[dict[str, str], dict[str, str]]:
    """User and system metadata, by their names without the prefix."""
    meta_prefix, sysmeta_prefix = f"x-{kind}-meta-", f"x-{kind}-sysmeta-"
    meta: dict[str, str] = {}
    sysmeta: dict[str, str] = {}
    for name, value in headers.items():
        if name.startswith(meta_prefix):
            meta[name.removeprefix(meta_prefix)] = _decoded(value)
        elif name.startswith(sysmeta_prefix):
            sysmeta[name.removeprefix(sysmeta_prefix)] = _decoded(value)
    return meta, sysmeta


def _text(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name)
    return None if value is None else _decoded(value)


def _decoded(value: str) -> str:
    try:
        return wsgi_to_str(value)
    except BadNameError:
        return value  # it was stored without our checks; return it unchanged


def _number(headers: Mapping[str, str], name: str) -> int:
    value = headers.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else 0
