# SPDX-License-Identifier: Apache-2.0
"""Requests about an object."""

from __future__ import annotations

from collections.abc import Sequence

from martlet.conf.options import is_true
from martlet.http.environ import (
    LOCKS_AT_LEAST,
    MADE_OF,
    REPLACED_UPLOADS,
    SPARES_LARGE,
    SYNC_KEY,
)
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.conditional import delete_in_order, majority
from proxy.controllers.locked import check_unlocked, with_locks
from proxy.controllers.made_of import find_made
from proxy.controllers.object_get import response_of
from proxy.controllers.object_put import Store
from proxy.controllers.object_request import (
    check_body_length,
    delete_at,
    policy_index,
    post_headers,
    put_headers,
    read_headers,
    request_headers,
)
from proxy.controllers.object_write import prepare_write
from proxy.controllers.resource import Resource, Route, authorize
from proxy.headers import IF_TIMESTAMP, returned_headers
from proxy.lookup.info import Info, container_info
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.replicas.gone_uploads import removed_uploads
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.locks import (
    LOCK_CHANGES,
    LOCK_MODE,
    is_lockable,
    lock_by_rule,
    refuse_locked,
)
from proxy.replicas.quorum import Answer, own_write_done, quorum_size
from proxy.replicas.spared import refuse_large
from proxy.replicas.updates import have_known_rows, row_headers, told_by
from proxy.replicas.versions import (
    VERSION_MARKER,
    VERSION_RESTORE,
    VersionRequest,
    rows_of_delete,
    version_request,
)
from proxy.wire_headers import WireHeaders


class ObjectController:
    """GET, HEAD, PUT, POST and DELETE of an object."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.routes = {
            "GET": Route(self.get, delays_denial=True, cors=True),
            "HEAD": Route(self.get, delays_denial=True, cors=True),
            "PUT": Route(self.put, delays_denial=True, cors=True),
            "POST": Route(self.post, delays_denial=True, cors=True),
            "DELETE": Route(self.delete, delays_denial=True, cors=True),
        }

    def get(self, req: Request, resource: Resource) -> Response:
        """200, 206, 304; 404, 412, 416, 503."""
        core = self._core
        options = core.options
        info, version = self._admit(req, resource, is_write=False)
        policy = policy_index(req, info)
        headers = read_headers(req, version, allow_open_expired=options.allow_open_expired)
        headers["X-Backend-Storage-Policy-Index"] = str(policy)
        newest = is_true(req.headers.get("X-Newest")) or MADE_OF in req.environ
        nodes = core.nodes(core.object_ring(policy, req.trans_id), *resource, is_read=True)
        request = core.request(
            req,
            "Object",
            nodes.partition,
            resource.path,
            timeout=options.node_timeout if newest else options.read_timeout,
        )
        if MADE_OF in req.environ:
            return find_made(core, req, request, nodes, headers)
        search = Search(core, request, nodes)
        source = search.find_best(WireHeaders(headers), newest=newest)
        return response_of(req, search, source, headers)

    def put(self, req: Request, resource: Resource) -> Response:
        """201; 202 if a newer one exists; 400, 404, 408, 411, 412, 413, 422, 499, 503."""
        if req.headers.get("If-None-Match", "*").strip() != "*":
            raise http_error(400, "If-None-Match only supports *")
        core = self._core
        limits = core.constraints
        info, version = self._admit(req, resource, is_write=True)
        check_body_length(req, limits)
        expires = delete_at(req)
        policy = policy_index(req, info)
        headers = put_headers(req, version, resource.obj, limits)
        if LOCK_MODE not in headers and VERSION_RESTORE not in headers:
            headers |= lock_by_rule(info["sysmeta"], float(req.timestamp))
        write = prepare_write(core, req, resource, policy, headers, expires)
        return Store(core, req, write).run()

    def post(self, req: Request, resource: Resource) -> Response:
        """202; 400, 403, 404, 409, 503."""
        core = self._core
        options = core.options
        info, version = self._admit(req, resource, is_write=True)
        expires = delete_at(req)
        policy = policy_index(req, info)
        headers = post_headers(
            req,
            version,
            resource.obj,
            core.constraints,
            allow_open_expired=options.allow_open_expired,
        )
        write = prepare_write(core, req, resource, policy, headers, expires)
        sent = write.wire_headers()
        timestamp = req.environ["HTTP_X_TIMESTAMP"]
        outcomes = core.ask(write.request, write.nodes, sent)
        is_at_least = LOCKS_AT_LEAST in req.environ
        if is_at_least:
            outcomes = with_locks(core, write, outcomes)
        answers = own_write_done([o.answer for o in outcomes], timestamp, 202)
        found = sum(1 for answer in answers if answer.status == 202)
        replicas = write.nodes.primary_count
        if 0 < found < quorum_size(replicas):
            # Replicas without it may be empty disks. Hand-offs may have the object meanwhile.
            missing = [o for o in outcomes if o.answer.status == 404]
            handoffs = write.nodes.handoffs(len(missing))
            outcomes += ask_all(
                core.backends,
                write.request,
                iter(handoffs),
                [sent[o.index] for o in missing[: len(handoffs)]],
                lambda statuses: len(statuses) == len(handoffs),
                options.post_quorum_timeout,
            )
            if is_at_least:
                outcomes = with_locks(core, write, outcomes)
        write.note_missed(core, outcomes)
        answers = own_write_done([o.answer for o in outcomes], timestamp, 202)
        refuse_locked(answers)
        if is_at_least and any(answer.status == 409 for answer in answers):
            raise http_error(409)  # replicas that merge their locks would take the later change
        is_lock = any(name in headers for name in LOCK_CHANGES)
        needed = majority(replicas) if is_lock else quorum_size(replicas)
        best = core.best(write.request, answers, replicas, quorum=needed)
        if best.status == 404 and found and not _missed_the_delete(answers):
            raise http_error(503)  # a replica has the object, so 404 would be wrong
        return Response(best.status, returned_headers(best.headers), best.body)

    def delete(self, req: Request, resource: Resource) -> Response:
        """204; 404, 409 if a newer one exists, or it is large and to be spared, 412, 503."""
        core = self._core
        info, version = self._admit(req, resource, is_write=True)
        policy = policy_index(req, info)
        write = prepare_write(core, req, resource, policy, request_headers(req, version))
        if is_lockable(info["sysmeta"]) and VERSION_MARKER not in write.headers:
            check_unlocked(core, write)
        if SPARES_LARGE in req.environ:
            ring = core.object_ring(policy, req.trans_id)
            nodes = core.nodes(ring, *resource, is_read=True)
            refuse_large(core, write.request, nodes, write.headers)
        if IF_TIMESTAMP in write.headers:
            outcomes = delete_in_order(core, write, write.wire_headers())
        else:
            outcomes = core.ask(write.request, write.nodes, write.wire_headers())
        write.note_missed(core, outcomes)
        timestamp = req.environ["HTTP_X_TIMESTAMP"]
        answers = own_write_done([o.answer for o in outcomes], timestamp, 204)
        refuse_locked(answers)
        answer = core.best(write.request, answers, write.nodes.primary_count, {404: 204})
        told = told_by(outcomes)
        # A delete marker is added even if the object did not exist.
        is_done = answer.status < 300 or (answer.status == 404 and VERSION_MARKER in write.headers)
        if REPLACED_UPLOADS in req.environ and answer.status in (204, 404):
            gone = [(write.request.path, name) for name in removed_uploads(outcomes)]
            req.environ[REPLACED_UPLOADS] += gone
        if have_known_rows(outcomes):
            write.row.send_known(outcomes, row_headers(write.headers))
        if is_done and len(told) < len(write.updates):
            for method, values in rows_of_delete(row_headers(write.headers), write.headers):
                write.row.send_missed(method, told, values)
        return Response(answer.status, returned_headers(answer.headers), answer.body)

    def _admit(
        self, req: Request, resource: Resource, *, is_write: bool
    ) -> tuple[Info, VersionRequest]:
        """Authorize the request; returns what is known of the container, and the version meant.

        :raises HTTPException: (404) a write to a missing container; (503) nothing is known of it.
        :raises Denied: see `authorize`.
        """
        info = container_info(self._core, req, resource.account, resource.container)
        if info["status"] >= 500:
            raise http_error(503)
        if is_write:
            req.environ[SYNC_KEY] = info["sync_key"]
        version = version_request(req.environ)
        acl = info["write_acl"] if is_write else info["read_acl"]
        authorize(req, None if version.owner_only else acl)
        if is_write and not 200 <= info["status"] < 300:
            raise http_error(404)
        return info, version


def _missed_the_delete(answers: Sequence[Answer]) -> bool:
    """Whether the object is deleted: a tombstone is later than what each replica has that took it.

    An object server of a former release does not say when its object was written.
    """
    deleted = [
        Timestamp(answer.headers["x-backend-timestamp"])
        for answer in answers
        if answer.status == 404 and "x-backend-timestamp" in answer.headers
    ]
    written = [a.headers.get("x-backend-data-timestamp") for a in answers if a.status == 202]
    return bool(deleted) and all(at and Timestamp(at) < max(deleted) for at in written)
