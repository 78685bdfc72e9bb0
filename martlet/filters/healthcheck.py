# SPDX-License-Identifier: Apache-2.0
"""``GET /healthcheck``: 200 while the service runs, 503 while an operator's file exists.

Load balancers send this request. The answer says nothing about the storage behind the service.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import Response


@dataclass(frozen=True)
class HealthcheckOptions:
    """``[filter:healthcheck]``."""

    disable_path: str = option("", "While this file exists, /healthcheck answers 503")


class Healthcheck:
    """The filter."""

    def __init__(self, app: WSGIApp, options: HealthcheckOptions) -> None:
        self.app = app
        self._disable_path = options.disable_path

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer ``/healthcheck`` with 200 or 503; pass on all other requests."""
        if environ["PATH_INFO"] != "/healthcheck":
            return self.app(environ, start_response)
        plain = {"Content-Type": "text/plain"}
        if self._disable_path and os.path.exists(self._disable_path):
            return Response(503, plain, "DISABLED BY FILE")(environ, start_response)
        return Response(200, plain, "OK")(environ, start_response)


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], Healthcheck]:
    """PasteDeploy's entry point."""
    options = load_filter_options(HealthcheckOptions, "healthcheck", global_conf, local_conf)
    return lambda app: Healthcheck(app, options)
