# SPDX-License-Identifier: Apache-2.0
"""``/console/api/``: answers as JSON, for the user of the token in the request.

``user`` says whether the user is a reseller admin. ``cluster`` shows the cluster, to those only.
"""

from __future__ import annotations

import json
from typing import Any

from martlet.conf.options import ConfigError
from martlet.http.environ import RESELLER_REQUEST, Environ, WSGIApp
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response, plain_error
from martlet.log import get_logger
from proxy.console.cluster_state import ClusterState
from proxy.middleware.subrequest import ask_status, sub_environ
from ring.errors import RingError

_SOURCE = "CON"
log = get_logger("martlet.console")


class Operators:
    """The answers. The filters to the right say who the user is."""

    def __init__(self, app: WSGIApp, swift_dir: str) -> None:
        self._app = app
        self._swift_dir = swift_dir
        self._state: ClusterState | None = None

    def answer(self, environ: Environ, name: str) -> Response:
        """The answer to a path below ``/console/api/``; 401, 403, 404 or 503 with a sentence."""
        try:
            is_operator = self._is_operator(environ)
            if name == "user":
                return _as_json({"is_operator": is_operator})
            if name != "cluster":
                raise plain_error(404, "The console has no such answer.\n")
            if not is_operator:
                raise plain_error(403, "Only a reseller admin may see the cluster.\n")
            return _as_json(self._cluster(environ))
        except HTTPException as error:
            return error.response

    def _is_operator(self, environ: Environ) -> bool:
        """Ask the auth filter by a request that reads nothing.

        :raises HTTPException: (401) it knows no user of the token.
        """
        asked = sub_environ(environ, "GET", "/info", _SOURCE)
        for name in (RESELLER_REQUEST, "REMOTE_USER"):
            asked.pop(name, None)  # only what the auth filter says counts
        status = ask_status(self._app, asked)
        if status == 401 or "REMOTE_USER" not in asked:
            raise plain_error(401, "Log in first.\n")
        return asked.get(RESELLER_REQUEST) is True

    def _cluster(self, environ: Environ) -> dict[str, Any]:
        """:raises HTTPException: (503) the rings cannot be read."""
        try:
            if self._state is None:
                self._state = ClusterState(self._swift_dir)
            return self._state.as_json()
        except (ConfigError, RingError) as error:
            trans_id = Request(environ).trans_id
            log.error("event=no_cluster_state reason=%s trans_id=%s", error, trans_id)
            raise plain_error(503, "The proxy cannot read its rings.\n") from None


def _as_json(value: dict[str, Any]) -> Response:
    return Response(200, {"Content-Type": "application/json"}, json.dumps(value))
