# SPDX-License-Identifier: Apache-2.0
"""GET and HEAD of an object: which version is read, and the headers that name it."""

from __future__ import annotations

from urllib.parse import quote

from martlet.http.environ import ANY_NULL, VERSION_REQUEST, Environ, WSGIApp
from martlet.http.headers import Headers
from martlet.words.delete_markers import MARKER_TYPE
from proxy.middleware.subrequest import get_container_info
from proxy.middleware.versions.changed_answer import changed_answer
from proxy.middleware.versions.container_lookup import ENABLED_KEY, SOURCE, ContainerLookup
from proxy.middleware.versions.header_names import CLIENT_VERSION_ID
from proxy.middleware.versions.owner_request import owner_request
from proxy.middleware.versions.query import RequestedObject
from proxy.replicas.versions import (
    ANY_NULL_ID,
    NULL,
    VERSION_ID,
    VERSION_MARKER,
    VersionRequest,
)


class ObjectReads:
    """Each method gives the application that answers the request."""

    def __init__(self, app: WSGIApp, containers: ContainerLookup) -> None:
        self._app = app
        self._containers = containers

    def read(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """A read of the current version; the answer names it."""
        path = environ["PATH_INFO"]

        def show(status: int, headers: Headers) -> None:
            info = get_container_info(environ, self._app, *target[:2], SOURCE)
            # In other containers a symlink may lead to a version, which is not the link's own.
            if info["sysmeta"].get(ENABLED_KEY):
                _name_version(status, headers, path)

        return changed_answer(self._app, show)

    def read_version(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """A read with ``version-id``."""
        version = target.version
        if version == NULL:
            is_versioned = self._containers.is_versioned(environ, *target[:2])
            wanted = ANY_NULL_ID if environ.get(ANY_NULL) else NULL
            headers = {VERSION_ID: wanted} if is_versioned else {}
            request = VersionRequest(environ["PATH_INFO"], headers)
        else:
            request = owner_request(self._containers, environ, target)

        def show(status: int, headers: Headers) -> None:
            is_marker = VERSION_MARKER in headers
            if status != 404 or is_marker:
                headers[CLIENT_VERSION_ID] = version
            if is_marker:
                headers["Content-Type"] = MARKER_TYPE
            if headers.get(VERSION_ID) == version:
                # At that time the version stops being current; a copy must not inherit this.
                headers.pop("X-Delete-At", None)

        environ[VERSION_REQUEST] = request
        return changed_answer(self._app, show)


def _name_version(status: int, headers: Headers, path: str) -> None:
    version = headers.get(VERSION_ID, NULL)
    headers[CLIENT_VERSION_ID] = NULL if status == 404 else version
    if headers[CLIENT_VERSION_ID] != NULL:
        quoted = quote(path, encoding="latin-1")
        headers["Content-Location"] = f"{quoted}?version-id={version}"
