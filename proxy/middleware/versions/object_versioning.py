# SPDX-License-Identifier: Apache-2.0
"""Object versioning: ``X-Versions-Enabled`` on a container, ``?versions``, ``?version-id=``.

The object servers keep the versions of a name themselves; this filter says, of each write, which
version it is to make, and of each read which one is meant. The id of a version is its X-Timestamp,
so it is the same on every replica and when a write is repeated. See doc/versioning.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import quote

from martlet.conf.options import is_true
from martlet.http.call import call_app
from martlet.http.environ import (
    LISTING_IS_JSON,
    VERSION_REQUEST,
    Environ,
    HeaderList,
    StartResponse,
    WSGIApp,
)
from martlet.http.headers import Headers
from martlet.http.listing import JSON, accepts
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response, http_error
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from martlet.words.timestamp import Timestamp
from proxy.lookup.info import Info
from proxy.middleware.subrequest import Answered, ask_app, close_body, get_container_info
from proxy.middleware.subrequest import sub_environ as make_sub_environ
from proxy.middleware.versions.clock import VersionClock
from proxy.replicas.versions import (
    MARKER_TYPE,
    NULL,
    VERSION_HIDE,
    VERSION_ID,
    VERSION_MARKER,
    VERSION_RESTORE,
    VersionRequest,
)

ENABLED_HEADER = "X-Versions-Enabled"
#: Whether versioning is enabled; a container that never had it has no such header.
ENABLED_SYSMETA = "X-Container-Sysmeta-Versions-Enabled"
_ENABLED_KEY = "versions-enabled"
_CLIENT_ID = "X-Object-Version-Id"
_CURRENT_ID = "X-Object-Current-Version-Id"
_LEGACY_HEADERS = ("X-Versions-Location", "X-History-Location")
_SOURCE = "OV"

#: Changes the status and headers of an answer on its way to the client.
Change = Callable[[int, Headers], None]


class _Object(NamedTuple):
    """The object of a request: names as text, and the query's version id, "" for none."""

    account: str
    container: str
    version: str


class ObjectVersioning:
    """The filter."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app
        self._clock = VersionClock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """400 a bad or forbidden use of versions, 404 no such version, 406 a listing of versions in
        another form than JSON; else what the rest of the pipeline answers.
        """
        try:
            _, account, container, obj = split_path(environ["PATH_INFO"], 3, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        try:
            account, container = wsgi_to_str(account or ""), wsgi_to_str(container or "")
            if not obj:
                answer = self._container_method(environ, account, container)
            else:
                target = _Object(account, container, _version_parameter(environ))
                answer = self._object_method(environ, target)
        except BadNameError:
            return self._app(environ, start_response)  # which says what is wrong with it
        except HTTPException as error:
            answer = error
        return answer(environ, start_response)

    def _container_method(self, environ: Environ, account: str, container: str) -> WSGIApp:
        method = environ["REQUEST_METHOD"]
        if method in ("PUT", "POST") and Request(environ).headers.get(ENABLED_HEADER):
            self._check_enabling(environ, account, container)
            return self._app
        if method == "DELETE":
            return self._delete_container(environ, account, container)
        if method == "GET" and environ.get("QUERY_STRING"):
            _check_listing(environ)
        return self._changed(_show_enabled) if method in ("GET", "HEAD") else self._app

    def _check_enabling(self, environ: Environ, account: str, container: str) -> None:
        headers = Request(environ).headers
        enables = is_true(headers[ENABLED_HEADER])
        if enables:
            sysmeta = self._info(environ, account, container)["sysmeta"]
            is_legacy = any(headers.get(name) for name in _LEGACY_HEADERS)
            if is_legacy or sysmeta.get("versions-location"):
                raise http_error(
                    400,
                    "Cannot enable object versioning on a container that is already using"
                    " the legacy versioned writes feature.",
                )
        headers[ENABLED_SYSMETA] = str(enables)

    def _delete_container(self, environ: Environ, account: str, container: str) -> WSGIApp:
        status, headers, body = call_app(self._app, environ)
        if status[:3] == "409" and self._is_versioned(environ, account, container):
            close_body(body)
            raise http_error(409, "Delete all versions before deleting container.")

        def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            start_response(status, headers)
            return body

        return answer

    def _object_method(self, environ: Environ, target: _Object) -> WSGIApp:
        method = environ["REQUEST_METHOD"]
        if method in ("GET", "HEAD"):
            read = self._read_version if target.version else self._read
            return read(environ, target)
        if method == "PUT":
            return self._restore(environ, target) if target.version else self._put(environ, target)
        if method == "DELETE":
            if target.version and target.version != NULL:
                return self._delete_version(environ, target)
            return self._delete(environ, target)
        return self._post(environ, target) if method == "POST" else self._app

    def _read(self, environ: Environ, target: _Object) -> WSGIApp:
        path = environ["PATH_INFO"]

        def show(status: int, headers: Headers) -> None:
            info = get_container_info(environ, self._app, *target[:2], _SOURCE)
            # From any other container a symlink may lead to a version, which is not its own.
            if info["sysmeta"].get(_ENABLED_KEY):
                _name_version(status, headers, path)

        return self._changed(show)

    def _read_version(self, environ: Environ, target: _Object) -> WSGIApp:
        version = target.version
        if version == NULL:
            headers = {VERSION_ID: NULL} if self._is_versioned(environ, *target[:2]) else {}
            request = VersionRequest(environ["PATH_INFO"], headers)
        else:
            request = self._requested(environ, target, {})

        def show(status: int, headers: Headers) -> None:
            is_marker = VERSION_MARKER in headers
            if status != 404 or is_marker:
                headers[_CLIENT_ID] = version
            if is_marker:
                headers["Content-Type"] = MARKER_TYPE
            if headers.get(VERSION_ID) == version:
                # It ends that the version is current, and is nothing that a copy should have.
                headers.pop("X-Delete-At", None)

        environ[VERSION_REQUEST] = request
        return self._changed(show)

    def _put(self, environ: Environ, target: _Object) -> WSGIApp:
        if not self._is_enabled(environ, target):
            return self._app
        is_given = "HTTP_X_TIMESTAMP" in environ
        version = self._write_time(environ)
        environ[VERSION_REQUEST] = VersionRequest(environ["PATH_INFO"], {VERSION_ID: version})

        def show(status: int, headers: Headers) -> None:
            if status == 201:
                headers[_CLIENT_ID] = version

        return self._changed(show) if is_given else self._refusing_accepted(show)

    def _refusing_accepted(self, change: Change) -> WSGIApp:
        """The same as `_changed`, but 503 for 202: another write has the same timestamp, so that
        this one is not kept.
        """
        inner = self._changed(change)

        def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            status, headers, body = call_app(inner, environ)
            if status[:3] == "202":
                close_body(body)
                error = http_error(503, "Another version was written at the same moment.")
                return error(environ, start_response)
            start_response(status, headers)
            return body

        return answer

    def _restore(self, environ: Environ, target: _Object) -> WSGIApp:
        """Make a version current again; it keeps its id, and no data move."""
        if target.version == NULL:
            raise http_error(400, "Invalid version parameter")
        request = self._requested(environ, target, {VERSION_RESTORE: target.version})
        if environ.get("CONTENT_LENGTH") not in (None, "", "0") or (
            "HTTP_TRANSFER_ENCODING" in environ and environ["wsgi.input"].read(1)
        ):
            raise http_error(400, "PUT version-id requests require a zero byte body")
        found = self._head(environ, VersionRequest(request.path, _named(target.version), True))
        if VERSION_MARKER in found.headers:
            named = {_CLIENT_ID: target.version}
            raise http_error(400, "A delete marker cannot be made current", named)
        if not found.is_success:
            raise HTTPException(Response(found.status, _without_length(found.headers)))
        headers = dict(request.headers)
        environ[VERSION_REQUEST] = VersionRequest(request.path, headers, owner_only=True)
        environ["CONTENT_LENGTH"] = "0"
        environ.pop("HTTP_TRANSFER_ENCODING", None)

        def show(status: int, headers: Headers) -> None:
            if status == 201:
                headers[_CLIENT_ID] = target.version
                for name in ("Etag", "Last-Modified"):
                    headers[name] = found.headers[name]

        return self._changed(show)

    def _post(self, environ: Environ, target: _Object) -> WSGIApp:
        """Name the version that is current: while others are written each replica would take the
        POST for the one that is current there.
        """
        if target.version:
            raise http_error(400, "POST to a specific version is not allowed")
        if not self._is_versioned(environ, *target[:2]):
            return self._app
        path = environ["PATH_INFO"]
        found = self._head_current(environ, path)
        # Of the moment of this POST there is no version: so it is 404 for whoever may write.
        version = found.headers.get(VERSION_ID, NULL) if found.is_success else None
        headers = _named(version or self._write_time(environ))
        environ[VERSION_REQUEST] = VersionRequest(path, headers)
        return self._app

    def _delete(self, environ: Environ, target: _Object) -> WSGIApp:
        # A DELETE of the null version is one without versioning; so is that of the expirer.
        is_plain = target.version == NULL or "HTTP_X_IF_DELETE_AT" in environ
        if is_plain or not self._is_enabled(environ, target):
            return self._app
        version = self._write_time(environ)
        headers = {VERSION_ID: version, VERSION_MARKER: "true"}
        environ[VERSION_REQUEST] = VersionRequest(environ["PATH_INFO"], headers)

        def show(status: int, headers: Headers) -> None:
            if status in (204, 404) and headers.get(VERSION_ID) == version:
                headers[_CLIENT_ID] = version

        return self._changed(show)

    def _delete_version(self, environ: Environ, target: _Object) -> WSGIApp:
        request = self._requested(environ, target, {})
        found = self._head_current(environ, request.path, {"X-Backend-Open-Expired": "true"})
        newest = found.headers.get(VERSION_ID, NULL)  # a delete marker has one, too
        current = newest if found.is_success else NULL
        if newest == target.version:
            hiding = {**request.headers, VERSION_HIDE: "true"}
            request, current = VersionRequest(request.path, hiding, owner_only=True), NULL
        environ[VERSION_REQUEST] = request

        def show(status: int, headers: Headers) -> None:
            if status in (204, 404):
                headers[_CLIENT_ID] = target.version
                headers[_CURRENT_ID] = current

        return self._changed(show)

    def _write_time(self, environ: Environ) -> str:
        """The X-Timestamp of a write, which is made now if it is not there yet."""
        text: str | None = environ.get("HTTP_X_TIMESTAMP")
        try:
            timestamp = self._clock.now() if text is None else Timestamp(text)
        except ValueError:
            raise http_error(400, "Missing or bad X-Timestamp") from None
        environ["HTTP_X_TIMESTAMP"] = timestamp.internal
        return timestamp.internal

    def _requested(
        self, environ: Environ, target: _Object, headers: dict[str, str]
    ) -> VersionRequest:
        """A request about the version that the query names, which is the owner's alone.

        :raises HTTPException: 400 if it is no version id, or the container has no versions.
        """
        if not self._is_versioned(environ, *target[:2]):
            raise http_error(
                400, "version-aware operations require that the container is versioned"
            )
        return VersionRequest(environ["PATH_INFO"], headers or _named(target.version), True)

    def _head_current(
        self, environ: Environ, path: str, headers: dict[str, str] | None = None
    ) -> Answered:
        """HEAD of what is current.

        :raises HTTPException: 503 nobody can say.
        """
        request = make_sub_environ(
            environ,
            "HEAD",
            path,
            _SOURCE,
            query="symlink=get",
            headers={"X-Newest": "true", **(headers or {})},
            pre_authorized=True,
        )
        answer = ask_app(self._app, request)
        if answer.status >= 500:
            raise http_error(503)
        return answer

    def _head(self, environ: Environ, request: VersionRequest) -> Answered:
        head = make_sub_environ(environ, "HEAD", request.path, _SOURCE, query="symlink=get")
        head[VERSION_REQUEST] = request
        return ask_app(self._app, head)

    def _is_enabled(self, environ: Environ, target: _Object) -> bool:
        return is_true(self._info(environ, *target[:2])["sysmeta"].get(_ENABLED_KEY))

    def _is_versioned(self, environ: Environ, account: str, container: str) -> bool:
        """Whether versioning is, or once was, enabled."""
        return bool(self._info(environ, account, container)["sysmeta"].get(_ENABLED_KEY))

    def _info(self, environ: Environ, account: str, container: str) -> Info:
        """
        :raises HTTPException: 503 nobody can say; a write would be one without versions.
        """
        info = get_container_info(environ, self._app, account, container, _SOURCE)
        if info["status"] >= 500:
            raise http_error(503)
        return info

    def _changed(self, change: Change) -> WSGIApp:
        """The rest of the pipeline, with what it answers changed."""

        def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            def start(status: str, header_list: HeaderList, exc_info: Any = None) -> Any:
                headers = Headers(header_list)
                change(int(status[:3]), headers)
                return start_response(status, headers.as_list(), exc_info)

            return self._app(environ, start)

        return answer


def _named(version: str) -> dict[str, str]:
    return {VERSION_ID: version}


def _version_parameter(environ: Environ) -> str:
    """The version id in the query, in the form in which it is stored; "" for none.

    :raises HTTPException: 400 if it is none, or the query is not UTF-8.
    """
    if not environ.get("QUERY_STRING"):
        return ""
    try:
        text = Request(environ).params.get("version-id", "")
        if text in ("", NULL) or environ["REQUEST_METHOD"] == "POST":
            return text
        return Timestamp(text).internal
    except ValueError:
        raise http_error(400, "Invalid version parameter") from None


def _check_listing(environ: Environ) -> None:
    """Make a listing of versions one in JSON, the only form there is.

    :raises HTTPException: 400 a bad version_marker, 406 another form is wanted.
    """
    request = Request(environ)
    params = request.params
    if "versions" not in params:
        return
    wanted = params.get("format")
    accept = None if wanted else request.headers.get("Accept")
    if (wanted and wanted.lower() != "json") or not accepts(JSON, accept):
        raise http_error(406, "A listing of versions is in application/json.")
    marker = params.get("version_marker")
    if marker is not None:
        if "marker" not in params:
            raise http_error(400, "version_marker param requires marker")
        try:
            if marker != NULL:
                Timestamp(marker)
        except ValueError:
            raise http_error(400, "invalid version_marker param") from None
    environ[LISTING_IS_JSON] = True


def _name_version(status: int, headers: Headers, path: str) -> None:
    version = headers.get(VERSION_ID, NULL)
    headers[_CLIENT_ID] = NULL if status == 404 else version
    if headers[_CLIENT_ID] != NULL:
        quoted = quote(path, encoding="latin-1")
        headers["Content-Location"] = f"{quoted}?version-id={version}"


def _show_enabled(status: int, headers: Headers) -> None:
    if ENABLED_SYSMETA in headers:
        headers[ENABLED_HEADER] = headers[ENABLED_SYSMETA]


def _without_length(headers: Headers) -> HeaderList:
    return [(n, v) for n, v in headers.items() if n.lower() not in ("content-length", "etag")]
