# SPDX-License-Identifier: Apache-2.0
"""PUT, POST and DELETE of an object: which version a write makes, changes or removes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from martlet.http.call import call_app
from martlet.http.environ import (
    NULL_MARKER,
    SPARES_VERSIONS,
    VERSION_REQUEST,
    Environ,
    HeaderList,
    StartResponse,
    WSGIApp,
)
from martlet.http.headers import Headers, environ_key
from martlet.http.response import HTTPException, Response, http_error
from martlet.words.timestamp import Timestamp
from proxy.headers import IF_TIMESTAMP
from proxy.middleware.subrequest import Answered, ask_app, close_body
from proxy.middleware.subrequest import sub_environ as make_sub_environ
from proxy.middleware.versions.changed_answer import Change, changed_answer
from proxy.middleware.versions.clock import VersionClock
from proxy.middleware.versions.container_lookup import SOURCE, ContainerLookup
from proxy.middleware.versions.header_names import CLIENT_CURRENT_ID, CLIENT_VERSION_ID
from proxy.middleware.versions.owner_request import owner_request
from proxy.middleware.versions.query import RequestedObject
from proxy.middleware.write_denial import write_denial
from proxy.replicas.locks import LOCK_CHANGES
from proxy.replicas.versions import (
    NULL,
    VERSION_HIDE,
    VERSION_ID,
    VERSION_MARKER,
    VERSION_RESTORE,
    VersionRequest,
)

#: Keys of the environ of a write that depends on what is stored.
_CONDITIONS = frozenset(map(environ_key, ("If-None-Match", IF_TIMESTAMP)))


class ObjectWrites:
    """Each method gives the application that answers the request."""

    def __init__(self, app: WSGIApp, containers: ContainerLookup) -> None:
        self._app = app
        self._containers = containers
        self._clock = VersionClock()

    def put(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """PUT of an object: it makes a version if versioning is enabled."""
        if not self._containers.is_enabled(environ, *target[:2]):
            return self._app
        is_given = "HTTP_X_TIMESTAMP" in environ
        version = self._write_time(environ)
        environ[VERSION_REQUEST] = VersionRequest(environ["PATH_INFO"], {VERSION_ID: version})

        def show(status: int, headers: Headers) -> None:
            if status == 201:
                headers[CLIENT_VERSION_ID] = version

        return changed_answer(self._app, show) if is_given else self._refusing_accepted(show)

    def _refusing_accepted(self, change: Change) -> WSGIApp:
        """The changed answer, with 503 in place of 202, or 409 if the write has a condition.

        202 means that another write has the same timestamp, and this one is not kept. With a
        condition, the other one may be later.
        """
        inner = changed_answer(self._app, change)

        def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            status, headers, body = call_app(inner, environ)
            if status[:3] == "202":
                close_body(body)
                refusal = 409 if _CONDITIONS & environ.keys() else 503
                error = http_error(refusal, "Another version was written at the same moment.")
                return error(environ, start_response)
            start_response(status, headers)
            return body

        return answer

    def restore(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """PUT with ``version-id``: the version becomes current. It keeps its id; no data move."""
        if target.version == NULL:
            raise http_error(400, "Invalid version parameter")
        request = owner_request(
            self._containers, environ, target, {VERSION_RESTORE: target.version}
        )
        if environ.get("CONTENT_LENGTH") not in (None, "", "0") or (
            "HTTP_TRANSFER_ENCODING" in environ and environ["wsgi.input"].read(1)
        ):
            raise http_error(400, "PUT version-id requests require a zero byte body")
        found = self._head(
            environ, VersionRequest(request.path, {VERSION_ID: target.version}, owner_only=True)
        )
        if VERSION_MARKER in found.headers:
            named = {CLIENT_VERSION_ID: target.version}
            raise http_error(400, "A delete marker cannot be made current", named)
        if not found.is_success:
            raise HTTPException(Response(found.status, _without_length(found.headers)))
        headers = dict(request.headers)
        environ[VERSION_REQUEST] = VersionRequest(request.path, headers, owner_only=True)
        environ["CONTENT_LENGTH"] = "0"
        environ.pop("HTTP_TRANSFER_ENCODING", None)

        def show(status: int, headers: Headers) -> None:
            if status == 201:
                headers[CLIENT_VERSION_ID] = target.version
                for name in ("Etag", "Last-Modified"):
                    headers[name] = found.headers[name]

        return changed_answer(self._app, show)

    def post(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """POST of an object: it names the version that it changes.

        Replicas may differ in what is current while other versions are written.
        """
        if target.version:
            if not any(environ_key(name) in environ for name in LOCK_CHANGES):
                raise http_error(400, "POST to a specific version is not allowed")
            environ[VERSION_REQUEST] = owner_request(self._containers, environ, target)
            return self._app
        if not self._containers.is_versioned(environ, *target[:2]):
            return self._app
        path = environ["PATH_INFO"]
        found = self._head_current(environ, path)
        # No version has the timestamp of this POST, so a client that may write gets 404.
        version = found.headers.get(VERSION_ID, NULL) if found.is_success else None
        headers = {VERSION_ID: version or self._write_time(environ)}
        environ[VERSION_REQUEST] = VersionRequest(path, headers)
        return self._app

    def delete(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """DELETE of an object: it writes a delete marker if versioning is enabled."""
        # The null version and what the expirer deletes are deleted as without versioning.
        if "HTTP_X_IF_DELETE_AT" in environ:
            return self._app
        if target.version == NULL:
            if not environ.get(SPARES_VERSIONS) or not self._has_other_current(environ, target):
                return self._app
            find = partial(self._containers.info, environ, *target[:2])
            return write_denial(environ, find) or http_error(404)
        if self._containers.is_enabled(environ, *target[:2]):
            version = self._write_time(environ)
        elif self._leaves_null_marker(environ, target):
            version = NULL
        else:
            return self._app
        headers = {VERSION_ID: version, VERSION_MARKER: "true"}
        environ[VERSION_REQUEST] = VersionRequest(environ["PATH_INFO"], headers)

        def show(status: int, headers: Headers) -> None:
            if status in (204, 404) and headers.get(VERSION_ID) == version:
                headers[CLIENT_VERSION_ID] = version

        return changed_answer(self._app, show)

    def _has_other_current(self, environ: Environ, target: RequestedObject) -> bool:
        """Whether a version with an id is current."""
        if not self._containers.is_versioned(environ, *target[:2]):
            return False
        opened = {"X-Backend-Open-Expired": "true"}
        found = self._head_current(environ, environ["PATH_INFO"], opened)
        return found.headers.get(VERSION_ID, NULL) != NULL

    def _leaves_null_marker(self, environ: Environ, target: RequestedObject) -> bool:
        """Whether a DELETE where versioning is not enabled leaves a delete marker, as in S3."""
        named = environ.get(NULL_MARKER)
        is_meant = named is not None and environ["PATH_INFO"].split("/", 3)[3] == named
        return is_meant and self._containers.is_versioned(environ, *target[:2])

    def delete_version(self, environ: Environ, target: RequestedObject) -> WSGIApp:
        """DELETE with ``version-id``: it removes one version. If that is current, none is then."""
        request = owner_request(self._containers, environ, target)
        found = self._head_current(environ, request.path, {"X-Backend-Open-Expired": "true"})
        newest = found.headers.get(VERSION_ID, NULL)  # a delete marker has one too
        current = newest if found.is_success else NULL
        if newest == target.version:
            hiding = {**request.headers, VERSION_HIDE: "true"}
            request, current = VersionRequest(request.path, hiding, owner_only=True), NULL
        environ[VERSION_REQUEST] = request

        def show(status: int, headers: Headers) -> None:
            if status in (204, 404):
                headers[CLIENT_VERSION_ID] = target.version
                headers[CLIENT_CURRENT_ID] = current

        return changed_answer(self._app, show)

    def _write_time(self, environ: Environ) -> str:
        """The X-Timestamp of a write, which is made now if the request has none.

        :raises HTTPException: 400 if it is malformed.
        """
        text: str | None = environ.get("HTTP_X_TIMESTAMP")
        try:
            timestamp = self._clock.now() if text is None else Timestamp(text)
        except ValueError:
            raise http_error(400, "Missing or bad X-Timestamp") from None
        environ["HTTP_X_TIMESTAMP"] = timestamp.internal
        return timestamp.internal

    def _head_current(
        self, environ: Environ, path: str, headers: dict[str, str] | None = None
    ) -> Answered:
        """HEAD of the current version.

        :raises HTTPException: 503 if it is unknown.
        """
        request = make_sub_environ(
            environ,
            "HEAD",
            path,
            SOURCE,
            query="symlink=get",
            headers={"X-Newest": "true", **(headers or {})},
            pre_authorized=True,
        )
        answer = ask_app(self._app, request)
        if answer.status >= 500:
            raise http_error(503)
        return answer

    def _head(self, environ: Environ, request: VersionRequest) -> Answered:
        head = make_sub_environ(environ, "HEAD", request.path, SOURCE, query="symlink=get")
        head[VERSION_REQUEST] = request
        return ask_app(self._app, head)


def _without_length(headers: Headers) -> HeaderList:
    return [(n, v) for n, v in headers.items() if n.lower() not in ("content-length", "etag")]
