# SPDX-License-Identifier: Apache-2.0
"""``/info``: the features and limits of this cluster, for clients."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time

from martlet.http.request import Request
from martlet.http.response import Response, http_error
from proxy.config import ProxyOptions
from proxy.info_registry import collect_info

_SECONDS = re.compile(r"[0-9]{1,18}", re.ASCII).fullmatch
# Request method -> the methods whose signatures it accepts.
_SIGNED_METHODS = {"GET": ("GET",), "HEAD": ("HEAD", "GET")}


def info_page(req: Request, options: ProxyOptions) -> Response:
    """200 with JSON; 401 for a bad signature, 403 if the page is switched off."""
    if not options.expose_info:
        raise http_error(403)
    is_admin = _is_admin(req, options)
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    origin = req.headers.get("Origin")
    if origin:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Expose-Headers"] = "x-trans-id"
    page = collect_info(admin=is_admin, disallowed_sections=options.disallowed_sections)
    return Response(200, headers, json.dumps(page).encode("ascii"))


def _is_admin(req: Request, options: ProxyOptions) -> bool:
    signature = req.params.get("swiftinfo_sig", "")
    expires = req.params.get("swiftinfo_expires", "")
    if not signature and not expires:
        return False
    if not options.admin_key:
        raise http_error(403)
    if not _SECONDS(expires) or int(expires) < time.time():
        raise http_error(401)
    wanted = [
        hmac.new(
            options.admin_key.encode(), f"{method}\n{expires}\n/info".encode(), hashlib.sha1
        ).hexdigest()
        for method in _SIGNED_METHODS[req.method]
    ]
    # All are compared, so that the time reveals nothing but the result.
    if not any([hmac.compare_digest(good, signature) for good in wanted if signature.isascii()]):
        raise http_error(401)
    return True
