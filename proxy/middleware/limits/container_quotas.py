# SPDX-License-Identifier: Apache-2.0
"""Container quotas: ``X-Container-Meta-Quota-Bytes`` and ``X-Container-Meta-Quota-Count``.

An upload or copy that would exceed the container's quota is refused with 413. For each upload to a
container with a quota, the filter asks for the container's current usage: see doc/quotas.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.request import Request
from martlet.http.response import HTTPException, error_response
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.info_registry import register_info
from proxy.lookup.usage import Usage
from proxy.middleware.limits.upload_limit import limit_upload, refuse_upload
from proxy.middleware.subrequest import get_container_info, get_container_usage

_SOURCE = "CQ"
_REFUSED = "Upload exceeds quota."


@dataclass(frozen=True)
class ContainerQuotasOptions:
    """``[filter:container_quotas]`` has no options."""


class ContainerQuotas:
    """The filter. Place it right of auth and copy: it needs the user and the size of a copy."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 400 for a quota that is not a number, 413 for an upload beyond a quota."""
        if environ["REQUEST_METHOD"] not in ("PUT", "POST"):
            return self._app(environ, start_response)
        try:
            _, account, container, obj = split_path(wsgi_to_str(environ["PATH_INFO"]), 3, 4, True)
        except (ValueError, BadNameError):
            return self._app(environ, start_response)
        app = self._app
        if not obj:
            app = _check_new_quota(environ) or app
        elif environ["REQUEST_METHOD"] == "PUT":
            try:
                app = self._check_upload(environ, account or "", container or "") or app
            except HTTPException as error:
                app = error
        return app(environ, start_response)

    def _check_upload(self, environ: Environ, account: str, container: str) -> WSGIApp | None:
        info = get_container_info(environ, self._app, account, container, _SOURCE)
        if not 200 <= info["status"] < 300:
            return None  # the proxy application answers with the error
        bytes_quota = parse_quota(info["meta"].get("quota-bytes"))
        count_quota = parse_quota(info["meta"].get("quota-count"))
        if bytes_quota is None and count_quota is None:
            return None
        usage = get_container_usage(environ, self._app, account, container, _SOURCE)
        if usage is None:  # no container server answers: fall back to the cached values
            usage = Usage(info["bytes"], info["object_count"])
        fits = count_quota is None or usage.object_count < count_quota
        if fits and bytes_quota is not None:
            fits = limit_upload(environ, bytes_quota - usage.bytes, _REFUSED)
        return None if fits else refuse_upload(environ, info, _REFUSED)


def parse_quota(text: str | None) -> int | None:
    """Return a quota as a number; None if it is absent or not a number."""
    if not text or not (text.isascii() and text.isdigit()):
        return None
    try:
        return int(text)
    except ValueError:  # thousands of digits
        return None


def _check_new_quota(environ: Environ) -> WSGIApp | None:
    headers = Request(environ).headers
    for name, kind in (("Bytes", "bytes"), ("Count", "count")):
        value = headers.get(f"X-Container-Meta-Quota-{name}")
        if value and parse_quota(value) is None:
            return error_response(400, f"Invalid {kind} quota.")
    return None


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], ContainerQuotas]:
    """PasteDeploy's entry point."""
    load_filter_options(ContainerQuotasOptions, "container_quotas", global_conf, local_conf)
    register_info("container_quotas")
    return ContainerQuotas
