# SPDX-License-Identifier: Apache-2.0
"""Server-side copy: ``COPY`` with ``Destination``, ``PUT`` with ``X-Copy-From``.

A copy is a GET of the source whose body streams into a PUT of the destination. Both go through the
rest of the pipeline and are authorized separately. The copy keeps the source's metadata, overridden
by the request's; ``X-Fresh-Metadata: true`` drops the source's metadata. With ``Range`` only that
part is copied.

Conditions: ``If-None-Match: *`` applies to the destination, all others apply to the source.

A copy of a large object has the contents of its segments; a copy of a symlink has the contents of
its target. ``?multipart-manifest=get`` and ``?symlink=get`` copy the manifest and the symlink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from martlet.conf.cluster import ClusterConf
from martlet.conf.constraints import ConstraintError, Constraints
from martlet.conf.options import is_true
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers, environ_key
from martlet.http.request import Request
from martlet.http.response import HTTPException, http_error
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.middleware.body_reader import BodyReader

_SYSMETA = "x-object-sysmeta-"
_METADATA_PREFIXES = ("x-object-meta-", _SYSMETA, "x-object-transient-sysmeta-")
_SYSMETA_KEY = "HTTP_X_OBJECT_SYSMETA_"
#: Listing values that differ from the body; they are valid only for a copy of the whole object.
_UPDATE_OVERRIDE = "HTTP_X_OBJECT_SYSMETA_CONTAINER_UPDATE_OVERRIDE_"
#: The headers other than metadata that are stored with an object, and with its copy.
_KEPT_HEADERS = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "expires",
        "x-delete-at",
        "x-robots-tag",
    }
)
#: Copied with a symlink if the request asks for the symlink itself and names no other target.
_SYMLINK_HEADERS = ("X-Symlink-Target", "X-Symlink-Target-Account", "X-Symlink-Target-Etag")
#: Keys about the copy or its source, not about the object to be written.
_NOT_FOR_SINK = (
    "HTTP_DESTINATION",
    "HTTP_DESTINATION_ACCOUNT",
    "HTTP_EXPECT",
    "HTTP_IF_MATCH",
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_UNMODIFIED_SINCE",
    "HTTP_RANGE",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_X_COPY_FROM",
    "HTTP_X_COPY_FROM_ACCOUNT",
    "HTTP_X_FRESH_METADATA",
    "RAW_PATH_INFO",
)
#: Keys about the object to be written, not about the source.
_NOT_FOR_SOURCE = (
    "CONTENT_TYPE",
    "HTTP_DESTINATION",
    "HTTP_DESTINATION_ACCOUNT",
    "HTTP_ETAG",
    "HTTP_EXPECT",
    "HTTP_TRANSFER_ENCODING",
    "HTTP_X_BACKEND_STORAGE_POLICY_INDEX",
    "HTTP_X_COPY_FROM",
    "HTTP_X_COPY_FROM_ACCOUNT",
    "RAW_PATH_INFO",
    # The sub-request has its own access log line.
    "swift.proxy_access_log_made",
)


@dataclass(frozen=True)
class CopyOptions:
    """``[filter:copy]`` has no options; the size limit is ``max_file_size`` in martlet.conf."""


class _ObjectPath(NamedTuple):
    """The path of an object; WSGI strings."""

    version: str
    account: str
    container: str
    obj: str

    @property
    def path(self) -> str:
        return "/" + "/".join(self)


class Copy:
    """The filter."""

    def __init__(self, app: WSGIApp, constraints: Constraints) -> None:
        self._app = app
        self._constraints = constraints

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a copy; pass other requests on.

        400 the request has a body; 412 a bad source, destination or account; 413 the source is
        larger than an object may be; 503 the source broke off; else the answer of GET or PUT.
        """
        method = environ["REQUEST_METHOD"]
        is_put_copy = method == "PUT" and environ.get("HTTP_X_COPY_FROM")
        if not is_put_copy and method not in ("COPY", "OPTIONS"):
            return self._app(environ, start_response)
        try:
            here = _ObjectPath(*_four(split_path(environ["PATH_INFO"], 4, 4, True)))
        except ValueError:
            return self._app(environ, start_response)
        if method == "OPTIONS":
            return self._options(environ, start_response)
        try:
            _refuse_body(environ)
            if method == "COPY":
                source, sink = here, self._destination(environ, here)
            else:
                source, sink = self._source(environ, here), here
            return self._copy(environ, start_response, source, sink)
        except HTTPException as refusal:
            return refusal(environ, start_response)

    def _destination(self, environ: Environ, source: _ObjectPath) -> _ObjectPath:
        if not environ.get("HTTP_DESTINATION"):
            raise http_error(412, "Destination header required")
        account = self._account(environ.get("HTTP_DESTINATION_ACCOUNT"), source.account)
        container, obj = _container_and_object(environ["HTTP_DESTINATION"], "Destination")
        return _ObjectPath(source.version, account, container, obj)

    def _source(self, environ: Environ, sink: _ObjectPath) -> _ObjectPath:
        # As in Swift, an empty value counts as absent, unlike an empty Destination-Account.
        named = environ.get("HTTP_X_COPY_FROM_ACCOUNT") or None
        account = self._account(named, sink.account)
        container, obj = _container_and_object(environ["HTTP_X_COPY_FROM"], "X-Copy-From")
        return _ObjectPath(sink.version, account, container, obj)

    def _account(self, header: str | None, default: str) -> str:
        if header is None:
            return default
        account = unquote(header, encoding="latin-1")
        if not account:
            raise http_error(412, "Account name cannot be empty")
        try:
            self._constraints.check_account_name(wsgi_to_str(account))
        except BadNameError as error:
            raise http_error(412, str(error)) from None
        except ConstraintError as error:
            raise http_error(412, str(error)) from None
        return account

    def _copy(
        self,
        environ: Environ,
        start_response: StartResponse,
        source: _ObjectPath,
        sink: _ObjectPath,
    ) -> Iterable[bytes]:
        status, header_list, body = call_app(self._app, _source_environ(environ, source))
        if status[:1] != "2":
            start_response(status, header_list)
            return body
        reader = BodyReader(body)
        try:
            headers = Headers(header_list)
            length = self._copied_length(headers)
            sink_environ = _sink_environ(environ, sink, status, headers, length)
            sink_environ["wsgi.input"] = reader
            status, put_headers, answer = call_app(self._app, sink_environ)
        finally:
            reader.close()
        if status[:1] != "2" and reader.broke_off:
            raise http_error(503, "The source could not be read to its end; nothing was copied.")
        if status[:1] == "2":
            put_headers = [*put_headers, *_copied_from(source, headers, sink_environ)]
        start_response(status, put_headers)
        return answer

    def _copied_length(self, source: Headers) -> int:
        text = source.get("content-length", "")
        if not text.isdecimal():
            # It has more segments than one listing shows: its size is unknown.
            raise http_error(413, "The source is too large to be copied.")
        if int(text) > self._constraints.max_file_size:
            limit = self._constraints.max_file_size
            raise http_error(413, f"The source is larger than an object may be, {limit} bytes.")
        return int(text)

    def _options(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        status, headers, body = call_app(self._app, environ)
        if status[:1] == "2":
            listed = ("allow", "access-control-allow-methods")
            headers = [
                (name, f"{value}, COPY")
                if name.lower() in listed and "COPY" not in value
                else (name, value)
                for name, value in headers
            ]
        start_response(status, headers)
        return body


def _source_environ(environ: Environ, source: _ObjectPath) -> Environ:
    result = environ.copy()
    for key in _NOT_FOR_SOURCE:
        result.pop(key, None)
    if result.get("HTTP_IF_NONE_MATCH", "").strip() == "*":
        del result["HTTP_IF_NONE_MATCH"]
    query = environ.get("QUERY_STRING", "")
    if _asks_for(query, "multipart-manifest"):
        # The raw form can be uploaded again.
        result["QUERY_STRING"] = f"{query}&format=raw"
    result["REQUEST_METHOD"] = "GET"
    result["PATH_INFO"] = source.path
    result["CONTENT_LENGTH"] = "0"
    result["wsgi.input"] = BytesIO()
    result["HTTP_X_NEWEST"] = "true"
    result["swift.source"] = "SSC"
    return result


def _sink_environ(
    environ: Environ, sink: _ObjectPath, source_status: str, source: Headers, length: int
) -> Environ:
    result = environ.copy()
    for key in _NOT_FOR_SINK:
        result.pop(key, None)
    if result.get("HTTP_IF_NONE_MATCH", "*").strip() != "*":
        del result["HTTP_IF_NONE_MATCH"]
    is_fresh = is_true(environ.get("HTTP_X_FRESH_METADATA"))
    for name, value in source.items():
        lowered = name.lower()
        is_kept = lowered in _KEPT_HEADERS or lowered.startswith(_METADATA_PREFIXES)
        if lowered.startswith(_SYSMETA) if is_fresh else is_kept:
            # Headers of the request override those of the source.
            result.setdefault(environ_key(name), value)
    if not result.get("CONTENT_TYPE") and "content-type" in source:
        result["CONTENT_TYPE"] = source["content-type"]
    is_large = "x-static-large-object" in source or "x-object-manifest" in source
    if source_status[:3] == "200" and "etag" in source and not is_large:
        # The PUT verifies the body against the source's ETag.
        result["HTTP_ETAG"] = source["etag"].strip('"')
    else:
        result.pop("HTTP_ETAG", None)
        for key in [k for k in result if k.startswith(_UPDATE_OVERRIDE)]:
            del result[key]
    result["REQUEST_METHOD"] = "PUT"
    result["PATH_INFO"] = sink.path
    result["QUERY_STRING"] = _without_version(environ.get("QUERY_STRING", ""))
    _keep_manifest(result, source)
    _keep_symlink(result, source)
    # An empty value keeps the source's from being copied. It is not stored: it is no ETag.
    for key in [k for k in result if k.startswith(_SYSMETA_KEY) and result[k] == ""]:
        del result[key]
    result["CONTENT_LENGTH"] = str(length)
    result["swift.source"] = "SSC"
    return result


def _without_version(query: str) -> str:
    """Return the query without the version id, which applies to the source."""
    parts = query.split("&")
    return "&".join([p for p in parts if unquote(p.partition("=")[0]) != "version-id"])


def _keep_manifest(sink: Environ, source: Headers) -> None:
    """Make the copy of a manifest a manifest; that of a static large object is checked again."""
    query = sink.get("QUERY_STRING", "")
    if not _asks_for(query, "multipart-manifest"):
        return
    kept = [pair for pair in _pairs(query) if pair[0] != "multipart-manifest"]
    if "x-static-large-object" in source:
        kept.append(("multipart-manifest", "put"))
    elif "x-object-manifest" in source:
        sink.setdefault("HTTP_X_OBJECT_MANIFEST", source["x-object-manifest"])
    sink["QUERY_STRING"] = urlencode(kept, encoding="latin-1")


def _keep_symlink(sink: Environ, source: Headers) -> None:
    if not _asks_for(sink.get("QUERY_STRING", ""), "symlink"):
        return
    if "HTTP_X_SYMLINK_TARGET" in sink:
        return
    for name in _SYMLINK_HEADERS:
        if name in source:
            sink.setdefault(environ_key(name), source[name])


def _asks_for(query: str, name: str) -> bool:
    """Whether the request asks for the manifest or symlink itself, not for its contents."""
    return name in query and dict(_pairs(query)).get(name) == "get"


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True, encoding="latin-1")


def _copied_from(source: _ObjectPath, headers: Headers, sink_environ: Environ) -> HeaderList:
    """Return the response headers about the source of a copy and its metadata."""
    result = [
        ("X-Copied-From", quote(f"{source.container}/{source.obj}", encoding="latin-1")),
        ("X-Copied-From-Account", quote(source.account, encoding="latin-1")),
    ]
    if "last-modified" in headers:
        result.append(("X-Copied-From-Last-Modified", headers["last-modified"]))
    if "x-object-version-id" in headers:
        result.append(("X-Copied-From-Version-Id", headers["x-object-version-id"]))
    for name, value in Request(sink_environ).headers.items():
        if name.startswith("X-Object-Meta-") or name == "X-Delete-At":
            result.append((name, value))
    return result


def _refuse_body(environ: Environ) -> None:
    if environ.get("CONTENT_LENGTH") not in (None, "", "0") or (
        "HTTP_TRANSFER_ENCODING" in environ and environ["wsgi.input"].read(1)
    ):
        raise http_error(400, "Copy requests require a zero byte body")


def _container_and_object(header: str, name: str) -> tuple[str, str]:
    value = unquote(header, encoding="latin-1")
    try:
        container, obj = split_path(value if value.startswith("/") else f"/{value}", 2, 2, True)
    except ValueError:
        container = obj = None
    if container is None or obj is None:
        raise http_error(412, f"{name} header must be of the form <container name>/<object name>")
    return container, obj


def _four(segments: list[str | None]) -> list[str]:
    return [segment or "" for segment in segments]


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Copy]:
    """PasteDeploy's entry point."""
    load_filter_options(CopyOptions, "copy", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    return lambda app: Copy(app, cluster.constraints)
