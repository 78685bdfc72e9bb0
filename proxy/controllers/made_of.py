# SPDX-License-Identifier: Apache-2.0
"""The question which version was made of a multipart upload of the S3 API.

Parts are deleted if there is none, so that must be certain: a wrong 404 would lose data. The object
servers know all versions of a name. Listings do not: they may lag behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from martlet.http.environ import MADE_OF
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.conditional import majority
from proxy.controllers.object_get import answered
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.engine import Outcome
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.nodes import NodeQueue
from proxy.replicas.quorum import Answer
from proxy.replicas.versions import MADE_OF_ID, NULL, VERSION_ID
from proxy.wire_headers import WireHeaders

_DATA_TIME = "x-backend-data-timestamp"


def find_made(
    core: Core, req: Request, request: BackendRequest, nodes: NodeQueue, headers: dict[str, str]
) -> Response:
    """Ask all primaries, and the hand-offs of a read. One that has such a version is right.

    A replica may have missed the removal of the version that is named as removed. Object servers of
    a former release do not know the question.

    :raises HTTPException: (404) most of the primaries have none; (503) too few of them know.
    """
    upload_id, removed = req.environ[MADE_OF]
    asked = {**headers, VERSION_ID: MADE_OF_ID + upload_id}
    primaries = nodes.primaries
    devices = list(nodes)
    outcomes = ask_all(
        core.backends,
        request,
        iter(devices),
        [WireHeaders(asked)] * len(devices),
        lambda said: len(said) == len(devices),
        core.options.post_quorum_timeout,
    )
    found = [o.answer for o in outcomes if o.answer.status == 200]
    left = [a for a in found if a.headers.get(VERSION_ID.lower(), NULL) != removed]
    if left:
        newest = max(left, key=_rank)
        response = answered(newest.status, newest.headers)
        response.headers["Content-Length"] = newest.headers.get("content-length", "0")
        return response
    missing = _primaries_without(outcomes, [node["id"] for node in primaries])
    if missing < majority(len(primaries)):
        raise http_error(503, "Too few storage servers know the versions of the object.")
    raise http_error(404)


def _primaries_without(outcomes: Sequence[Outcome], primaries: Sequence[int]) -> int:
    return sum(1 for o in outcomes if o.answer.status == 404 and o.node["id"] in primaries)


def _rank(answer: Answer) -> tuple[bool, Timestamp]:
    """The last one is the newest; but a replica that knows of no versions may have missed some."""
    headers = answer.headers
    return VERSION_ID.lower() in headers, Timestamp(headers.get(_DATA_TIME, "0"))
