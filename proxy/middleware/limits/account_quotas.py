# SPDX-License-Identifier: Apache-2.0
"""Account quotas: limits on an account's bytes and objects, in total or in one policy.

==================================== ==============================================
header of the account                limits
==================================== ==============================================
``X-Account-Quota-Bytes``            bytes of all objects
``X-Account-Quota-Count``            number of objects
``...-Policy-<storage policy>``      the same, for containers with that policy
``X-Account-Meta-Quota-Bytes``       old name of the first
==================================== ==============================================

Only reseller admins set quotas, and quotas do not apply to them. ``X-Remove-...`` or an empty value
removes a quota. Quotas are stored as system metadata, a policy by its index. doc/quotas.md states
the guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from martlet.conf.cluster import ClusterConf
from martlet.conf.storage_policies import StoragePolicy
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers, RequestHeaders
from martlet.http.response import HTTPException, http_error
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.info_registry import register_info
from proxy.lookup.usage import AccountUsage, Usage
from proxy.middleware.limits.container_quotas import parse_quota
from proxy.middleware.limits.upload_limit import limit_upload, refuse_upload
from proxy.middleware.subrequest import get_account_info, get_account_usage, get_container_info

_SOURCE = "AQ"
_KINDS = ("Quota-Bytes", "Quota-Count")
_REFUSED = "Upload exceeds quota."
_REFUSED_BY_POLICY = "Upload exceeds policy quota."


@dataclass(frozen=True)
class AccountQuotasOptions:
    """``[filter:account_quotas]`` has no options."""


class AccountQuotas:
    """The filter. Place it right of auth and copy: it needs the user and the size of a copy."""

    def __init__(self, app: WSGIApp, policies: Iterable[StoragePolicy]) -> None:
        self._app = app
        self._stored_names = dict(_stored_names(policies))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 400 or 403 for a change of a quota, 413 for an upload beyond a quota."""
        try:
            _, account, container, obj = split_path(wsgi_to_str(environ["PATH_INFO"]), 2, 4, True)
        except (ValueError, BadNameError):
            return self._app(environ, start_response)
        try:
            if not container:
                return self._serve_account(environ, start_response)
            if obj and environ["REQUEST_METHOD"] == "PUT" and not _is_reseller(environ):
                refusal = self._check_upload(environ, account or "", container)
                if refusal is not None:
                    return refusal(environ, start_response)
        except HTTPException as error:
            return error(environ, start_response)
        return self._app(environ, start_response)

    def _serve_account(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("PUT", "POST"):
            self._store_quotas(environ)

        def show_quotas(status: str, headers: HeaderList, exc_info: Any = None) -> Any:
            found = Headers(headers)
            for shown, stored in self._stored_names.items():
                if value := found.get(stored):
                    found[shown] = value
            return start_response(status, found.as_list(), exc_info)

        return self._app(environ, show_quotas)

    def _store_quotas(self, environ: Environ) -> None:
        """Turn the quotas in a request's headers into system metadata.

        :raises HTTPException: 403 unless the user is a reseller admin, 400 if it is not a number.
        """
        headers = RequestHeaders(environ)
        asked = {}
        for shown, stored in self._stored_names.items():
            value = _new_quota(headers, shown)
            if value is not None:
                asked[stored] = value
        if not asked:
            return
        if not _is_reseller(environ):
            raise http_error(403, "Only reseller admins may set the quotas of an account.")
        for stored, value in asked.items():
            if value and parse_quota(value) is None:
                raise http_error(400, "A quota must be a whole number.")
            headers[stored] = value

    def _check_upload(self, environ: Environ, account: str, container: str) -> WSGIApp | None:
        account_info = get_account_info(environ, self._app, account, _SOURCE)
        quotas = _quotas(account_info)
        if not quotas:
            return None
        info = get_container_info(environ, self._app, account, container, _SOURCE)
        if not 200 <= info["status"] < 300:
            return None  # the proxy application answers with the error
        policy = f"-policy-{info['storage_policy']}"
        if not any("-policy-" not in name or name.endswith(policy) for name in quotas):
            return None
        used = get_account_usage(environ, self._app, account, container, _SOURCE)
        if used is None:  # no account server answers: fall back to the cached values
            whole = Usage(account_info["bytes"], account_info["total_object_count"])
            used = AccountUsage(whole, Usage(0, 0))
        checks = (("", used.all, _REFUSED), (policy, used.in_policy, _REFUSED_BY_POLICY))
        for suffix, usage, sentence in checks:
            count_quota = quotas.get(f"quota-count{suffix}")
            fits = count_quota is None or usage.object_count < count_quota
            bytes_quota = quotas.get(f"quota-bytes{suffix}")
            if fits and bytes_quota is not None:
                fits = limit_upload(environ, bytes_quota - usage.bytes, sentence)
            if not fits:
                return refuse_upload(environ, info, sentence)
        return None


def _stored_names(policies: Iterable[StoragePolicy]) -> Iterator[tuple[str, str]]:
    """Yield pairs of the header that clients see and the header that stores the quota."""
    policies = list(policies)
    for kind in _KINDS:
        yield f"X-Account-{kind}", f"X-Account-Sysmeta-{kind}"
        for policy in policies:
            yield (
                f"X-Account-{kind}-Policy-{policy.name}",
                f"X-Account-Sysmeta-{kind}-Policy-{policy.index}",
            )


def _new_quota(headers: RequestHeaders, shown: str) -> str | None:
    """Return the quota in a request: a value, an empty text to remove it, or None if absent."""
    names = [shown]
    if shown == "X-Account-Quota-Bytes":
        names.append("X-Account-Meta-Quota-Bytes")
    for name in names:
        if name.replace("X-", "X-Remove-", 1) in headers:
            return ""
    for name in names:
        value: str | None = headers.get(name)
        if value is not None:
            return value
    return None


def _quotas(info: Mapping[str, Any]) -> dict[str, int]:
    """Return the quotas of an account by the names of their system metadata."""
    found = {}
    for name, text in info["sysmeta"].items():
        if name.startswith(("quota-bytes", "quota-count")):
            quota = parse_quota(text)
            if quota is not None:
                found[name] = quota
    if "quota-bytes" not in info["sysmeta"]:
        legacy = parse_quota(info["meta"].get("quota-bytes"))
        if legacy is not None:
            found["quota-bytes"] = legacy
    return found


def _is_reseller(environ: Environ) -> bool:
    return environ.get("reseller_request") is True


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], AccountQuotas]:
    """PasteDeploy's entry point."""
    load_filter_options(AccountQuotasOptions, "account_quotas", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    register_info("account_quotas")
    return lambda app: AccountQuotas(app, cluster.policies)
