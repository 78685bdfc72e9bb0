# SPDX-License-Identifier: Apache-2.0
"""Account and container listings in the requested format: plain text, JSON or XML.

The application answers listings in JSON, so that the filters between need to support one format
only. Place the filter right of the first proxy-logging.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.cluster import ClusterConf
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import LISTING_IS_JSON, Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.listing import JSON, listing_content_type, render_account, render_container
from martlet.http.request import Request
from martlet.http.response import STATUS_LINES, HTTPException, http_error
from martlet.words.names import BadNameError, split_path, wsgi_to_str


@dataclass(frozen=True)
class ListingFormatsOptions:
    """``[filter:listing_formats]`` has no options."""


class ListingFormats:
    """The filter."""

    def __init__(self, app: WSGIApp, api_versions: Iterable[str]) -> None:
        self._app = app
        self._api_versions = frozenset(api_versions)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Convert listings of accounts and containers; pass other requests on.

        204 in place of 200 for an empty listing in plain text; 400 malformed Accept or parameter;
        406 Accept admits none of the formats.
        """
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return self._app(environ, start_response)
        path: str = environ["PATH_INFO"]
        if any(path.split("/", 4)[4:]):
            return self._app(environ, start_response)  # the fast path: requests for objects
        try:
            version, account, container = split_path(path, 2, 3)
        except ValueError:
            return self._app(environ, start_response)
        if version not in self._api_versions:
            return self._app(environ, start_response)
        try:
            return self._listing(environ, start_response, account or "", container)
        except HTTPException as refusal:
            return refusal(environ, start_response)

    def _listing(
        self,
        environ: Environ,
        start_response: StartResponse,
        account: str,
        container: str | None,
    ) -> Iterable[bytes]:
        request_format = _format_parameter(environ)
        content_type = listing_content_type(request_format, environ.get("HTTP_ACCEPT"))
        status, header_list, body = call_app(self._app, environ)
        if status[:3] not in ("200", "204") or LISTING_IS_JSON in environ:
            start_response(status, header_list)
            return body
        headers = Headers(header_list)
        if not request_format:
            _add_vary(headers)
        is_json = headers.get("content-type", "").partition(";")[0].strip() == JSON
        if environ["REQUEST_METHOD"] == "HEAD":
            headers["Content-Type"] = f"{content_type}; charset=utf-8"
        elif is_json and content_type != JSON:
            text = _render(_read(body), content_type, account, container)
            headers["Content-Type"] = f"{content_type}; charset=utf-8"
            headers["Content-Length"] = str(len(text))
            status = status if text else STATUS_LINES[204]
            body = [text]
        start_response(status, headers.as_list())
        return body


def _format_parameter(environ: Environ) -> str:
    try:
        return Request(environ).params.get("format", "")
    except BadNameError as error:
        raise http_error(400, f"A parameter is not valid UTF-8: {error}") from None


def _add_vary(headers: Headers) -> None:
    """Mark the answer as dependent on Accept, for caches."""
    known = headers.get("vary", "")
    if "accept" not in [name.strip().lower() for name in known.split(",")]:
        headers["Vary"] = f"{known}, Accept" if known else "Accept"


def _read(body: Iterable[bytes]) -> bytes:
    """Read a whole listing; its number of entries is limited."""
    try:
        return b"".join(body)
    finally:
        close = getattr(body, "close", None)
        if close is not None:
            close()


def _render(listing: bytes, content_type: str, account: str, container: str | None) -> bytes:
    entries = json.loads(listing)
    if container is None:
        return render_account(entries, content_type, wsgi_to_str(account))
    return render_container(entries, content_type, wsgi_to_str(container))


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], ListingFormats]:
    """PasteDeploy's entry point."""
    load_filter_options(ListingFormatsOptions, "listing_formats", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    return lambda app: ListingFormats(app, cluster.constraints.valid_api_versions)
