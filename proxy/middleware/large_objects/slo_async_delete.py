# SPDX-License-Identifier: Apache-2.0
"""DELETE of a static large object whose segments are left to the expirer.

The segments get their tasks first, and the manifest goes after them. So an interrupted DELETE can
be repeated. If the DELETE of the manifest is refused, the tasks are taken back. What is written to
the name of a segment after the DELETE stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import HTTPException, http_error
from martlet.words.names import split_path
from martlet.words.timestamp import Timestamp
from proxy.middleware.large_objects.slo_delete import (
    UnreadableManifest,
    doomed_manifest,
    load_manifest,
)
from proxy.middleware.subrequest import delete_later, get_container_info
from proxy.middleware.write_denial import write_denial

_NAMES_MAX = 1000  # of one request to the queue


class _Left(NamedTuple):
    """Segments that have tasks."""

    container: tuple[str, str]
    names: list[str]
    due: Timestamp


class SloAsyncDelete:
    """Serves ``DELETE ?multipart-manifest=delete&async=on``."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """The answer is that of the DELETE of the manifest; of 400 or above if it is not tried."""
        try:
            left = self._leave_segments(environ)
        except HTTPException as error:
            return error.response(environ, start_response)
        if not isinstance(left, _Left):
            return (left or self._app)(environ, start_response)
        status, headers, body = call_app(self._app, environ)
        if status[:1] == "4" and status[:3] != "404":  # it is locked, say, or newer
            self._queue(environ, left, withdraws=True)
        start_response(status, headers)
        return body

    def _leave_segments(self, environ: Environ) -> _Left | WSGIApp | None:
        """Have the segments deleted.

        :returns: what has tasks now, or the refusal of the auth system; None without segments.
        :raises HTTPException: 400 the object is no manifest, or one with segments in several
            containers or that are large objects; 403 the client may not read it; 412 an invalid
            name; 500 it is damaged; 503 it cannot be read now, or the queue takes nothing.
        """
        doomed = doomed_manifest(environ)
        try:
            entries = load_manifest(self._app, environ, *doomed)
        except UnreadableManifest as error:
            raise http_error(error.status, f"{error.name}: {error}") from None
        segments = [entry for entry in entries or [] if entry.data is None]
        if not segments:
            return None
        if any(entry.is_large for entry in segments):
            raise http_error(400, "No segments may be large objects.")
        places = [split_path(entry.name, 2, 2, True) for entry in segments]
        containers = sorted({str(container) for container, _ in places})
        if len(containers) > 1:
            found = ", ".join(f'"{name}"' for name in containers)
            text = f"All segments must be in one container. Found segments in {found}"
            raise http_error(400, text)
        account, own = doomed.base.rpartition("/")[2], doomed.name.split("/")[1]
        for container in {own, containers[0]}:
            find = partial(get_container_info, environ, self._app, account, container, "SLO")
            if (denial := write_denial(environ, find)) is not None:
                return denial
        names = list(dict.fromkeys(str(name) for _, name in places))
        left = _Left((account, containers[0]), names, Timestamp.now())
        if not self._queue(environ, left):
            self._queue(environ, left, withdraws=True)
            raise http_error(503)
        return left

    def _queue(self, environ: Environ, left: _Left, *, withdraws: bool = False) -> bool:
        """Whether the queue took all; it may have taken a part."""
        for start in range(0, len(left.names), _NAMES_MAX):
            some = left.names[start : start + _NAMES_MAX]
            place, due = left.container, left.due
            if not delete_later(environ, self._app, place, some, due, "SLO", withdraws=withdraws):
                return False
        return True
