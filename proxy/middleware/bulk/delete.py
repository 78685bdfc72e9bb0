# SPDX-License-Identifier: Apache-2.0
"""Many deletes in one request: ``POST`` or ``DELETE /v1/account?bulk-delete``.

The body is a list of percent-encoded names, ``/container/object`` or ``/container``, one per line.
Objects are deleted first, then the containers, which may be empty by then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from martlet.conf.constraints import Constraints
from martlet.http.environ import Environ, WSGIApp
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import BadNameError, check_text, split_path, wsgi_to_str
from proxy.crew import run_crew
from proxy.middleware.bulk.options import BulkOptions
from proxy.middleware.bulk.report import Report, Work
from proxy.middleware.subrequest import ask_status, sub_environ

SOURCE = "BD"
_RETRY_BASE_SECONDS = 1.5


class Doomed(NamedTuple):
    """A name to delete: ``container/object`` or ``container``, a WSGI string.

    :param query: of the DELETE, e.g. ``version-id=…``.
    """

    name: str
    query: str = ""

    @property
    def is_container(self) -> bool:
        """Whether it is the name of a container."""
        return "/" not in self.name.strip("/")


class Deletion:
    """The deletion of a list of names; ``report`` holds the outcome."""

    def __init__(
        self,
        app: WSGIApp,
        environ: Environ,
        options: BulkOptions,
        source: str = SOURCE,
        agent: str = "BulkDelete",
    ) -> None:
        self.report = Report("delete", 200, {"Number Deleted": 0, "Number Not Found": 0})
        self._app = app
        self._environ = environ
        self._options = options
        self._source = source
        self._agent = f"{environ.get('HTTP_USER_AGENT', '')} {agent}".strip()
        self._account = ""  # "/v1/account/", a WSGI string
        self._lock = threading.Lock()  # guards the iterator over the names and the report
        self._has_server_error = False

    def run(self, names: Iterable[Doomed]) -> Work:
        """Delete all names; pause every ``yield_frequency`` seconds.

        :raises HTTPException: 400 too many failures, or nothing to delete; 404.
        """
        try:
            version, account, _ = split_path(self._environ["PATH_INFO"], 2, 3, True)
        except ValueError:
            raise http_error(404) from None
        self._account = f"/{version}/{account}/"
        names = list(names)
        yield from self._delete_all([name for name in names if not name.is_container])
        yield from self._delete_all([name for name in names if name.is_container])
        report = self.report
        if report.failures:
            report.status = 502 if self._has_server_error else 400
        elif not any(report.counts.values()):
            raise http_error(400, "Invalid bulk delete.")

    def _delete_all(self, names: list[Doomed]) -> Work:
        left = iter(names)

        def delete_next() -> bool:
            if self._has_failed_too_often():
                return False
            with self._lock:
                doomed = next(left, None)
            if doomed is None:
                return False
            self._delete(doomed)
            return True

        if names:
            size = min(self._options.delete_concurrency, len(names))
            yield from run_crew(delete_next, size, self._options.yield_frequency)
        if self._has_failed_too_often():
            raise http_error(400, "Max delete failures exceeded")

    def _has_failed_too_often(self) -> bool:
        return len(self.report.failures) >= self._options.max_failed_deletes

    def _delete(self, doomed: Doomed) -> None:
        path = self._account + doomed.name.lstrip("/")
        try:
            check_text(wsgi_to_str(path))
        except BadNameError:
            self.report.add_failure(doomed.name, 412)
            return
        status = self._ask(path, doomed.query)
        retries = self._options.delete_container_retry_count if doomed.is_container else 0
        for retry in range(1, retries + 1):
            if status != 409:
                break
            time.sleep(_RETRY_BASE_SECONDS**retry)
            status = self._ask(path, doomed.query)
        self._note(doomed.name, status)

    def _ask(self, path: str, query: str) -> int:
        headers = {"User-Agent": self._agent}
        request = sub_environ(
            self._environ, "DELETE", path, self._source, query=query, headers=headers
        )
        return ask_status(self._app, request)

    def _note(self, name: str, status: int) -> None:
        with self._lock:
            if 200 <= status < 300:
                self.report.counts["Number Deleted"] += 1
            elif status == 404:
                self.report.counts["Number Not Found"] += 1
            else:
                self._has_server_error = self._has_server_error or status >= 500
                self.report.add_failure(name, status)


def delete_listed(
    deletion: Deletion, environ: Environ, options: BulkOptions, constraints: Constraints
) -> Work:
    """Read the names in a request's body and delete them; see ``Deletion.run``.

    :raises HTTPException: also 406 the body is not plain text, 411, 413 too many names.
    """
    content_type = environ.get("CONTENT_TYPE") or "text/plain"
    if not content_type.startswith("text/plain"):
        raise http_error(406, "The names to delete must be text/plain.")
    yield from deletion.run(read_names(environ, options, constraints))


def read_names(environ: Environ, options: BulkOptions, constraints: Constraints) -> list[Doomed]:
    """Return the names in the body of a bulk delete.

    :raises HTTPException: 400 a name is too long, or the body ends early; 411; 413.
    """
    req = Request(environ)
    length = req.content_length
    if length is None and not req.is_chunked:
        raise http_error(411)
    # Each byte of a name may be percent-encoded.
    name_length_max = 3 * (
        constraints.max_object_name_length + constraints.max_container_name_length + 2
    )
    found: list[Doomed] = []
    while True:
        try:
            line = req.body_file.readline(name_length_max + 2)
        except (OSError, ValueError):
            raise http_error(400, "The list of names could not be read to its end.") from None
        if not line:
            return found
        if len(line) > name_length_max + 1 and not line.endswith(b"\n"):
            raise http_error(400, "Invalid File Name")
        name = unquote_to_bytes(line.strip()).decode("latin-1")
        if name.strip("/"):
            found.append(Doomed(name))
        if len(found) > options.max_deletes_per_request:
            limit = options.max_deletes_per_request
            raise http_error(413, f"Maximum Bulk Deletes: {limit} per request")
