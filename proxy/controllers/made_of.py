# SPDX-License-Identifier: Apache-2.0
"""The question which version was made of a multipart upload of the S3 API.

Parts are deleted if there is none, so that must be certain: a wrong 404 would lose data. The object
servers know all versions of a name. Listings do not: they may lag behind. Who can try again later
asks for the knowledge of all primaries. For a client that waits, that of most is enough.
"""

from __future__ import annotations

from martlet.http.environ import MADE_OF
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.conditional import majority
from proxy.controllers.object_get import answered
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.gone_uploads import UPLOAD_ID
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

    :raises HTTPException: (404) most of the primaries have none, or all of them if the question
        says so; (503) too few of them know.
    """
    upload_id, removed, needs_all = req.environ[MADE_OF]
    asked = {**headers, VERSION_ID: MADE_OF_ID + upload_id}
    primaries = nodes.primaries
    devices = list(nodes)
    needed = len(primaries) if needs_all else majority(len(primaries))

    def is_decided(said: list[int]) -> bool:
        """A question that needs all waits for each; others must not wait for one that hangs."""
        if needs_all:
            return len(said) == len(devices)
        return said.count(404) >= needed or (200 in said and not removed)

    outcomes = ask_all(
        core.backends,
        request,
        iter(devices),
        [WireHeaders(asked)] * len(devices),
        is_decided,
        core.options.post_quorum_timeout,
    )
    made = [o.answer for o in outcomes if _is_made(o.answer, upload_id)]
    left = [a for a in made if a.headers.get(VERSION_ID.lower(), NULL) != removed]
    if left:
        newest = max(left, key=_rank)
        response = answered(newest.status, newest.headers)
        response.headers["Content-Length"] = newest.headers.get("content-length", "0")
        return response
    ids = {node["id"] for node in primaries}
    if sum(o.node["id"] in ids and _has_none(o.answer, upload_id) for o in outcomes) < needed:
        raise http_error(503, "Too few storage servers know the versions of the object.")
    raise http_error(404)


def _is_made(answer: Answer, upload_id: str) -> bool:
    return answer.status == 200 and answer.headers.get(UPLOAD_ID.lower()) == upload_id


def _has_none(answer: Answer, upload_id: str) -> bool:
    """A server without versions answers with what is current."""
    return answer.status == 404 or (answer.status == 200 and not _is_made(answer, upload_id))


def _rank(answer: Answer) -> tuple[bool, Timestamp]:
    """The last one is the newest; but a replica that knows of no versions may have missed some."""
    headers = answer.headers
    return VERSION_ID.lower() in headers, Timestamp(headers.get(_DATA_TIME, "0"))
