# SPDX-License-Identifier: Apache-2.0
"""Parameters in the ETag of a listing's row: ``<md5>; slo_etag=<md5>``.

A filter whose stored object differs from the client's view adds parameters with the values for
listings (X-Object-Sysmeta-Container-Update-Override-Etag). It removes them when a listing passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers, find_header
from martlet.http.listing import JSON
from proxy.middleware.subrequest import read_body

Row = dict[str, Any]

#: The header that puts an ETag with parameters into the row of an object.
OVERRIDE_ETAG = "X-Object-Sysmeta-Container-Update-Override-Etag"


def split_row_etag(text: str) -> tuple[str, dict[str, str]]:
    """Return the ETag itself, and its parameters in their order."""
    etag, *parameters = [part.strip() for part in text.split(";")]
    pairs = [part.partition("=") for part in parameters if part]
    return etag, {name: value for name, _, value in pairs}


def join_row_etag(etag: str, parameters: dict[str, str]) -> str:
    """Join an ETag and its parameters; the inverse of ``split_row_etag``."""
    return "; ".join([etag, *(f"{name}={value}" for name, value in parameters.items())])


def pass_listing(
    app: WSGIApp,
    environ: Environ,
    start_response: StartResponse,
    mark: bytes,
    change: Callable[[Row], None],
) -> Iterable[bytes]:
    """Pass a container GET on, and ``change`` each row of its JSON that has a hash.

    The fast path: a listing without ``mark``, which is nearly every listing, is not parsed.
    """
    status, header_list, body = call_app(app, environ)
    content_type = find_header(header_list, "content-type") or ""
    if status[:3] != "200" or content_type.partition(";")[0].strip() != JSON:
        start_response(status, header_list)
        return body
    text = read_body(body)
    if mark in text:
        text = _change_rows(text, change)
        headers = Headers(header_list)
        headers["Content-Length"] = len(text)
        header_list = headers.as_list()
    start_response(status, header_list)
    return [text]


def _change_rows(text: bytes, change: Callable[[Row], None]) -> bytes:
    try:
        rows = json.loads(text)
    except ValueError:
        return text
    for row in rows:
        if "hash" in row:
            change(row)
    return json.dumps(rows).encode("ascii")
