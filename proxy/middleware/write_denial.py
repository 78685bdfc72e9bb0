# SPDX-License-Identifier: Apache-2.0
"""Whether the auth system lets a client write, before a filter does anything for the write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from martlet.http.environ import AUTHORIZE, Environ, WSGIApp
from martlet.http.request import Request


def write_denial(environ: Environ, find: Callable[[], Mapping[str, Any]]) -> WSGIApp | None:
    """The auth system's refusal of the request, None without one.

    :param find: gives what is known of the container that is written to. It is not called for a
        request that is authorized already.
    """
    check = environ.get(AUTHORIZE)
    if check is None:
        return None
    request = Request(environ)
    request.acl = find().get("write_acl")
    denial: WSGIApp | None = check(request)
    return denial
