# SPDX-License-Identifier: Apache-2.0
"""DELETE of a static large object together with its segments.

Segments go first and manifests after them: what breaks off in the middle can be repeated, for as
long as the manifest is there it tells what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from martlet.http import STATUS_LINES, Environ, Headers, StartResponse, WSGIApp, call_app
from martlet.names import BadNameError, check_text, split_path, str_to_wsgi, wsgi_to_str
from proxy.middleware.bulk_response import Problem, bulk_body, bulk_content_type
from proxy.middleware.concurrently import concurrently
from proxy.middleware.segments import AS_STORED
from proxy.middleware.slo_manifest import Entry, ManifestError, load_entries
from proxy.middleware.slo_options import SloOptions, is_slo
from proxy.middleware.subrequest import ask_app, close_body, read_body, sub_environ


class _Stop(Exception):
    """Nothing more is deleted; ``problem`` may name an object and what was wrong with it."""

    def __init__(self, status: int = 400, text: str = "", problem: Problem | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.problem = problem


class _NotLarge(_Stop):
    """The object is not a static large object, or a symlink to one."""


@dataclass(slots=True)
class _Outcome:
    """What has been done so far."""

    deleted: int = 0
    not_found: int = 0
    problems: list[Problem] = field(default_factory=list)
    status: int = 200

    def note(self, name: str, status: int) -> None:
        """Count the answer to the DELETE of one object."""
        if 200 <= status < 300:
            self.deleted += 1
        elif status == 404:
            self.not_found += 1
        else:
            self.problems.append((quote(name), STATUS_LINES.get(status, str(status))))
            # A server's failure is worth another try, a client's is not.
            self.status = 502 if status >= 500 else max(self.status, 400)


class SloDelete:
    """Serves ``DELETE ?multipart-manifest=delete``."""

    def __init__(self, app: WSGIApp, options: SloOptions) -> None:
        self._app = app
        self._options = options

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Always 200, with counts, the true status and the errors in the body."""
        content_type = bulk_content_type(environ.get("HTTP_ACCEPT"))
        start_response(STATUS_LINES[200], [("Content-Type", content_type)])
        return self._work(environ, content_type)

    def _work(self, environ: Environ, content_type: str) -> Iterator[bytes]:
        outcome = _Outcome()
        text = ""
        has_begun = False
        try:
            for _ in self._delete_all(environ, outcome):
                has_begun = True
                yield b" "  # a sign of life
        except _Stop as stop:
            outcome.status, text = stop.status, str(stop)
            if stop.problem is not None:
                outcome.problems.append(stop.problem)
        values: dict[str, str | int] = {
            "Response Status": STATUS_LINES[outcome.status],
            "Response Body": text,
            "Number Deleted": outcome.deleted,
            "Number Not Found": outcome.not_found,
        }
        separator = b"\r\n\r\n" if has_begun else b""
        yield separator + bulk_body(content_type, "delete", values, outcome.problems)

    def _delete_all(self, environ: Environ, outcome: _Outcome) -> Iterator[None]:
        """Yields when nothing happened for a while.

        :raises _Stop: a manifest cannot be read.
        """
        try:
            path = check_text(wsgi_to_str(environ["PATH_INFO"]))
        except BadNameError:
            raise _Stop(412, "Invalid UTF8 or contains NULL") from None
        version, account, container, obj = split_path(path, 4, 4, True)
        base, top = f"/{version}/{account}", f"/{container}/{obj}"
        version_query = _version_query(environ)
        segments, manifests = self._collect(environ, base, top, outcome)

        def delete(name: str) -> int:
            query = version_query if name == top else ""
            path = str_to_wsgi(base + name)
            return ask_app(
                self._app, sub_environ(environ, "DELETE", path, "SLO", query=query)
            ).status

        tick = self._options.yield_frequency or None
        for done in concurrently(delete, segments, self._options.delete_concurrency, tick):
            if done is None:
                yield None
            else:
                outcome.note(*done)
        if outcome.problems:
            return  # the manifests still tell what is left
        for name in manifests:
            outcome.note(name, delete(name))

    def _collect(
        self, environ: Environ, base: str, name: str, outcome: _Outcome
    ) -> tuple[list[str], list[str]]:
        """Names of all segments, and of the manifests, those within before those around them."""
        segments: dict[str, None] = {}
        manifests: dict[str, None] = {}
        found = self._load(environ, base, name, _version_query(environ))
        if found is None:
            outcome.not_found += 1
            return [], []
        waiting = [(name, found)]
        while waiting:
            around, entries = waiting.pop()
            manifests.pop(around, None)
            manifests[around] = None
            for entry in entries:
                if len(segments) + len(waiting) > self._options.max_manifest_segments:
                    raise _Stop(400, "Too many buffered slo segments to delete.")
                if entry.data is not None:
                    continue
                if not entry.is_large:
                    segments[entry.name] = None
                elif entry.name not in manifests:
                    self._collect_within(environ, base, entry.name, outcome, segments, waiting)
        return list(segments), list(reversed(manifests))

    def _collect_within(
        self,
        environ: Environ,
        base: str,
        name: str,
        outcome: _Outcome,
        segments: dict[str, None],
        waiting: list[tuple[str, list[Entry]]],
    ) -> None:
        try:
            within = self._load(environ, base, name)
        except _NotLarge:
            segments[name] = None  # a symlink goes, its target stays
            return
        if within is None:
            outcome.not_found += 1
        else:
            waiting.append((name, within))

    def _load(
        self, environ: Environ, base: str, name: str, version_query: str = ""
    ) -> list[Entry] | None:
        """The entries of a manifest, None if there is none.

        :raises _Stop: it cannot be read; _NotLarge: it is none.
        """
        path = str_to_wsgi(base + name)
        query = f"{AS_STORED}&symlink=get"
        if version_query:
            query += f"&{version_query}"
        request = sub_environ(environ, "GET", path, "SLO", query=query)
        status, header_list, body = call_app(self._app, request)
        headers = Headers(header_list)
        if status[:1] == "2" and not is_slo(headers):
            close_body(body)  # as large as it may be
            raise _NotLarge(problem=(quote(name), "Not an SLO manifest"))
        text = read_body(body)
        number = int(status[:3])
        if number == 404:
            return None
        if number in (401, 403):
            raise _Stop(problem=(quote(name), status))
        if not 200 <= number < 300:
            raise _Stop(problem=(quote(name), "Unable to load SLO manifest or segment."))
        try:
            return load_entries(text)
        except ManifestError:
            raise _Stop(problem=(quote(name), "Unable to load SLO manifest")) from None


def _version_query(environ: Environ) -> str:
    """What the query says of the version of the manifest that is meant."""
    pairs = environ.get("QUERY_STRING", "").split("&")
    return "&".join(pair for pair in pairs if pair.startswith("version-id="))
