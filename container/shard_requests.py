# SPDX-License-Identifier: Apache-2.0
"""Requests about the shards of a container (wire-container.md, "Shards")."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import quote, unquote

from container.database import ContainerDatabase
from container.listing_scope import Scope
from container.merges import Merged
from container.shard_range import BadRange, ShardRange, parse_range, parse_states
from container.shard_rows import SHARDED, Redirect, Sharding, read_ranges, read_sharding
from container.state_headers import not_found, state_headers
from martlet.conf.options import is_true
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from storage.json_body import json_list
from storage.storage_server import listing_response

#: Which kind of records a request wants: object, shard, or auto for whichever there is.
RECORD_TYPE = "X-Backend-Record-Type"
#: Two quoted bounds. The server refuses to list these names unless their rows are its own.
OWN_NAMES = "X-Backend-Own-Names"
#: The proxy has found the shards to be empty.
SHARDS_EMPTY = "X-Backend-Shards-Empty"
ACCEPT_REDIRECT = "X-Backend-Accept-Redirect"
_ACCEPT_QUOTED = "X-Backend-Accept-Quoted-Location"
_ALL_NAMES = "X-Backend-Override-Shard-Name-Filter"
_RANGES_BYTES_MAX = 32 * 1024**2


def record_type(req: Request) -> str:
    """The kind of records that a request names, in lower case; empty if none."""
    return (req.headers.get(RECORD_TYPE) or "").lower()


def scope_of(req: Request) -> Scope:
    """The names that a listing is to show.

    :raises HTTPException: 400 for bounds that are malformed.
    """
    text = req.headers.get(OWN_NAMES)
    bounds = None
    if text is not None:
        lower, comma, upper = text.partition(",")
        if not comma:
            raise http_error(400, f"{OWN_NAMES} has two bounds")
        bounds = unquote(lower), unquote(upper)
    return Scope(record_type(req) == "auto", bounds)


def shard_listing(req: Request, database: ContainerDatabase) -> Response:
    """Answer 200 with the shard ranges that a request asks for, as JSON; 404.

    :raises DatabaseError: as for every read.
    """

    def look(connection: sqlite3.Connection) -> tuple[Sharding | None, list[ShardRange]]:
        return read_sharding(connection), read_ranges(connection)

    info = database.info()
    if info.is_deleted and not is_true(req.headers.get("x-backend-override-deleted")):
        return not_found(info)
    sharding, stored = database.read(look)
    headers = state_headers(info)
    wants_all = (req.headers.get(_ALL_NAMES) or "").lower() == SHARDED == info.sharding_state
    if wants_all:
        headers.append((_ALL_NAMES, "true"))
    found = [] if sharding is None else list(_chosen(req, sharding, stored))
    if not wants_all:
        found = _within(req, found)
    if is_true(req.params.get("reverse")):
        found.reverse()
    body = json.dumps([_shown(item) for item in found]).encode()
    headers.append((RECORD_TYPE, "shard"))
    return listing_response(headers, body, "application/json")


def _chosen(req: Request, sharding: Sharding, stored: Sequence[ShardRange]) -> Iterable[ShardRange]:
    """The ranges of the wanted states; for listings and updates without gaps."""
    states = req.params.get("states", "")
    words = {word.strip() for word in states.split(",")}
    if "listing" in words or record_type(req) == "auto":
        return sharding.listed()
    if "updating" in words:
        return sharding.updated()
    if "auditing" in words:
        return list(stored)
    if "given" in words:
        bounds = sharding.spans.given()
        return [replace(sharding.own, lower=lower, upper=upper) for lower, upper in bounds]
    wanted = parse_states(states) if states else None
    return [r for r in sharding.ranges if wanted is None or r.state in wanted]


def _within(req: Request, found: Iterable[ShardRange]) -> list[ShardRange]:
    """The ranges that the marker, the end marker and ``includes`` leave over."""
    params = req.params
    low, high = params.get("marker", ""), params.get("end_marker", "")
    if is_true(params.get("reverse")):
        low, high = high, low
    includes = params.get("includes", "")
    return [
        item
        for item in found
        if not (low and item.upper and item.upper < low)  # the name may have more versions
        and not (high and item.lower >= high)
        and (not includes or item.covers(includes))
    ]


def _shown(item: ShardRange) -> dict[str, object]:
    return item.as_dict() | {"last_modified": Timestamp(item.timestamp).isoformat}


def ranges_of_put(req: Request) -> list[ShardRange]:
    """The ranges in the body of a PUT.

    :raises HTTPException: 400 if they are malformed, 413 if they are too many.
    """
    try:
        return [parse_range(item) for item in json_list(req, _RANGES_BYTES_MAX)]
    except BadRange as error:
        raise http_error(400, str(error)) from None


def redirect_of_row(req: Request, merged: Merged, name: str) -> Response | None:
    """The answer to a row that belongs into a shard, as in OpenStack Swift; None: it does not."""
    if not merged.redirects:
        return None
    target = merged.redirects[0].target
    location = f"/{target.name}/{name}"
    if is_true(req.headers.get(_ACCEPT_QUOTED)):
        location = quote(location)
    return _moved(location, target, b"")


def redirect_of_rows(merged: Merged) -> Response | None:
    """The answer to rows of which some belong into shards; the others are durable.

    The body says which: the places in the request, by shard.
    """
    if not merged.redirects:
        return None
    body = {"redirects": [_as_json(redirect) for redirect in merged.redirects]}
    target = merged.redirects[0].target
    return _moved(quote(f"/{target.name}"), target, json.dumps(body).encode())


def _as_json(redirect: Redirect) -> dict[str, object]:
    account, container = redirect.target.path
    return {"account": account, "container": container, "rows": redirect.places}


def _moved(location: str, target: ShardRange, body: bytes) -> Response:
    response = Response(301, [], body)
    response.headers["Location"] = str_to_wsgi(location)
    response.headers["X-Backend-Redirect-Timestamp"] = Timestamp(target.timestamp).internal
    response.headers["Content-Type"] = "application/json"
    response.headers["Content-Length"] = str(len(body))
    return response


def takes_redirect(req: Request) -> bool:
    """Whether the sender of rows follows redirects."""
    return is_true(req.headers.get(ACCEPT_REDIRECT))
