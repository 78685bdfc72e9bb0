# SPDX-License-Identifier: Apache-2.0
"""Symlinks: empty objects that refer to another object.

A GET or HEAD of a symlink is answered with the target, and Content-Location has the target's path.
``?symlink=get`` returns the symlink itself. A static symlink stores the ETag of its target; if the
target's ETag differs, the answer is 409. Other methods apply to the symlink: DELETE deletes it,
POST changes its metadata and redirects (307) to the target. Place the filter right of slo, dlo and
versioned_writes, left of encryption; see doc/large-objects.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import quote

from martlet.conf.cluster import ClusterConf
from martlet.conf.constraints import Constraints
from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers, RequestHeaders, find_header
from martlet.http.request import Request
from martlet.http.response import HTTPException, http_error, plain_error
from martlet.words.names import split_path
from proxy.info_registry import register_info
from proxy.middleware.backend_hints import ignore_range_of
from proxy.middleware.large_objects.row_etag import (
    OVERRIDE_ETAG,
    Row,
    join_row_etag,
    pass_listing,
    split_row_etag,
)
from proxy.middleware.large_objects.slo_options import SLO_ETAG, SLO_SIZE
from proxy.middleware.links.symlink_target import (
    STORED_ACCOUNT,
    STORED_BYTES,
    STORED_ETAG,
    STORED_TARGET,
    TARGET,
    TARGET_ACCOUNT,
    TARGET_BYTES,
    TARGET_ETAG,
    Target,
    row_parameters,
    show_link,
    stored_target,
    wanted_target,
)
from proxy.middleware.query import parameter
from proxy.middleware.subrequest import close_body, sub_environ

SYMLOOP_MAX_DEFAULT = 2
_STORED_TARGET_LOWERED = STORED_TARGET.lower()
_MD5_OF_NOTHING = "d41d8cd98f00b204e9800998ecf8427e"
_POSTED = (
    "The requested POST was applied to a symlink. POST directly to the target to apply requested "
    "metadata."
)
_NOT_ZERO = "Symlink requests require a zero byte body"


@dataclass(frozen=True)
class SymlinkOptions:
    """``[filter:symlink]``."""

    symloop_max: int = option(
        SYMLOOP_MAX_DEFAULT, "Longest chain of symlinks to follow; below 1: the default", "count"
    )


class _Answer(NamedTuple):
    """An unread answer and the WSGI path of its object: None if no symlink was followed."""

    status: str
    header_list: HeaderList
    body: Iterable[bytes]
    path: str | None


class Symlink:
    """The filter."""

    def __init__(self, app: WSGIApp, options: SymlinkOptions, constraints: Constraints) -> None:
        self._app = app
        self._constraints = constraints
        self.symloop_max = options.symloop_max if options.symloop_max > 0 else SYMLOOP_MAX_DEFAULT

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve requests for objects and GETs of containers; pass other requests on."""
        try:
            version, account, container, obj = split_path(environ["PATH_INFO"], 3, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        method = environ["REQUEST_METHOD"]
        if obj is None:
            if method != "GET" or container is None:
                return self._app(environ, start_response)

            def show(row: Row) -> None:
                _show(row, f"/{version}/{account}")

            return pass_listing(self._app, environ, start_response, b"symlink_target", show)
        try:
            if method in ("GET", "HEAD"):
                return self._read(environ, start_response)
            if method == "PUT":
                self._prepare_put(environ)
            elif method == "POST":
                return self._post(environ, start_response)
        except HTTPException as refusal:
            return refusal(environ, start_response)
        return self._app(environ, start_response)

    def _read(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if parameter(environ, "symlink") == "get":
            status, header_list, body = call_app(self._app, environ)
            headers = Headers(header_list)
            if stored_target(headers) is not None:
                show_link(headers)
                headers.pop(OVERRIDE_ETAG, None)
            start_response(status, headers.as_list())
            return body
        answer = self._follow(environ)
        header_list = answer.header_list
        if answer.path is not None:
            header_list = [*header_list, ("Content-Location", _quoted(answer.path))]
        start_response(answer.status, header_list)
        return answer.body

    def _follow(
        self, environ: Environ, etag: str | None = None, *, only_static: bool = False
    ) -> _Answer:
        """Follow the symlinks and return the answer of the object at their end.

        :param etag: the ETag that the object must have.
        :param only_static: stop at a symlink that has no ETag and return its answer.
        :raises HTTPException: (409) the ETag differs, or there are too many symlinks.
        """
        path: str | None = None
        # A symlink is empty and could not satisfy a Range.
        ignore_range_of(environ, STORED_TARGET)
        for _ in range(self.symloop_max + 1):
            status, header_list, body = call_app(self._app, environ)
            if not etag and find_header(header_list, _STORED_TARGET_LOWERED) is None:
                return _Answer(status, header_list, body, path)  # the fast path: not a symlink
            headers = Headers(header_list)
            target = stored_target(headers)
            found = headers.get("etag", "").strip('"')
            own_etag = headers.get(STORED_ETAG)
            if target is None or (only_static and not own_etag):
                if etag and found and found != etag:
                    close_body(body)
                    raise _conflict(_mismatch(found, etag), path)
                return _Answer(status, header_list, body, path)
            close_body(body)
            if etag and etag != (own_etag or found):
                raise _conflict(f"{TARGET_ETAG} headers do not match", path)
            etag = own_etag
            path = target.path(environ["PATH_INFO"])
            environ = _environ_of_target(environ, path)
        text = f"Too many levels of symbolic links, maximum allowed is {self.symloop_max}"
        raise _conflict(text, path)

    def _prepare_put(self, environ: Environ) -> None:
        """Turn the PUT of a symlink into the PUT of an object; leave other PUTs unchanged.

        :raises HTTPException: 400 it has a body; 409 the target is missing or differs; 412.
        """
        if "HTTP_X_SYMLINK_TARGET" not in environ:
            return
        headers = RequestHeaders(environ)
        target = wanted_target(headers, environ["PATH_INFO"], self._constraints)
        _refuse_body(environ)
        etag = headers.get(TARGET_ETAG, "").strip('"')
        size = headers.get(TARGET_BYTES)
        parameters: dict[str, str] = {}
        if STORED_ETAG in headers and STORED_BYTES in headers:
            # The filter that sends these headers has just read or written the target.
            etag, size = headers[STORED_ETAG], headers[STORED_BYTES]
        elif etag and not environ.get("swift.symlink_override"):
            size, parameters = self._check_target(environ, target, etag)
        if not environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = "application/symlink"
        stored = {
            STORED_TARGET: target.place,
            STORED_ACCOUNT: target.account,
            STORED_ETAG: etag,
            STORED_BYTES: size if etag else None,
        }
        for name in (TARGET, TARGET_ACCOUNT, TARGET_ETAG, TARGET_BYTES, *stored):
            headers.pop(name, None)
        headers.update({name: value for name, value in stored.items() if value})
        known, others = split_row_etag(headers.get(OVERRIDE_ETAG, ""))
        parameters = {**others, **parameters, **row_parameters(target, etag, size)}
        headers[OVERRIDE_ETAG] = join_row_etag(known or _MD5_OF_NOTHING, parameters)

    def _check_target(
        self, environ: Environ, target: Target, etag: str
    ) -> tuple[str, dict[str, str]]:
        """Return the size of the target of a new static symlink, and parameters for its row.

        The symlink gets the content type of the target if the client sent none.

        :raises HTTPException: (409) the target is missing or has another ETag.
        """
        path = target.path(environ["PATH_INFO"])
        request = sub_environ(environ, "HEAD", path, "SYM")
        try:
            answer = self._follow(request, etag, only_static=True)
        except HTTPException as refusal:
            refusal.response.headers["Content-Location"] = _quoted(path)
            raise
        close_body(answer.body)
        number = int(answer.status[:3])
        headers = Headers(answer.header_list)
        if number == 404:
            raise _conflict(f"{TARGET} does not exist", path)
        if not 200 <= number < 300:
            raise http_error(number)
        if not environ.get("CONTENT_TYPE"):
            environ["CONTENT_TYPE"] = headers.get("content-type", "")
        _, parameters = split_row_etag(headers.get(OVERRIDE_ETAG, ""))
        size = headers.get(SLO_SIZE) or headers.get("content-length", "0")
        large_etag = parameters.get("slo_etag") or (SLO_SIZE in headers and headers.get(SLO_ETAG))
        return size, {"slo_etag": large_etag} if large_etag else {}

    def _post(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if "HTTP_X_SYMLINK_TARGET" in environ:
            raise plain_error(400, "A PUT request is required to set a symlink target")
        status, header_list, body = call_app(self._app, environ)
        is_link = find_header(header_list, _STORED_TARGET_LOWERED) is not None
        headers = Headers(header_list) if is_link else Headers()
        target = stored_target(headers)
        if status[:1] != "2" or target is None:
            start_response(status, header_list)
            return body
        close_body(body)
        environ["swift.leave_relative_location"] = True
        shown = {"Location": _quoted(target.path(environ["PATH_INFO"]))}
        if etag := headers.get(STORED_ETAG):
            shown[TARGET_ETAG] = etag
        return plain_error(307, _POSTED, shown)(environ, start_response)


def _environ_of_target(environ: Environ, path: str) -> Environ:
    """Return the same request for the target, which is authorized separately."""
    result = environ.copy()
    result["PATH_INFO"] = path
    result["QUERY_STRING"] = ""
    result["wsgi.input"] = BytesIO()
    result["swift.source"] = "SYM"
    for key in ("RAW_PATH_INFO", "swift.proxy_access_log_made"):
        result.pop(key, None)
    return result


def _refuse_body(environ: Environ) -> None:
    request = Request(environ)
    length = request.content_length
    if length or (length is None and request.body_file.read(1)):
        raise plain_error(400, _NOT_ZERO)
    environ["CONTENT_LENGTH"] = "0"
    environ["wsgi.input"] = BytesIO()
    environ.pop("HTTP_TRANSFER_ENCODING", None)


def _mismatch(found: str, wanted: str) -> str:
    return f"Object Etag '{found}' does not match {TARGET_ETAG} header '{wanted}'"


def _conflict(text: str, path: str | None) -> HTTPException:
    headers = {} if path is None else {"Content-Location": _quoted(path)}
    return plain_error(409, text, headers)


def _quoted(path: str) -> str:
    return quote(path, encoding="latin-1")


def _show(row: dict[str, Any], own_base: str) -> None:
    """Move the facts about a symlink's target from a row's hash into fields of the row."""
    etag, parameters = split_row_etag(row["hash"])
    place = parameters.pop("symlink_target", None)
    if place is None:
        return
    account = parameters.pop("symlink_target_account", "")
    target_etag = parameters.pop("symlink_target_etag", None)
    size = parameters.pop("symlink_target_bytes", None)
    row["hash"] = join_row_etag(etag, parameters)
    if "version_symlink" in row:  # it refers to the version, which refers to the target
        return
    version = own_base.split("/")[1]
    base = f"/{version}/{account}" if account else _quoted(own_base)
    row["symlink_path"] = f"{base}/{place}"
    if target_etag is not None:
        row["symlink_etag"] = target_etag
    if size is not None and size.isdecimal():
        row["symlink_bytes"] = int(size)


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Symlink]:
    """PasteDeploy's entry point."""
    options = load_filter_options(SymlinkOptions, "symlink", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))

    def make(app: WSGIApp) -> Symlink:
        return Symlink(app, options, cluster.constraints)

    loop_max = options.symloop_max if options.symloop_max > 0 else SYMLOOP_MAX_DEFAULT
    register_info("symlink", symloop_max=loop_max, static_links=True)
    return make
