# SPDX-License-Identifier: Apache-2.0
"""The two older modes of versioning: ``X-Versions-Location`` and ``X-History-Location``.

A PUT first copies the current object to the archive, another container, under
``<length of the name, 3 hexadecimal digits><name>/<timestamp>``. With ``X-Versions-Location`` (a
stack) a DELETE restores the newest version from the archive. With ``X-History-Location`` it
archives the current object and a delete marker. See doc/versioning.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from martlet.conf.options import is_true
from martlet.http.call import call_app
from martlet.http.environ import SPARES_LARGE, Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.http.response import HTTPException, http_error
from martlet.words.delete_markers import MARKER_TYPE
from martlet.words.names import BadNameError, split_path, str_to_wsgi, wsgi_to_str
from martlet.words.timestamp import Timestamp
from proxy.lookup.info import Info
from proxy.middleware.body_reader import BodyReader
from proxy.middleware.large_objects.slo_options import SLO_SIZE
from proxy.middleware.subrequest import (
    Answered,
    ask_app,
    ask_status,
    close_body,
    get_container_info,
    read_body,
    sub_environ,
)
from proxy.middleware.write_denial import write_denial
from proxy.replicas.spared import spared_error

STACK_HEADER = "X-Versions-Location"
HISTORY_HEADER = "X-History-Location"
#: The names under which OpenStack Swift stores them.
LOCATION_SYSMETA = "X-Container-Sysmeta-Versions-Location"
MODE_SYSMETA = "X-Container-Sysmeta-Versions-Mode"
ALLOWED_FLAGS = ("x-versions-location", "x-history-location")

_STACK, _HISTORY = "stack", "history"
_HEADER_OF_MODE = {_STACK: STACK_HEADER, _HISTORY: HISTORY_HEADER}
_SOURCE = "VW"
#: Entries of an archive in one listing.
_PAGE = 100
_NO_ARCHIVE = "The container for old versions does not exist, or refuses them."

#: The headers of an object, all of which an archived copy keeps.
_COPIED_PREFIXES = ("x-object-meta-", "x-object-sysmeta-", "x-object-transient-sysmeta-")
_COPIED_NAMES = """
    cache-control content-disposition content-encoding content-language content-type etag expires
    x-delete-at x-object-manifest x-robots-tag x-static-large-object
    x-symlink-target x-symlink-target-account x-symlink-target-bytes x-symlink-target-etag
"""
_COPIED = frozenset(_COPIED_NAMES.split())
#: The query for a manifest or symlink itself, not for its contents.
_AS_STORED = "multipart-manifest=get&symlink=get"


class _ArchivedObject(NamedTuple):
    """An object of a container with an archive; WSGI strings, except the mode."""

    version: str
    account: str
    container: str
    obj: str
    archive: str
    mode: str

    @property
    def path(self) -> str:
        return f"/{self.version}/{self.account}/{self.container}/{self.obj}"

    @property
    def archive_path(self) -> str:
        return f"/{self.version}/{self.account}/{self.archive}"

    @property
    def prefix(self) -> str:
        """The prefix of this object's versions in the archive."""
        return f"{len(self.obj):03x}{self.obj}/"


class LegacyVersions:
    """The filter."""

    def __init__(self, app: WSGIApp, is_allowed: bool = True) -> None:
        """Create the filter; unless ``is_allowed``, new headers are refused, old ones stay."""
        self._app = app
        self._is_allowed = is_allowed

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Archive or restore versions around the request; pass other requests on.

        400 both headers at once; 412 a bad location, or an archive that refuses versions; 503 the
        archive is unreachable.
        """
        try:
            version, account, container, obj = split_path(environ["PATH_INFO"], 3, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        answer: WSGIApp = self._app
        try:
            if obj:
                if environ["REQUEST_METHOD"] in ("PUT", "DELETE"):
                    names = (version or "", account or "", container or "", obj)
                    answer = self._object_method(environ, names)
            elif environ["REQUEST_METHOD"] in ("PUT", "POST"):
                self._set_location(environ, account or "", container or "")
            elif environ["REQUEST_METHOD"] in ("GET", "HEAD"):
                answer = self._show_location
        except BadNameError:
            return self._app(environ, start_response)  # it answers with the error
        except HTTPException as error:
            answer = error
        return answer(environ, start_response)

    # -- the container

    def _set_location(self, environ: Environ, account: str, container: str) -> None:
        headers = Request(environ).headers
        given = {mode: headers.get(name) for mode, name in _HEADER_OF_MODE.items()}
        # Other white space may be a byte of a character: à ends with the byte of a no-break space.
        locations = {m: value.strip(" \t") for m, value in given.items() if value is not None}
        wanted = {mode: value for mode, value in locations.items() if value}
        if len(wanted) == 2:
            names = " or ".join(ALLOWED_FLAGS)
            raise http_error(400, f"Only one of {names} may be specified")
        removals = [name.replace("X-", "X-Remove-", 1) for name in _HEADER_OF_MODE.values()]
        if not (locations or any(headers.get(name) for name in removals)):
            return
        for name in (*_HEADER_OF_MODE.values(), *removals):
            headers.pop(name, None)
        for mode, location in wanted.items():
            self._check_location(environ, wsgi_to_str(account), wsgi_to_str(container), location)
            headers[LOCATION_SYSMETA], headers[MODE_SYSMETA] = location, mode
        if not wanted:
            headers[LOCATION_SYSMETA] = headers[MODE_SYSMETA] = ""
        # Old servers store the plain header.
        headers[STACK_HEADER] = ""

    def _check_location(
        self, environ: Environ, account: str, container: str, location: str
    ) -> None:
        if not self._is_allowed:
            raise http_error(412, "Versioned Writes is disabled")
        archive = unquote(location, encoding="latin-1")
        if "/" in archive:
            raise http_error(412, "Container name cannot contain slashes")
        try:
            wsgi_to_str(archive)
        except BadNameError as error:
            raise http_error(412, str(error)) from None
        if is_true(self._info(environ, account, container)["sysmeta"].get("versions-enabled")):
            raise http_error(400, "Versioning is enabled for this container already.")

    def _show_location(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, header_list: HeaderList, exc_info: Any = None) -> Any:
            headers = Headers(header_list)
            location = headers.get(LOCATION_SYSMETA)
            if location:
                name = _HEADER_OF_MODE.get(headers.get(MODE_SYSMETA, _STACK), STACK_HEADER)
                headers[name] = location
            return start_response(status, headers.as_list(), exc_info)

        return self._app(environ, start)

    # -- its objects

    def _object_method(self, environ: Environ, names: tuple[str, str, str, str]) -> WSGIApp:
        version, account, container, obj = names
        info = self._info(environ, wsgi_to_str(account), wsgi_to_str(container))
        sysmeta = info["sysmeta"]
        location = sysmeta.get("versions-location") or info.get("versions")
        if not location or is_true(sysmeta.get("versions-enabled")):
            return self._app
        archive = unquote(str_to_wsgi(location), encoding="latin-1")
        mode = sysmeta.get("versions-mode") or _STACK
        target = _ArchivedObject(version, account, container, obj, archive, mode)
        denial = write_denial(environ, lambda: info)
        if denial is not None:
            return denial
        if SPARES_LARGE in environ:
            raise spared_error()  # the app may not see this DELETE
        if environ["REQUEST_METHOD"] == "PUT":
            self._archive_current(environ, target)
        elif target.mode == _HISTORY:
            self._archive_current(environ, target)
            self._put_marker(environ, target)
        else:
            return self._pop(environ, target)
        return self._app

    def _archive_current(self, environ: Environ, target: _ArchivedObject) -> None:
        """Copy the current object to the archive.

        :raises HTTPException: 412 or 503; the write must not happen then.
        """
        status, headers, body = self._get(environ, target.path)
        try:
            if status == 404:
                return
            _check(status)
            stamp = Timestamp(headers["X-Timestamp"]).normal
            path = f"{target.archive_path}/{target.prefix}{stamp}"
            _check(self._put(environ, path, headers, body).status)
        finally:
            close_body(body)

    def _put_marker(self, environ: Environ, target: _ArchivedObject) -> None:
        path = f"{target.archive_path}/{target.prefix}{Timestamp.now().normal}"
        marker = {"Content-Type": MARKER_TYPE}
        request = sub_environ(environ, "PUT", path, _SOURCE, headers=marker, pre_authorized=True)
        _check(ask_status(self._app, request))

    def _pop(self, environ: Environ, target: _ArchivedObject) -> WSGIApp:
        """Restore the newest version in place of the object.

        A delete marker stands for a deleted object. It is removed and the version below it is
        restored, unless that is another marker, or the object exists again.
        """
        is_marker_gone = False
        for entry in self._archived(environ, target):
            path = f"{target.archive_path}/{str_to_wsgi(entry['name'])}"
            if entry["content_type"] == MARKER_TYPE:
                if is_marker_gone:
                    break
                if self._exists(environ, target.path):
                    return self._app
                _check(self._delete(environ, path).status)
                is_marker_gone = True
            elif (restored := self._restore(environ, target, path)) is not None:
                return restored
        return _no_content if is_marker_gone else self._app

    def _restore(self, environ: Environ, target: _ArchivedObject, path: str) -> WSGIApp | None:
        """Move a version from the archive to its name; return None if it is gone by now."""
        status, headers, body = self._get(environ, path)
        try:
            if status == 404:
                return None
            _check(status)
            _check(self._put(environ, target.path, headers, body).status)
        finally:
            close_body(body)
        _check(self._delete(environ, path).status)
        return _no_content

    def _archived(self, environ: Environ, target: _ArchivedObject) -> Iterator[dict[str, Any]]:
        """Yield the versions in the archive, newest first; none if there is no archive."""
        marker = ""
        while True:
            query = f"format=json&reverse=on&limit={_PAGE}&prefix={_quoted(target.prefix)}"
            query += f"&marker={_quoted(marker)}"
            request = sub_environ(
                environ, "GET", target.archive_path, _SOURCE, query=query, pre_authorized=True
            )
            answer = ask_app(self._app, request)
            if answer.status == 404:
                return
            _check(answer.status)
            entries = json.loads(answer.body) if answer.body else []
            yield from entries
            if len(entries) < _PAGE:
                return
            marker = str_to_wsgi(entries[-1]["name"])

    def _exists(self, environ: Environ, path: str) -> bool:
        request = sub_environ(environ, "HEAD", path, _SOURCE, query=_AS_STORED, pre_authorized=True)
        answer = ask_app(self._app, request)
        if answer.status != 404:
            _check(answer.status)
        return answer.is_success

    def _get(self, environ: Environ, path: str) -> tuple[int, Headers, Iterable[bytes]]:
        request = sub_environ(environ, "GET", path, _SOURCE, query=_AS_STORED, pre_authorized=True)
        request["HTTP_X_NEWEST"] = "true"
        status, headers, body = call_app(self._app, request)
        return int(status[:3]), Headers(headers), body

    def _put(self, environ: Environ, path: str, source: Headers, body: Iterable[bytes]) -> Answered:
        """Store a copy of ``source`` under another name.

        :raises HTTPException: 503 the source broke off.
        """
        headers = {
            name: value
            for name, value in source.items()
            if name.lower() in _COPIED or name.lower().startswith(_COPIED_PREFIXES)
        }
        if SLO_SIZE in source:  # so that listings still show the size of the whole
            headers["Content-Type"] = f"{source['Content-Type']};swift_bytes={source[SLO_SIZE]}"
        request = sub_environ(environ, "PUT", path, _SOURCE, headers=headers, pre_authorized=True)
        request["swift.symlink_override"] = True  # the target may have changed by now
        reader = BodyReader(body)
        request["wsgi.input"] = reader
        request["CONTENT_LENGTH"] = source["Content-Length"]
        status, header_list, answer = call_app(self._app, request)
        text = read_body(answer)
        if reader.broke_off:
            raise http_error(503, "The old version could not be read to its end.")
        return Answered(int(status[:3]), Headers(header_list), text)

    def _delete(self, environ: Environ, path: str) -> Answered:
        return ask_app(
            self._app, sub_environ(environ, "DELETE", path, _SOURCE, pre_authorized=True)
        )

    def _info(self, environ: Environ, account: str, container: str) -> Info:
        """Return the container's info.

        :raises HTTPException: 503 it is unknown, so a write could overwrite an object.
        """
        info = get_container_info(environ, self._app, account, container, _SOURCE)
        if info["status"] >= 500:
            raise http_error(503)
        return info


def _check(status: int) -> None:
    if 200 <= status < 300:
        return
    if 400 <= status < 500:
        raise http_error(412, _NO_ARCHIVE)
    raise http_error(503, "The old version could not be archived or restored; try again.")


def _no_content(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("204 No Content", [])
    return [b""]


def _quoted(text: str) -> str:
    return quote(text, safe="", encoding="latin-1")
