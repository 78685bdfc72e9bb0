# SPDX-License-Identifier: Apache-2.0
"""Object versioning in requests to containers: enabling it, listings, DELETE."""

from __future__ import annotations

from collections.abc import Iterable

from martlet.conf.options import is_true
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.http.response import http_error
from proxy.middleware.subrequest import close_body
from proxy.middleware.versions.changed_answer import changed_answer
from proxy.middleware.versions.container_lookup import ContainerLookup
from proxy.middleware.versions.header_names import ENABLED_HEADER, ENABLED_SYSMETA
from proxy.middleware.versions.query import check_listing
from proxy.replicas.locks import is_lockable

_SYNC_HEADER = "X-Container-Sync-To"
_LEGACY_HEADERS = ("X-Versions-Location", "X-History-Location")


class ContainerRequests:
    """Answers them."""

    def __init__(self, app: WSGIApp, containers: ContainerLookup) -> None:
        self._app = app
        self._containers = containers

    def answer(self, environ: Environ, account: str, container: str) -> WSGIApp:
        """The application that answers the request.

        :raises HTTPException: 400, 406, 409 or 503.
        """
        method = environ["REQUEST_METHOD"]
        if method in ("PUT", "POST"):
            headers = Request(environ).headers
            if headers.get(ENABLED_HEADER):
                self._check_enabling(environ, account, container)
            elif headers.get(_SYNC_HEADER):
                self._check_target(environ, account, container)
            return self._app
        if method == "DELETE":
            return self._delete_container(environ, account, container)
        if method == "GET" and environ.get("QUERY_STRING"):
            check_listing(environ)
        return changed_answer(self._app, _show_enabled) if method in ("GET", "HEAD") else self._app

    def _check_enabling(self, environ: Environ, account: str, container: str) -> None:
        headers = Request(environ).headers
        enables = is_true(headers[ENABLED_HEADER])
        info = self._containers.info(environ, account, container)
        sysmeta = info["sysmeta"]
        if not enables and is_lockable(sysmeta):
            raise http_error(409, "Versioning stays enabled where objects may be locked.")
        if enables:
            is_legacy = any(headers.get(name) for name in _LEGACY_HEADERS)
            if is_legacy or sysmeta.get("versions-location"):
                raise http_error(
                    400,
                    "Cannot enable object versioning on a container that is already using"
                    " the legacy versioned writes feature.",
                )
            # A version that is restored keeps its time. The target would keep what is newer.
            if headers.get(_SYNC_HEADER, info.get("sync_to")):
                raise http_error(
                    400, "Cannot enable object versioning on a container that is synced."
                )
        headers[ENABLED_SYSMETA] = str(enables)

    def _check_target(self, environ: Environ, account: str, container: str) -> None:
        if self._containers.is_enabled(environ, account, container):
            raise http_error(400, "A container with object versioning cannot be synced.")

    def _delete_container(self, environ: Environ, account: str, container: str) -> WSGIApp:
        status, headers, body = call_app(self._app, environ)
        if status[:3] == "409" and self._containers.is_versioned(environ, account, container):
            close_body(body)
            raise http_error(409, "Delete all versions before deleting container.")

        def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            start_response(status, headers)
            return body

        return answer


def _show_enabled(status: int, headers: Headers) -> None:
    if ENABLED_SYSMETA in headers:
        headers[ENABLED_HEADER] = headers[ENABLED_SYSMETA]
