# SPDX-License-Identifier: Apache-2.0
"""Static large objects: a manifest names segments, and a GET sends them as one object.

    PUT    ?multipart-manifest=put     store a manifest (``slo_upload``)
    GET                                the whole, or a range or part of it (``slo_download``)
    GET    ?multipart-manifest=get     the manifest itself; &format=raw: in the form of a PUT
    DELETE ?multipart-manifest=delete  the segments, then the manifest (``slo_delete``); &async=on:
                                       the manifest, the expirer the rest (``slo_async_delete``)

Listings show the size of the whole object, and its ETag beside the manifest's. Place the filter
right of copy and of the quotas, left of dlo; see doc/large-objects.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from martlet.conf.options import is_true
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import HTTPException, error_response
from martlet.words.names import split_path
from proxy.info_registry import register_info
from proxy.middleware.large_objects.row_etag import Row, join_row_etag, pass_listing, split_row_etag
from proxy.middleware.large_objects.slo_async_delete import SloAsyncDelete
from proxy.middleware.large_objects.slo_delete import SloDelete
from proxy.middleware.large_objects.slo_download import SloDownload
from proxy.middleware.large_objects.slo_options import SloOptions
from proxy.middleware.large_objects.slo_upload import SloUpload
from proxy.middleware.query import parameter

_RESERVED = (
    "X-Static-Large-Object is a reserved header. To create a static large object add query param "
    "multipart-manifest=put."
)


class Slo:
    """The filter."""

    def __init__(self, app: WSGIApp, options: SloOptions) -> None:
        self._app = app
        self._download = SloDownload(app, options)
        self._upload = SloUpload(app, self, options)
        self._delete = SloDelete(app, options)
        self._delete_later = SloAsyncDelete(app) if options.allow_async_delete else self._delete

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve requests for objects and GETs of containers; pass other requests on."""
        try:
            _, _, container, obj = split_path(environ["PATH_INFO"], 3, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        method = environ["REQUEST_METHOD"]
        if obj is None:
            if method == "GET" and container is not None:
                return pass_listing(self._app, environ, start_response, b"slo_etag=", _show)
            return self._app(environ, start_response)
        if method in ("GET", "HEAD"):
            return self._download(environ, start_response)
        try:
            return self._change(environ, start_response, method)
        except HTTPException as refusal:
            return refusal(environ, start_response)

    def _change(
        self, environ: Environ, start_response: StartResponse, method: str
    ) -> Iterable[bytes]:
        if method in ("PUT", "POST") and not environ.get("swift.slo_override"):
            if method == "PUT" and parameter(environ, "multipart-manifest") == "put":
                return self._upload(environ, start_response)
            if "HTTP_X_STATIC_LARGE_OBJECT" in environ:
                return error_response(400, _RESERVED)(environ, start_response)
        if method == "DELETE" and parameter(environ, "multipart-manifest") == "delete":
            is_async = is_true(parameter(environ, "async"))
            delete = self._delete_later if is_async else self._delete
            return delete(environ, start_response)
        return self._app(environ, start_response)


def _show(row: Row) -> None:
    """Move the ETag of the whole object from a row's hash into ``slo_etag``."""
    etag, parameters = split_row_etag(row["hash"])
    large_etag = parameters.pop("slo_etag", None)
    if large_etag is not None:
        row["slo_etag"] = f'"{large_etag}"'
        row["hash"] = join_row_etag(etag, parameters)


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Slo]:
    """PasteDeploy's entry point."""
    options = load_filter_options(SloOptions, "slo", global_conf, local_conf)
    register_info(
        "slo",
        max_manifest_segments=options.max_manifest_segments,
        max_manifest_size=options.max_manifest_size,
        yield_frequency=options.yield_frequency,
        # Always 1; older clients read it.
        min_segment_size=1,
        allow_async_delete=options.allow_async_delete,
    )
    return lambda app: Slo(app, options)
