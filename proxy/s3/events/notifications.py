# SPDX-License-Identifier: Apache-2.0
"""The filter ``notifications``: writes and deletes of objects become events.

It sees requests of Swift's API, those of clients and those that s3api makes, after the auth filter
has let them pass. A write has succeeded when its answer says so. Place it right of copy.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import (
    ACCESS_LOGGING,
    NOTIFICATION_TARGETS,
    S3_WRITE,
    SOURCE,
    TRANS_ID,
    Environ,
    HeaderList,
    StartResponse,
    WSGIApp,
)
from martlet.http.headers import Headers, environ_key
from martlet.log import fields, get_logger
from martlet.words.names import split_path, wsgi_to_str
from proxy.middleware.subrequest import ask_app, close_body, get_container_info, sub_environ
from proxy.s3.events.options import NotificationOptions
from proxy.s3.events.outbox import Outbox
from proxy.s3.events.record import Event, record_of
from proxy.s3.events.rules import rules_of
from proxy.s3.object_headers import ETAG, s3_etag
from proxy.s3.wire.notification import CREATED, REMOVED

log = get_logger("proxy.notifications")

_SOURCE = "EV"
_COPY_SOURCE = "SSC"
#: The status that slo's report about a deleted large object has, in any of its forms.
_DELETED = re.compile(rb"response[ _]status\W{1,8}200", re.IGNORECASE)
_REPORT_BYTES_MAX = 64 * 1024


class _Write(NamedTuple):
    """A PUT or DELETE of an object; WSGI strings."""

    account: str
    container: str
    key: str
    version: str
    is_manifest: bool


class Notifications:
    """The filter."""

    def __init__(
        self,
        app: WSGIApp,
        options: NotificationOptions,
        outbox: Outbox,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Create the filter; ``clock`` returns nanoseconds since 1970."""
        self._app = app
        self._location = options.location
        self._outbox = outbox
        self._clock = clock

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass a request on, and note its event if it has succeeded."""
        if not self._outbox.lines:
            return self._app(environ, start_response)
        self._outbox.start()
        if NOTIFICATION_TARGETS in environ:
            environ[NOTIFICATION_TARGETS].update(self._outbox.lines)
        write = _write_of(environ)
        if write is None:
            return self._app(environ, start_response)
        method = environ["REQUEST_METHOD"]
        length = environ.get("CONTENT_LENGTH") or ""
        status, header_list, body = call_app(self._app, environ)
        start_response(status, header_list)
        if method == "PUT" and status[:3] == "201":
            size = int(length) if length.isdecimal() and not write.is_manifest else None
            self._note_created(environ, write, Headers(header_list), size)
        elif method == "DELETE" and status[:3] in ("200", "204"):
            if write.is_manifest:
                return self._note_deleted_parts(environ, write, header_list, body)
            self._note_removed(environ, write, Headers(header_list))
        return body

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The figures of this process for GET /metrics."""
        return self._outbox.gauges()

    def _note_created(
        self, environ: Environ, write: _Write, stored: Headers, size: int | None
    ) -> None:
        kind = environ.get(S3_WRITE) or "Put"
        if write.is_manifest:
            kind = "CompleteMultipartUpload"
        elif kind == "Put" and environ.get(SOURCE) == _COPY_SOURCE:
            kind = "Copy"
        etag = environ.get(environ_key(ETAG)) or str(stored.get("etag", "")).strip('"')
        version = str(stored.get("x-object-version-id", ""))
        self._note(environ, write, CREATED + kind, version, etag, size)

    def _note_removed(self, environ: Environ, write: _Write, answered: Headers) -> None:
        marker = str(answered.get("x-object-version-id", ""))
        is_marker = bool(marker) and not write.version
        kind = "DeleteMarkerCreated" if is_marker else "Delete"
        self._note(environ, write, REMOVED + kind, marker if is_marker else write.version)

    def _note_deleted_parts(
        self, environ: Environ, write: _Write, header_list: HeaderList, body: Iterable[bytes]
    ) -> Iterable[bytes]:
        """Pass on slo's report, whose end says whether the object is gone."""
        report = b""
        try:
            for piece in body:
                report = (report + piece)[-_REPORT_BYTES_MAX:]
                yield piece
        finally:
            close_body(body)
        if _DELETED.search(report):
            self._note_removed(environ, write, Headers(header_list))

    def _note(self, environ: Environ, write: _Write, *facts: Any) -> None:
        """As ``_put``. The request has succeeded, so it is answered whatever happens here."""
        try:
            self._put(environ, write, *facts)
        except Exception as error:
            log.exception("a notification is lost %s", fields(error=error))

    def _put(
        self,
        environ: Environ,
        write: _Write,
        name: str,
        version: str,
        etag: str = "",
        size: int | None = None,
    ) -> None:
        """Put the event ``name`` into the outbox for each rule that wants it."""
        account, container, key = map(wsgi_to_str, write[:3])
        info = get_container_info(environ, self._app, account, container, _SOURCE)
        rules = [rule for rule in rules_of(info) if rule.wants(name, key)]
        if not rules:
            return
        if size is None and name.startswith(CREATED):
            etag, size = self._ask(environ, etag)
        event = Event(
            name=name,
            account=account,
            bucket=container,
            key=key,
            moment=self._clock(),
            etag=etag,
            size=size,
            version=version,
            user=str((environ.get(ACCESS_LOGGING) or {}).get("user_id") or ""),
            address=str(environ.get("REMOTE_ADDR") or ""),
            request_id=str(environ.get(TRANS_ID) or ""),
        )
        for rule in rules:
            self._outbox.put(rule.target, record_of(event, rule.id, self._location))

    def _ask(self, environ: Environ, etag: str) -> tuple[str, int | None]:
        """The ETag and the size of an object that came in parts, or in chunks."""
        path = environ["PATH_INFO"]
        request = sub_environ(environ, "HEAD", path, _SOURCE, pre_authorized=True)
        found = ask_app(self._app, request)
        length = found.headers.get("content-length", "")
        if not found.is_success or not length.isdecimal():
            return etag, None
        return s3_etag(found.headers), int(length)


def _write_of(environ: Environ) -> _Write | None:
    """The write that a request asks for; None for another request.

    A PUT that makes an old version current again is none: it creates nothing.
    """
    method = environ["REQUEST_METHOD"]
    if method not in ("PUT", "DELETE"):
        return None
    try:
        _, account, container, key = split_path(environ["PATH_INFO"], 4, 4, True)
    except ValueError:
        return None
    query = parse_qs(environ.get("QUERY_STRING") or "", keep_blank_values=True)
    version = query.get("version-id", [""])[-1]
    if method == "PUT" and version:
        return None
    wanted = "put" if method == "PUT" else "delete"
    is_manifest = query.get("multipart-manifest", [""])[-1] == wanted
    return _Write(str(account), str(container), str(key), version, is_manifest)


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], Notifications]:
    """PasteDeploy's entry point."""
    options = load_filter_options(NotificationOptions, "notifications", global_conf, local_conf)
    return lambda app: Notifications(app, options, Outbox(options))
