# SPDX-License-Identifier: Apache-2.0
"""Cross-origin resource sharing (CORS): the scripts of other origins that may use a container."""

from __future__ import annotations

from collections.abc import Collection

from martlet.http.request import Request
from martlet.http.response import Response
from proxy.config import ProxyOptions
from proxy.lookup.info import Info

_ALWAYS_EXPOSED = (
    "cache-control",
    "content-language",
    "content-type",
    "etag",
    "expires",
    "last-modified",
    "pragma",
    "x-openstack-request-id",
    "x-timestamp",
    "x-trans-id",
)


def preflight(
    req: Request, methods: Collection[str], info: Info | None, options: ProxyOptions
) -> Response:
    """The answer to OPTIONS: 200, or 401 if the origin or the method is not allowed.

    :param info: the container's; None for an account, which has no settings for CORS.
    """
    allow = ", ".join(sorted(methods))
    origin = req.headers.get("Origin")
    if not origin or info is None:
        return Response(200, {"Allow": allow})
    method = req.headers.get("Access-Control-Request-Method")
    if not _is_allowed(origin, info, options) or method not in methods:
        return Response(401, {"Allow": allow})
    response = Response(200, {"Allow": allow})
    _name_origin(response, origin, info)
    if info["cors"]["max_age"] is not None:
        response.headers["Access-Control-Max-Age"] = info["cors"]["max_age"]
    response.headers["Access-Control-Allow-Methods"] = allow
    asked = req.headers.get("Access-Control-Request-Headers")
    if asked:
        names = dict.fromkeys(name.strip() for name in asked.split(",") if name.strip())
        response.headers["Access-Control-Allow-Headers"] = ", ".join(names)
        _vary(response, "Access-Control-Request-Headers")
    return response


def expose(response: Response, origin: str, info: Info, options: ProxyOptions) -> None:
    """Add the headers that let a script of ``origin`` read the response, if that is allowed."""
    if options.strict_cors_mode and not _is_allowed(origin, info, options):
        return
    if "Access-Control-Expose-Headers" not in response.headers:
        names = dict.fromkeys([*_ALWAYS_EXPOSED, *options.cors_expose_headers])
        for name in response.headers:
            if name.lower().startswith(("x-container-meta-", "x-object-meta-")):
                names[name.lower()] = None
        for name in (info["cors"]["expose_headers"] or "").split():
            names[name.lower()] = None
        response.headers["Access-Control-Expose-Headers"] = ", ".join(names)
    if "Access-Control-Allow-Origin" not in response.headers:
        _name_origin(response, origin, info)


def _is_allowed(origin: str, info: Info, options: ProxyOptions) -> bool:
    allowed = {*(info["cors"]["allow_origin"] or "").split(), *options.cors_allow_origin}
    return origin in allowed or "*" in allowed


def _name_origin(response: Response, origin: str, info: Info) -> None:
    if (info["cors"]["allow_origin"] or "").strip() == "*":
        response.headers["Access-Control-Allow-Origin"] = "*"
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    _vary(response, "Origin")


def _vary(response: Response, name: str) -> None:
    known = response.headers.get("Vary")
    response.headers["Vary"] = f"{known}, {name}" if known else name
