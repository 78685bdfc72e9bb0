# SPDX-License-Identifier: Apache-2.0
"""The question which version was made of a multipart upload of the S3 API.

Parts are deleted if there is none, so that must be certain: a wrong 404 would lose data. The object
servers know all versions of a name. Listings do not: they may lag behind. Who can try again later
asks for the knowledge of all primaries. For a client that waits, that of most is enough.

A version is acknowledged only if as many devices have it as a write needs. Who asks for that waits
for a quorum. If there is none, the answer says so, and a device that has the version learns that
others miss it.
"""

from __future__ import annotations

from collections.abc import Sequence

from martlet.http.environ import MADE_BY_QUORUM, MADE_OF
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.conditional import majority
from proxy.controllers.object_get import answered
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.engine import Decided, Outcome
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.nodes import NodeQueue
from proxy.replicas.quorum import Answer, quorum_size
from proxy.replicas.versions import MADE_BY_FEW, MADE_OF_ID, NULL, UNKNOWN, VERSION_ID
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
    having = quorum_size(len(primaries)) if MADE_BY_QUORUM in req.environ else 1
    outcomes = ask_all(
        core.backends,
        request,
        iter(devices),
        [WireHeaders(asked)] * len(devices),
        _decided(needed, having, len(devices) if needs_all else None, removed),
        core.options.post_quorum_timeout,
    )
    ids = {node["id"] for node in primaries}
    made = [o for o in outcomes if _is_made(o.answer, upload_id)]
    left = [o for o in made if _id_of(o.answer) != removed]
    if left:
        found = _newest(left, having)
        response = _response(found)
        if len(found) < having:
            knowing = sum(o.node["id"] in ids and o.answer.status in (200, 404) for o in outcomes)
            is_known = knowing >= majority(len(primaries))
            response.headers[MADE_BY_FEW] = "true" if is_known else UNKNOWN
            policy = int(headers["X-Backend-Storage-Policy-Index"])
            core.hints.note("PUT", policy, nodes.partition, len(primaries), found)
        return response
    if sum(o.node["id"] in ids and _has_none(o.answer, upload_id) for o in outcomes) < needed:
        raise http_error(503, "Too few storage servers know the versions of the object.")
    raise http_error(404)


def _decided(needed: int, having: int, devices: int | None, removed: str) -> Decided:
    """When the answers decide. A question that needs all ``devices`` waits for each.

    Others must not wait for one that hangs, unless too few of the others have the version.
    """

    def is_decided(said: list[int]) -> bool:
        if devices is not None:
            return len(said) == devices
        return said.count(404) >= needed or (said.count(200) >= having and not removed)

    return is_decided


def _response(found: Sequence[Outcome]) -> Response:
    """The answer with the version that these devices have."""
    newest = max((o.answer for o in found), key=_rank)
    response = answered(newest.status, newest.headers)
    response.headers["Content-Length"] = newest.headers.get("content-length", "0")
    return response


def _newest(outcomes: Sequence[Outcome], having: int) -> list[Outcome]:
    """The outcomes with the newest version that so many devices have; else with the newest."""
    by_version: dict[Timestamp, list[Outcome]] = {}
    for outcome in outcomes:
        by_version.setdefault(_version_of(outcome.answer), []).append(outcome)
    groups = list(by_version.values())
    known = [group for group in groups if len(group) >= having]
    return max(known or groups, key=lambda group: max(_rank(o.answer) for o in group))


def _version_of(answer: Answer) -> Timestamp:
    """The time of the version on all devices that have it; a restored one keeps its id."""
    known = _id_of(answer)
    return Timestamp(answer.headers.get(_DATA_TIME, "0") if known == NULL else known)


def _id_of(answer: Answer) -> str:
    return answer.headers.get(VERSION_ID.lower(), NULL)


def _is_made(answer: Answer, upload_id: str) -> bool:
    return answer.status == 200 and answer.headers.get(UPLOAD_ID.lower()) == upload_id


def _has_none(answer: Answer, upload_id: str) -> bool:
    """A server without versions answers with what is current."""
    return answer.status == 404 or (answer.status == 200 and not _is_made(answer, upload_id))


def _rank(answer: Answer) -> tuple[bool, Timestamp]:
    """The last one is the newest; but a replica that knows of no versions may have missed some."""
    headers = answer.headers
    return VERSION_ID.lower() in headers, Timestamp(headers.get(_DATA_TIME, "0"))
