# SPDX-License-Identifier: Apache-2.0
"""Requests about an object."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from martlet.conf.constraints import ConstraintError
from martlet.conf.options import is_true
from martlet.http.backend_client import BackendError
from martlet.http.environ import SYNC_KEY
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from proxy.controllers.expiration import delete_at
from proxy.controllers.object_get import ObjectBody, clean_content_type
from proxy.controllers.object_put import ONE_MESSAGE_BYTES_MAX, Store
from proxy.controllers.resource import Resource, Route, authorize
from proxy.headers import object_headers, returned_headers
from proxy.lookup.info import Info, container_info
from proxy.replicas.core import Core, header_lines
from proxy.replicas.fanout import ask_all
from proxy.replicas.fetch import Search, Source
from proxy.replicas.quorum import own_write_done, quorum_size
from proxy.replicas.updates import (
    ContainerRow,
    container_spread,
    expirer_target,
    have_known_rows,
    told_by,
    update_headers,
)
from proxy.replicas.versions import VERSION_MARKER, rows_of_delete, version_request
from ring.errors import RingError
from ring.ring import Node, Ring


class _Placement(NamedTuple):
    """The policy, partition and devices of an object."""

    policy_index: int
    ring: Ring
    partition: int
    nodes: tuple[Node, ...]


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
        info = self._container(req, resource)
        version = version_request(req.environ)
        authorize(req, None if version.owner_only else info["read_acl"])
        placement = self._placement(req, resource, info)
        newest = is_true(req.headers.get("X-Newest"))
        options = self._core.options
        request = self._core.request(
            req,
            "Object",
            placement.partition,
            resource.path,
            timeout=options.node_timeout if newest else options.read_timeout,
        )
        headers = object_headers(req) | dict(version.headers)
        headers["X-Backend-Storage-Policy-Index"] = str(placement.policy_index)
        self._open_expired(req, headers)
        nodes = self._core.nodes(placement.ring, placement.partition, is_read=True)
        search = Search(self._core, request, nodes)
        lines = header_lines(headers)
        source = search.find_best(lines, newest=newest)
        if source is None:
            answer = search.failure()
            return _answered(answer.status, answer.headers, answer.body)
        return _found(req, search, source, headers)

    def put(self, req: Request, resource: Resource) -> Response:
        """201; 202 if a newer one exists; 400, 404, 408, 411, 412, 413, 422, 499, 503."""
        if req.headers.get("If-None-Match", "*").strip() != "*":
            raise http_error(400, "If-None-Match only supports *")
        info = self._container(req, resource)
        self._authorize_write(req, info)
        self._check_body_length(req)
        headers = _write_headers(req)
        headers["Content-Type"] = _content_type(req, resource)
        self._check(resource, headers)
        placement = self._placement(req, resource, info)
        updates = self._updates(resource, placement, headers, delete_at(req))
        request = self._core.request(req, "Object", placement.partition, resource.path)
        nodes = self._core.nodes(placement.ring, placement.partition)
        row = partial(self._container_row, req, resource, len(updates))
        return Store(self._core, req, request, nodes, headers, updates, row).run()

    def post(self, req: Request, resource: Resource) -> Response:
        """202; 400, 404, 503."""
        info = self._container(req, resource)
        self._authorize_write(req, info)
        headers = _write_headers(req)
        if content_type := req.environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = content_type
        self._check(resource, headers)
        self._open_expired(req, headers)
        placement = self._placement(req, resource, info)
        lines = self._lines(resource, placement, headers, delete_at(req))
        request = self._core.request(req, "Object", placement.partition, resource.path)
        nodes = self._core.nodes(placement.ring, placement.partition)
        outcomes = self._core.ask(request, nodes, lines)
        found = sum(1 for o in outcomes if o.answer.status == 202)
        replicas = len(placement.nodes)
        if 0 < found < quorum_size(replicas):
            # Replicas without it may be empty disks. Hand-offs may have the object meanwhile.
            missing = [o for o in outcomes if o.answer.status == 404]
            handoffs = nodes.handoffs(len(missing))
            outcomes += ask_all(
                self._core.backends,
                request,
                iter(handoffs),
                [lines[o.index] for o in missing[: len(handoffs)]],
                lambda statuses: len(statuses) == len(handoffs),
                self._core.options.post_quorum_timeout,
            )
        answers = [o.answer for o in outcomes]
        best = self._core.best(request, answers, replicas, quorum=quorum_size(replicas))
        if best.status == 404 and found:
            raise http_error(503)  # a replica has the object, so 404 would be wrong
        return Response(best.status, returned_headers(best.headers), best.body)

    def delete(self, req: Request, resource: Resource) -> Response:
        """204; 404, 409 if a newer one exists, 503."""
        info = self._container(req, resource)
        self._authorize_write(req, info)
        placement = self._placement(req, resource, info)
        headers = _write_headers(req)
        lines = self._lines(resource, placement, headers, None)
        request = self._core.request(req, "Object", placement.partition, resource.path)
        nodes = self._core.nodes(placement.ring, placement.partition)
        outcomes = self._core.ask(request, nodes, lines)
        timestamp = req.environ["HTTP_X_TIMESTAMP"]
        answers = own_write_done([o.answer for o in outcomes], timestamp, 204)
        answer = self._core.best(request, answers, nodes.primary_count, {404: 204})
        told = told_by(outcomes)
        # A delete marker is added even if the object did not exist.
        is_done = answer.status < 300 or (answer.status == 404 and VERSION_MARKER in headers)
        misses_row = is_done and len(told) < len(lines)
        if misses_row or have_known_rows(outcomes):
            row_headers = {
                "X-Timestamp": timestamp,
                "X-Backend-Storage-Policy-Index": str(placement.policy_index),
            }
            row = self._container_row(req, resource, len(lines))
            row.send_known(outcomes, row_headers)
            for method, values in rows_of_delete(row_headers, headers) if misses_row else ():
                row.send_missed(method, told, values)
        return Response(answer.status, returned_headers(answer.headers), answer.body)

    def _container(self, req: Request, resource: Resource) -> Info:
        info = container_info(self._core, req, resource.account, resource.container)
        if info["status"] >= 500:
            raise http_error(503)
        return info

    def _authorize_write(self, req: Request, info: Info) -> None:
        req.environ[SYNC_KEY] = info["sync_key"]
        owner_only = version_request(req.environ).owner_only
        authorize(req, None if owner_only else info["write_acl"])
        if not 200 <= info["status"] < 300:
            raise http_error(404)

    def _placement(self, req: Request, resource: Resource, info: Info) -> _Placement:
        index = info["storage_policy"]
        # Our own tools may name another policy than the container's. The gatekeeper removes
        # this header from requests of clients.
        asked = req.headers.get("X-Backend-Storage-Policy-Index", "")
        if asked.isdigit():
            index = int(asked)
        try:
            ring = self._core.rings.object_ring(index)
        except RingError as error:
            self._core.logger.error("event=no_ring reason=%s trans_id=%s", error, req.trans_id)
            raise http_error(503) from None
        partition, nodes = ring.get_nodes(resource.account, resource.container, resource.obj)
        return _Placement(index, ring, partition, nodes)

    def _lines(
        self,
        resource: Resource,
        placement: _Placement,
        headers: dict[str, str],
        expires: int | None,
    ) -> list[bytes]:
        """The header lines for each replica, with the updates that it has to send."""
        updates = self._updates(resource, placement, headers, expires)
        common = header_lines(headers)
        return [common + lines for lines in updates]

    def _updates(
        self,
        resource: Resource,
        placement: _Placement,
        headers: dict[str, str],
        expires: int | None,
    ) -> list[bytes]:
        """The lines about the updates that each replica has to send. Adds the headers about the
        placement, which all replicas get, to ``headers``.
        """
        rings = self._core.rings
        headers["X-Backend-Storage-Policy-Index"] = str(placement.policy_index)
        if placement.ring.next_part_power:
            headers["X-Backend-Next-Part-Power"] = str(placement.ring.next_part_power)
        expirer = None
        if expires is not None:
            headers["X-Delete-At"] = f"{expires:010d}"
            expirer = expirer_target(
                rings, expires, resource.account, resource.container, resource.obj
            )
        partition, containers = rings.container.get_nodes(resource.account, resource.container)
        return update_headers(len(placement.nodes), partition, containers, expirer)

    def _open_expired(self, req: Request, headers: dict[str, str]) -> None:
        """Allow an expired object, if the client asks for it and the operator permits that."""
        headers.pop("X-Open-Expired", None)
        if self._core.options.allow_open_expired and is_true(req.headers.get("X-Open-Expired")):
            headers["X-Backend-Open-Expired"] = "true"

    def _container_row(self, req: Request, resource: Resource, count: int) -> ContainerRow:
        rings = self._core.rings
        partition, containers = rings.container.get_nodes(resource.account, resource.container)
        spread = container_spread(count, containers)
        return ContainerRow(self._core, req.trans_id, resource.path, partition, spread)

    def _check(self, resource: Resource, headers: dict[str, str]) -> None:
        limits = self._core.constraints
        try:
            limits.check_object_name(resource.obj)
            limits.check_metadata("object", headers.items())
        except ConstraintError as error:
            raise http_error(error.status, str(error)) from None

    def _check_body_length(self, req: Request) -> None:
        if req.is_chunked:
            return
        length = req.content_length
        if length is None:
            raise http_error(411, "Missing Content-Length header.")
        if length > self._core.constraints.max_file_size:
            raise http_error(413, "The object is too large for one PUT.")


def _write_headers(req: Request) -> dict[str, str]:
    return object_headers(req) | dict(version_request(req.environ).headers)


def _content_type(req: Request, resource: Resource) -> str:
    given: str = req.environ.get("CONTENT_TYPE") or ""
    if not given or is_true(req.headers.get("X-Detect-Content-Type")):
        guessed = mimetypes.guess_type(resource.obj)[0] if _may_have_type(resource.obj) else None
        return guessed or "application/octet-stream"
    if not given.isascii():
        try:
            given.encode("latin-1").decode("utf-8")
        except UnicodeError:
            raise http_error(400, "Invalid Content-Type") from None
    return given


def _answered(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    """The response for the client to a GET or HEAD, from an object server's answer."""
    response = Response(status, returned_headers(headers), body)
    # Go's HTTP library removes the type of a 304, so our object server sends it in this header.
    content_type = headers.get("content-type") or headers.get("x-backend-content-type")
    if content_type:
        response.headers["Content-Type"] = clean_content_type(content_type)
    return response


def _may_have_type(name: str) -> bool:
    """Whether the type may be guessed from the name: it has a suffix, or looks like a URL."""
    return "." in name or ":" in name


def _found(req: Request, search: Search, source: Source, headers: dict[str, str]) -> Response:
    """The response for the client, from a device that has the object."""
    answer = source.response
    response = _answered(answer.status, answer.headers)
    response.headers["Accept-Ranges"] = "bytes"
    length = answer.headers.get("content-length", "")
    if length and answer.status != 304:
        response.headers["Content-Length"] = length
    if req.method == "HEAD" or answer.status == 304:
        answer.close()
        response.app_iter = []
    elif length.isdigit() and int(length) <= ONE_MESSAGE_BYTES_MAX:
        try:
            response.body = b"".join(ObjectBody(search, source, headers))
        except BackendError:
            raise http_error(503) from None
    else:
        response.app_iter = ObjectBody(search, source, headers)
    return response
