# SPDX-License-Identifier: Apache-2.0
"""Refuses writes to the whole cluster or to single accounts.

The option applies to all accounts. An account's system metadata ``Read-Only`` (true or false, set
by an operator at the account servers) overrides it. Place the filter right of ratelimit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from martlet.conf.options import option, parse_bool
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import error_response
from martlet.words.names import BadNameError, wsgi_to_str
from proxy.middleware.subrequest import get_account_info

_WRITES = frozenset({"COPY", "DELETE", "POST", "PUT"})


@dataclass(frozen=True)
class ReadOnlyOptions:
    """``[filter:read_only]``."""

    read_only: bool = option(False, "Refuse writes to accounts unless their metadata overrides it")
    allow_deletes: bool = option(False, "Allow DELETE in read-only accounts")


class ReadOnly:
    """The filter."""

    def __init__(self, app: WSGIApp, options: ReadOnlyOptions) -> None:
        self._app = app
        self._options = options
        self._writes = _WRITES - {"DELETE"} if options.allow_deletes else _WRITES

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 405 for a write to a read-only account; pass other requests on."""
        if environ["REQUEST_METHOD"] in self._writes and self._is_read_only(environ):
            text = "Writes are disabled for this account."
            return error_response(405, text)(environ, start_response)
        return self._app(environ, start_response)

    def _is_read_only(self, environ: Environ) -> bool:
        parts = environ["PATH_INFO"].split("/", 3)
        if len(parts) < 3 or parts[1] not in ("v1", "v1.0") or not parts[2]:
            return False  # a request for a token, or another path that is not stored
        account = parts[2]
        if environ["REQUEST_METHOD"] == "COPY" and "HTTP_DESTINATION_ACCOUNT" in environ:
            account = unquote(environ["HTTP_DESTINATION_ACCOUNT"], encoding="latin-1").strip("/")
        try:
            info = get_account_info(environ, self._app, wsgi_to_str(account), "RO")
            return parse_bool(info["sysmeta"].get("read-only", ""))
        except (BadNameError, ValueError):
            return self._options.read_only


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], ReadOnly]:
    """PasteDeploy's entry point."""
    options = load_filter_options(ReadOnlyOptions, "read_only", global_conf, local_conf)
    return lambda app: ReadOnly(app, options)
