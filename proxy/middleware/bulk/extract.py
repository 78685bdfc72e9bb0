# SPDX-License-Identifier: Apache-2.0
"""Extraction of an archive: ``PUT /v1/account[/container[/prefix]]?extract-archive=``.

Each regular file becomes a PUT of its own through the rest of the pipeline. Small files are read
ahead and stored in parallel. While a large file streams, no other file is started. Among files with
the same name the last one wins.
"""

from __future__ import annotations

import re
import tarfile
import threading
from io import BytesIO

from martlet.conf.constraints import Constraints
from martlet.http.environ import Environ, WSGIApp
from martlet.http.headers import environ_key
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.log import get_logger
from martlet.words.names import BadNameError, check_text, split_path, str_to_wsgi, wsgi_to_str
from proxy.crew import run_crew
from proxy.middleware.bulk.archive import Archive, FileBody, UnpackLimits
from proxy.middleware.bulk.options import BulkOptions
from proxy.middleware.bulk.report import Report, Work
from proxy.middleware.subrequest import ask_app, ask_status, get_container_info, sub_environ

log = get_logger("proxy.bulk")

SOURCE = "EA"
#: Files up to this size are read ahead, bytes.
READ_AHEAD_MAX = 64 * 1024
#: Bytes unpacked to find other files after a file was refused and while none is stored; the limit
#: grows as the client sends more.
_REFUSED_SKIPS_MAX = 16 * 1024 * 1024

_XATTR = re.compile(r"(?:SCHILY|LIBARCHIVE)\.xattr\.user\.(?:(mime_type)|meta\.(.+))", re.DOTALL)
#: What clients of MinIO write into archives.
_MINIO = re.compile(
    r"minio\.metadata\.(?:(content-type)|x-amz-meta-(.+))", re.DOTALL | re.IGNORECASE
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z_\x80-\xff-]+")  # WSGI strings
_KEPT_HEADERS = ("x-delete-at", "x-delete-after")


class Extraction:
    """The extraction of one archive; ``report`` holds the outcome."""

    def __init__(
        self,
        app: WSGIApp,
        environ: Environ,
        compression: str,
        options: BulkOptions,
        constraints: Constraints,
    ) -> None:
        self.report = Report("extract", 201, {"Number Files Created": 0})
        self._app = app
        self._environ = environ
        self._compression = compression
        self._options = options
        self._constraints = constraints
        self._account = ""  # "/v1/account/", a WSGI string
        self._base = ""  # "container/prefix/" or empty
        self._archive: Archive
        self._reading = threading.Lock()  # guards the archive and the steps before a PUT
        self._containers: dict[str, int] = {}  # seen; the status if it could not be created
        self._containers_made = 0
        self._under_way: set[str] = set()  # names
        self._awaited: str | None = None  # the one for which `_begin` waits
        self._name_ended = threading.Condition(threading.Lock())
        self._noting = threading.Lock()  # guards the report and the fields below
        self._has_server_error = False

    def run(self) -> Work:
        """Store all files; pause every ``yield_frequency`` seconds.

        :raises HTTPException: 400 not an archive, or too many containers; 401; 403; 404; 411; 413.
        """
        self._prepare()
        options = self._options
        limits = UnpackLimits(options.max_unpacked_bytes, options.max_unpack_ratio)
        self._archive = Archive(self._environ["wsgi.input"], self._compression, limits)
        yield from run_crew(self._store_next, options.upload_concurrency, options.yield_frequency)
        report = self.report
        if report.failures:
            report.status = 502 if self._has_server_error else 400
        elif not report.counts["Number Files Created"]:
            raise http_error(400, "Invalid Tar File: No Valid Files")

    def _prepare(self) -> None:
        req = Request(self._environ)
        if req.content_length is None and not req.is_chunked:
            raise http_error(411)
        try:
            version, account, base = split_path(self._environ["PATH_INFO"], 2, 3, True)
        except ValueError:
            raise http_error(404) from None
        self._account = f"/{version}/{account}/"
        base = (base or "").rstrip("/")
        self._base = f"{base}/" if base else ""
        agent = f"{self._environ.get('HTTP_USER_AGENT', '')} BulkExpand".strip()
        headers = {"User-Agent": agent}
        for name, value in req.headers.items():
            if name.lower() in _KEPT_HEADERS or name.lower().startswith("x-object-meta-"):
                headers[name] = value
        self._template = sub_environ(self._environ, "PUT", "", SOURCE, headers=headers)
        # Before unpacking: an unauthenticated client could cause much work with few bytes.
        path = f"/{version}/{account}"
        if ask_status(self._app, sub_environ(self._environ, "HEAD", path, SOURCE)) == 401:
            raise http_error(401)

    def _store_next(self) -> bool:
        """Store the next file of the archive; return False at the end or after many failures."""
        with self._reading:
            if len(self.report.failures) >= self._options.max_failed_extractions:
                return False
            member = self._archive.next()
            if member is None:
                return False
            name = self._name_of(member)
            if name is None or not self._may_store(member, name):
                return True
            self._begin(name)
            if member.size > READ_AHEAD_MAX:
                body = self._archive.body_of(member)
                self._put(member, name, body)
                body.check()
                return True
            content = self._archive.read(member)
        self._put(member, name, BytesIO(content))
        return True

    def _name_of(self, member: tarfile.TarInfo) -> str | None:
        """Return ``container/object`` as a WSGI string; None if it does not become an object."""
        if not member.isfile():
            return None
        raw = member.name.encode("utf-8", "surrogateescape").decode("latin-1")
        name = self._base + raw.removeprefix("./").lstrip("/")
        return name if "/" in name else None

    def _may_store(self, member: tarfile.TarInfo, name: str) -> bool:
        try:
            check_text(wsgi_to_str(name))
        except BadNameError:
            self._fail(name, 412)
            return False
        if member.size > self._constraints.max_file_size:
            self._fail(name, 413)
            return False
        container = name.partition("/")[0]
        if container not in self._containers:
            self._containers[container] = self._make_container(container)
        return True

    def _make_container(self, container: str) -> int:
        """Return 0 if it exists or was created, else the status of the failure."""
        for method in ("HEAD", "PUT"):
            path = self._account + container
            answer = ask_app(self._app, sub_environ(self._environ, method, path, SOURCE))
            if answer.is_success:
                if method == "PUT":
                    self._count_container()
                self._get_to_know(container)
                return 0
            if answer.status == 401:
                raise http_error(401)
            if answer.status != 404:
                return answer.status
        return answer.status

    def _get_to_know(self, container: str) -> None:
        """Cache the info of a container once, so that the PUTs of its files do not ask for it."""
        account = self._account.split("/")[2]
        names = wsgi_to_str(account), wsgi_to_str(container)
        get_container_info(self._template, self._app, *names, SOURCE)

    def _count_container(self) -> None:
        self._containers_made += 1
        limit = self._options.max_containers_per_extraction
        if self._containers_made > limit:
            raise http_error(400, f"More than {limit} containers to create from tar.")

    def _begin(self, name: str) -> None:
        """Wait while an earlier file of the same name is being stored; one thread at a time."""
        if name in self._under_way:
            with self._name_ended:
                self._awaited = name  # set it first: `_end` checks the two in reverse order
                while name in self._under_way:
                    self._name_ended.wait()
                self._awaited = None
        self._under_way.add(name)

    def _end(self, name: str) -> None:
        self._under_way.discard(name)
        if self._awaited is not None:
            with self._name_ended:
                self._name_ended.notify_all()

    def _put(self, member: tarfile.TarInfo, name: str, body: BytesIO | FileBody) -> None:
        headers = _headers_of(member)
        status = 400
        try:
            if headers is not None:
                environ = {
                    **self._template,
                    **headers,
                    "PATH_INFO": self._account + name,
                    "CONTENT_LENGTH": str(member.size),
                    "wsgi.input": body,
                }
                status = ask_status(self._app, environ)
        finally:
            self._end(name)
        with self._noting:
            self._note(name, status)

    def _note(self, name: str, status: int) -> None:
        if 200 <= status < 300:
            self.report.counts["Number Files Created"] += 1
            self._archive.limit_skips(None)
            return
        container = name.partition("/")[0]
        failure = self._containers.get(container)
        if failure:
            self._containers[container] = 0
            self.report.add_failure((self._account + container)[: self._shown_length], failure)
        self._fail(name, status)
        if status == 401:
            raise http_error(401)
        if status == 403 and not self.report.counts["Number Files Created"]:
            # Another file may belong to a container that the client may write to. The search for
            # it must not go through gigabytes that a few packed bytes expand to.
            self._archive.limit_skips(_REFUSED_SKIPS_MAX)
        if status >= 500:
            self._has_server_error = True

    def _fail(self, name: str, status: int) -> None:
        self.report.add_failure(name[: self._shown_length], status)

    @property
    def _shown_length(self) -> int:
        limits = self._constraints
        return limits.max_object_name_length + limits.max_container_name_length + 2


def _headers_of(member: tarfile.TarInfo) -> Environ | None:
    """Return headers from a file's extended attributes; None if one cannot be a header."""
    found: Environ = {}
    for key, value in member.pax_headers.items():
        match = _XATTR.fullmatch(key) or _MINIO.fullmatch(key)
        if match is None:
            continue  # times, access rights, and attributes that are not metadata of objects
        name = "Content-Type" if match[1] else f"X-Object-Meta-{str_to_wsgi(match[2])}"
        if not _HEADER_NAME.fullmatch(name):
            return None
        found[environ_key(name)] = str_to_wsgi(value)
    return found
