# SPDX-License-Identifier: Apache-2.0
"""DELETE of a static large object together with its segments.

Segments are deleted first and manifests after them. So an interrupted DELETE can be repeated: the
manifest still names the remaining segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.response import STATUS_LINES, http_error, plain_error
from martlet.words.names import BadNameError, check_text, split_path, str_to_wsgi, wsgi_to_str
from proxy.middleware.bulk.delete import Deletion, Doomed
from proxy.middleware.bulk.options import BulkOptions
from proxy.middleware.bulk.report import Work, answer
from proxy.middleware.large_objects.segments import AS_STORED
from proxy.middleware.large_objects.slo_manifest import Entry, ManifestError, load_entries
from proxy.middleware.large_objects.slo_options import SloOptions, is_slo
from proxy.middleware.subrequest import close_body, read_body, sub_environ

# With nested manifests, one DELETE may delete this many times the segments of one manifest.
_MANIFESTS_FULL_MAX = 10


class UnreadableManifest(Exception):
    """A manifest cannot be read; nothing more is deleted.

    :param status: of an answer that says so.
    """

    def __init__(self, name: str, reason: str, status: int) -> None:
        super().__init__(reason)
        self.name = name
        self.status = status


class NotLarge(UnreadableManifest):
    """The object is not a static large object, or a symlink to one."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "Not an SLO manifest", 400)


class DoomedManifest(NamedTuple):
    """The manifest to delete: text paths ``/version/account`` and ``/container/object``.

    :param version_query: the part of the query that selects a version.
    """

    base: str
    name: str
    version_query: str


class SloDelete:
    """Serves ``DELETE ?multipart-manifest=delete``."""

    def __init__(self, app: WSGIApp, options: SloOptions) -> None:
        self._app = app
        self._names_max = _MANIFESTS_FULL_MAX * options.max_manifest_segments
        self._bulk = BulkOptions(
            delete_concurrency=options.delete_concurrency, yield_frequency=options.yield_frequency
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 200 in all cases; the body has the counts, the real status and the errors."""
        deletion = Deletion(self._app, environ, self._bulk, "SLO", "MultipartDELETE")
        response = answer(environ, deletion.report, self._work(environ, deletion))
        return response(environ, start_response)

    def _work(self, environ: Environ, deletion: Deletion) -> Work:
        """:raises HTTPException: 400 too many segments; 412 an invalid name."""
        report = deletion.report
        doomed = doomed_manifest(environ)
        try:
            segments, manifests, missing = self._collect(environ, doomed)
        except UnreadableManifest as error:
            report.status = 400
            report.failures.append((quote(error.name), str(error)))
            return
        report.counts["Number Not Found"] += missing
        if segments:
            yield from deletion.run([Doomed(str_to_wsgi(name)) for name in segments])
        for name in manifests:
            if report.failures:
                return  # the manifest still names the remaining segments
            query = doomed.version_query if name == doomed.name else ""
            yield from deletion.run([Doomed(str_to_wsgi(name), query)])

    def _collect(
        self, environ: Environ, doomed: DoomedManifest
    ) -> tuple[list[str], list[str], int]:
        """Return segments, manifests (inner ones first), and the count of missing manifests.

        :raises UnreadableManifest: a manifest is damaged or forbidden, or the object is none.
        """
        top = load_manifest(self._app, environ, *doomed)
        if top is None:
            return [], [], 1
        segments: dict[str, None] = {}
        manifests = {doomed.name: None}
        waiting = [top]
        missing = 0
        while waiting:
            for entry in waiting.pop(0):
                if len(segments) + len(manifests) > self._names_max:
                    raise http_error(400, "Too many buffered slo segments to delete.")
                if entry.data is not None or entry.name in manifests:
                    continue
                if not entry.is_large:
                    segments[entry.name] = None
                    continue
                try:
                    within = load_manifest(self._app, environ, doomed.base, entry.name)
                except NotLarge:
                    segments[entry.name] = None  # delete the symlink, keep its target
                    continue
                if within is None:
                    missing += 1
                else:
                    manifests[entry.name] = None
                    waiting.append(within)
        return list(segments), list(reversed(manifests)), missing


def doomed_manifest(environ: Environ) -> DoomedManifest:
    """The manifest that a request deletes.

    :raises HTTPException: (412) its name is no text.
    """
    try:
        path = check_text(wsgi_to_str(environ["PATH_INFO"]))
    except BadNameError:
        raise plain_error(412, "Invalid UTF8 or contains NULL") from None
    version, account, container, obj = split_path(path, 4, 4, True)
    pairs = environ.get("QUERY_STRING", "").split("&")
    version_query = "&".join(pair for pair in pairs if pair.startswith("version-id="))
    return DoomedManifest(f"/{version}/{account}", f"/{container}/{obj}", version_query)


def load_manifest(
    app: WSGIApp, environ: Environ, base: str, name: str, version_query: str = ""
) -> list[Entry] | None:
    """Return the entries of a manifest, None if it does not exist.

    :raises UnreadableManifest: it cannot be read; NotLarge: it is not a manifest.
    """
    query = f"{AS_STORED}&symlink=get"
    if version_query:
        query += f"&{version_query}"
    request = sub_environ(environ, "GET", str_to_wsgi(base + name), "SLO", query=query)
    status, header_list, body = call_app(app, request)
    if status[:1] == "2" and not is_slo(Headers(header_list)):
        close_body(body)  # unread: it may be large
        raise NotLarge(name)
    text = read_body(body)
    number = int(status[:3])
    if number == 404:
        return None
    if number in (401, 403):
        raise UnreadableManifest(name, STATUS_LINES[number], number)
    if not 200 <= number < 300:
        told = number if number // 100 == 4 else 503
        raise UnreadableManifest(name, "Unable to load SLO manifest or segment.", told)
    try:
        return load_entries(text)
    except ManifestError:
        raise UnreadableManifest(name, "Unable to load SLO manifest", 500) from None
