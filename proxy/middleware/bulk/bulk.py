# SPDX-License-Identifier: Apache-2.0
"""Many operations in one request: extraction of archives, and lists of names to delete.

Place the filter left of auth: each operation is authorized separately. doc/bulk.md explains its
use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from martlet.conf.cluster import ClusterConf
from martlet.conf.constraints import Constraints
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.request import Request
from martlet.http.response import error_response
from martlet.words.names import BadNameError
from proxy.info_registry import register_info
from proxy.middleware.bulk.archive import COMPRESSIONS
from proxy.middleware.bulk.delete import Deletion, delete_listed
from proxy.middleware.bulk.extract import Extraction
from proxy.middleware.bulk.options import BulkOptions
from proxy.middleware.bulk.report import answer


class Bulk:
    """The filter."""

    def __init__(self, app: WSGIApp, options: BulkOptions, constraints: Constraints) -> None:
        self._app = app
        self._options = options
        self._constraints = constraints

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 200 with a report for a bulk request, 400 for an archive of an unknown kind."""
        query = environ.get("QUERY_STRING", "")
        app = self._app
        if "extract-archive" in query or "bulk-delete" in query:
            app = self._route(environ)
        return app(environ, start_response)

    def _route(self, environ: Environ) -> WSGIApp:
        req = Request(environ)
        try:
            params = req.params
        except BadNameError:
            return self._app  # the proxy application answers with the error
        if "extract-archive" in params and req.method == "PUT":
            kind = params["extract-archive"].lower().strip(".")
            if kind not in COMPRESSIONS:
                return error_response(400, "Unsupported archive format")
            extraction = Extraction(
                self._app, environ, COMPRESSIONS[kind], self._options, self._constraints
            )
            return answer(environ, extraction.report, extraction.run())
        if "bulk-delete" in params and req.method in ("POST", "DELETE"):
            deletion = Deletion(self._app, environ, self._options)
            work = delete_listed(deletion, environ, self._options, self._constraints)
            return answer(environ, deletion.report, work)
        return self._app


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Bulk]:
    """PasteDeploy's entry point."""
    options = load_filter_options(BulkOptions, "bulk", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    register_info(
        "bulk_upload",
        max_containers_per_extraction=options.max_containers_per_extraction,
        max_failed_extractions=options.max_failed_extractions,
    )
    register_info(
        "bulk_delete",
        max_deletes_per_request=options.max_deletes_per_request,
        max_failed_deletes=options.max_failed_deletes,
    )
    return lambda app: Bulk(app, options, cluster.constraints)
