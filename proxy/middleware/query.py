# SPDX-License-Identifier: Apache-2.0
"""Fast look-up of one query parameter, for filters that most requests do not concern."""

from __future__ import annotations

from martlet.http.environ import Environ
from martlet.http.request import Request
from martlet.words.names import BadNameError


def parameter(environ: Environ, name: str) -> str | None:
    """Return its value; None if it is absent or the query is not UTF-8 (the proxy refuses that)."""
    if name not in environ.get("QUERY_STRING", ""):
        return None  # the fast path: nearly all requests
    try:
        return Request(environ).params.get(name)
    except BadNameError:
        return None
