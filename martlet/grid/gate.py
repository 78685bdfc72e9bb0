# SPDX-License-Identifier: Apache-2.0
"""The gate of a storage service: what comes in only with a proof of the cluster's secret.

It stands before the whole pipeline of the service, so no configuration leaves it out. It serves
the grid and the login of plain HTTP connections (doc/formats/grid.md), and their figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from martlet.grid.handlers import Handlers
from martlet.grid.http_login import NONCE, PATH, PROOF, ProofError, ServerLogin
from martlet.grid.options import Options
from martlet.grid.plain_http import PlainHttp
from martlet.grid.refusals import WITHOUT_SECRET, Refusal, Refusals
from martlet.grid.secrets import Secrets
from martlet.grid.server import GridServer
from martlet.grid.websocket import PATH as GRID_PATH
from martlet.http.backend_response import REFUSED_HEADER
from martlet.http.environ import CONNECTION, Environ, StartResponse, WSGIApp
from martlet.http.response import Response

FIGURES_PATH = "/recon/grid"
UNPROVED = "unproved"

_PLAIN = {"Content-Type": "text/plain"}
_CLOSE = {**_PLAIN, "Connection": "close"}
_WHAT_TO_DO = (
    "This server serves only connections with a proof of the cluster's secret: set the same "
    "grid_secret in martlet.conf on all servers, or list the address {} in grid_plain_http "
    "if it is a server of OpenStack Swift.\n"
)
#: The key of the `ServerLogin` in the state of a connection.
_LOGIN = "grid_login"
#: The figure of a kind of refusal begins with this.
_REFUSED = "refused "


class Gate:
    """The application before the pipeline ``app``; one for each process.

    :param handlers: of requests over the grid.
    :param plain_http: requests from these addresses need no proof.
    """

    def __init__(
        self,
        app: WSGIApp,
        secrets: Secrets,
        plain_http: PlainHttp,
        handlers: Handlers,
        options: Options,
    ) -> None:
        self.app = app
        self.grid = GridServer(secrets, handlers, options)
        self._secrets = secrets
        self._plain_http = plain_http
        self._handlers = handlers
        self._refusals = Refusals("grid_request_refused")
        self._logins = 0
        self._sums: Callable[[], Mapping[str, int]] = self._own_sums

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer the grid's own paths; 403 to a request without proof; pass on all others."""
        path: str = environ["PATH_INFO"]
        if path == GRID_PATH:
            return self.grid(environ, start_response)
        method: str = environ["REQUEST_METHOD"]
        if path == PATH:
            return self._log_in(environ)(environ, start_response)
        is_reading = method in ("GET", "HEAD")
        if path == FIGURES_PATH and is_reading:
            headers = {"Content-Type": "application/json"}
            return Response(200, headers, self._page())(environ, start_response)
        if not (
            not self._secrets.keys
            or path == "/healthcheck"
            or (is_reading and path.startswith("/recon/"))
            or method == "OPTIONS"
            or self._is_proved(environ)
            or environ["REMOTE_ADDR"] in self._plain_http
        ):
            return self._refuse(environ)(environ, start_response)
        return self.app(environ, start_response)

    def figures(self) -> tuple[dict[str, int], dict[str, int]]:
        """Counts since the start of this process, and the connections that are open now."""
        counts = {
            "handshakes": self.grid.handshakes,
            "protocol_errors": self.grid.protocol_errors,
            "served": self._handlers.requests,
            "logins_http": self._logins,
            "refused_http": self._refusals.counts.total(),
        }
        counts |= {_REFUSED + kind: self.grid.refusals.counts[kind] for kind in Refusal}
        return counts, {"workers": 1, "connections": len(self.grid.connections)}

    def use_sums(self, sums: Callable[[], Mapping[str, int]]) -> None:
        """Show these figures of all workers of the service from now on."""
        self._sums = sums

    def _own_sums(self) -> Mapping[str, int]:
        counts, state = self.figures()
        return counts | state

    def _page(self) -> str:
        sums = self._sums()
        refused = {kind: sums[_REFUSED + kind] for kind in Refusal}
        plain = {name: value for name, value in sums.items() if not name.startswith(_REFUSED)}
        return json.dumps({**plain, "refused": refused})

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The figures of this process for GET /metrics."""
        return {
            ("martlet_grid_connections",): len(self.grid.connections),
            ("martlet_grid_refused",): self._refusals.counts.total()
            + sum(self.grid.refusals.counts[kind] for kind in WITHOUT_SECRET),
            ("martlet_grid_protocol_errors",): self.grid.protocol_errors,
        }

    def _is_proved(self, environ: Environ) -> bool:
        login: ServerLogin | None = environ[CONNECTION].get(_LOGIN)
        return login is not None and login.is_proved

    def _refuse(self, environ: Environ) -> Response:
        remote_addr: str = environ["REMOTE_ADDR"]
        sentence = f"{environ['REQUEST_METHOD']} on a connection without proof"
        self._refusals.add(UNPROVED, remote_addr, sentence)
        headers = {REFUSED_HEADER: UNPROVED, **_PLAIN}
        return Response(403, headers, _WHAT_TO_DO.format(remote_addr))

    def _log_in(self, environ: Environ) -> Response:
        if environ["REQUEST_METHOD"] != "GET":
            return Response(405, {"Allow": "GET", **_PLAIN}, "A login is a GET.\n")
        login: ServerLogin = environ[CONNECTION].setdefault(_LOGIN, ServerLogin(self._secrets))
        sent = {
            name.lower(): value
            for name in (NONCE, "X-Grid-Key", PROOF)
            if (value := environ.get("HTTP_" + name.upper().replace("-", "_"))) is not None
        }
        if PROOF.lower() not in sent:
            return Response(200, login.challenge())
        try:
            headers = login.check(sent)
        except ProofError as error:
            self._refusals.add(error.kind, environ["REMOTE_ADDR"], str(error))
            status = 400 if error.kind == Refusal.MALFORMED else 403
            return Response(status, _CLOSE, f"{error}\n")
        self._logins += 1
        return Response(200, headers)
