# SPDX-License-Identifier: Apache-2.0
"""Authorization in tempauth: access to accounts, containers and objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from martlet.http.environ import ACCOUNT_INFO
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from proxy.middleware.auth.acl import (
    ACCOUNT_ACL_SYSMETA,
    check_account_acl,
    parse_account_acl,
    parse_acl,
    referrer_allowed,
)
from proxy.middleware.auth.tempauth_login import unauthorized
from proxy.middleware.auth.tempauth_users import RESELLER_ADMIN, RESELLER_READER, Resellers

_READS = ("GET", "HEAD")


class TempauthAuthorizer:
    """Authorizes by the groups in ``REMOTE_USER``, the container's ACL and the account's."""

    def __init__(self, resellers: Resellers) -> None:
        self._resellers = resellers

    def authorize(self, request: Request) -> Response | None:
        """Return None if the request is authorized; otherwise 400, 401, 403 or 404."""
        try:
            _, account, container, obj = request.split_path(1, 4, True)
        except ValueError:
            return error_response(404, "The resource could not be found.")
        if account is None or self._resellers.prefix_of(account) is None:
            return denied(request)
        bad_acl = _store_account_acl(request)
        if bad_acl is not None:
            return bad_acl
        remote_user = request.environ.get("REMOTE_USER")
        groups = frozenset(remote_user.split(",")) if remote_user else frozenset()
        if self._is_owner(groups, request.method, account, container):
            request.environ["swift_owner"] = True
            return None
        if (
            request.method in _READS
            and RESELLER_READER in groups
            and self._resellers.is_ordinary(account)
        ):
            return None
        if request.method == "OPTIONS" or _is_in_container_acl(request, groups, obj):
            return None
        if groups and _is_in_account_acl(request, groups, account, container):
            return None
        return denied(request)

    def _is_owner(
        self, groups: frozenset[str], method: str, account: str, container: str | None
    ) -> bool:
        if RESELLER_ADMIN in groups and self._resellers.is_ordinary(account):
            return True
        if account not in groups:
            return False
        if container is None and method in ("PUT", "DELETE"):
            return False  # only resellers create and delete accounts
        required = self._resellers.required_groups[self._resellers.prefix_of(account) or ""]
        return not required or required in groups


def _is_in_container_acl(request: Request, groups: frozenset[str], obj: str | None) -> bool:
    acl = parse_acl(request.acl)
    if (obj is not None or ".rlistings" in acl.groups) and referrer_allowed(
        request.environ.get("HTTP_REFERER"), acl.referrers
    ):
        return True
    return not acl.groups.isdisjoint(groups)


def _is_in_account_acl(
    request: Request, groups: frozenset[str], account: str, container: str | None
) -> bool:
    get_account_info = request.environ.get(ACCOUNT_INFO)
    if get_account_info is None:
        return False
    info: Mapping[str, Any] = get_account_info(request, account)
    acl = parse_account_acl(info.get("sysmeta", {}).get(ACCOUNT_ACL_SYSMETA))
    if acl is None:
        return False
    if groups & acl.admin:
        request.environ["swift_owner"] = True
        return True
    is_read = request.method in _READS
    if groups & acl.read_write and (is_read or container is not None):
        return True
    return is_read and bool(groups & acl.read_only)


def _store_account_acl(request: Request) -> Response | None:
    """Turn X-Account-Access-Control into sysmeta for storage; return 400 for an invalid ACL."""
    header = "X-Account-Access-Control"
    value = request.headers.get(header)
    if value is None:
        return None
    try:
        # The WSGI string is the bytes of the JSON text.
        stored = check_account_acl(value.encode("latin-1").decode("utf-8"))
    except ValueError as error:
        text = f"{header} invalid: {error}\n"
        return Response(400, {"Content-Type": "text/plain; charset=UTF-8"}, text)
    request.headers[f"X-Account-Sysmeta-{ACCOUNT_ACL_SYSMETA}"] = stored
    del request.headers[header]
    return None


def denied(request: Request) -> Response:
    """Return 403 for an authenticated user, 401 otherwise."""
    if request.environ.get("REMOTE_USER"):
        return error_response(403, "Access was denied to this resource.")
    return unauthorized(account_in(request.environ["PATH_INFO"]))


def account_in(path: str) -> str:
    """Return the account in a WSGI path ``/version/account/...``, empty if there is none."""
    parts = path.split("/", 3)
    return parts[2] if len(parts) > 2 and not parts[0] and parts[1] else ""
