# SPDX-License-Identifier: Apache-2.0
"""Requests about an account."""

from __future__ import annotations

from collections.abc import Mapping

from martlet.conf.constraints import ConstraintError
from martlet.http.environ import OWNER, HeaderList
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.resource import Resource, Route
from proxy.headers import base_headers, database_headers, returned_headers
from proxy.listing import json_query
from proxy.lookup.info import account_info, account_key, forget_info, look_up, restore_header
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.wire_headers import WireHeaders

# The account ACL: the name under which it is stored, and the name that its owner uses.
_STORED_ACL = "x-account-sysmeta-core-access-control"
_SHOWN_ACL = "x-account-access-control"


class AccountController:
    """GET, HEAD, POST; PUT and DELETE with ``allow_account_management``."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.routes = {
            "GET": Route(self.get),
            "HEAD": Route(self.get),
            "POST": Route(self.post),
        }
        if core.options.allow_account_management:
            self.routes |= {"PUT": Route(self.put), "DELETE": Route(self.delete)}

    def get(self, req: Request, resource: Resource) -> Response:
        """200 with the listing, 204 for HEAD, 200 for an account that is created on demand; 400,
        404, 410 (marked as deleted), 412, 503.
        """
        core = self._core
        self._check_name(resource)
        query = json_query(req, core.constraints.account_listing_limit)
        nodes = core.nodes(core.rings.account, resource.account, is_read=True)
        request = core.request(req, "Account", nodes.partition, resource.path + query)
        search = Search(core, request, nodes)
        found = search.find_whole(WireHeaders(database_headers(req, "account")))
        answer = search.failure() if found is None else found
        if answer.status == 404:
            if answer.headers.get("x-account-status", "").lower() == "deleted":
                return Response(410, self._visible(req, answer.headers), answer.body)
            if core.options.account_autocreate:
                return _empty_listing(req)
        response = Response(answer.status, self._visible(req, answer.headers), answer.body)
        if response.is_success:
            response.headers["Accept-Ranges"] = "bytes"
        return response

    def put(self, req: Request, resource: Resource) -> Response:
        """201 for a new account, 202 for an existing one; 400, 503."""
        return self._change(req, resource)

    def post(self, req: Request, resource: Resource) -> Response:
        """204; 400, 404, 503. Creates the account with ``account_autocreate``."""
        response = self._change(req, resource)
        if response.status == 404 and self._core.options.account_autocreate:
            create_account(self._core, req, resource.account)
            response = self._change(req, resource)
        return response

    def delete(self, req: Request, resource: Resource) -> Response:
        """204; 400, 404, 503. The content of the account is reaped later."""
        if req.environ.get("QUERY_STRING"):
            raise http_error(400, "DELETE of an account takes no parameters.")
        return self._send_to_all(req, resource)

    def _change(self, req: Request, resource: Resource) -> Response:
        self._check_name(resource)
        try:
            self._core.constraints.check_metadata("account", req.headers.items())
        except ConstraintError as error:
            raise http_error(error.status, str(error)) from None
        return self._send_to_all(req, resource)

    def _send_to_all(self, req: Request, resource: Resource) -> Response:
        core = self._core
        nodes = core.nodes(core.rings.account, resource.account)
        request = core.request(req, "Account", nodes.partition, resource.path)
        # A PUT of an account that is not in the cache counts as that of a new account.
        is_put = req.method == "PUT"
        known = (
            look_up(req.environ, account_key(resource.account))[0]
            if is_put
            else account_info(core, req, resource.account)
        )
        headers = WireHeaders(database_headers(req, "account") | restore_header(known))
        try:
            answer = core.ask_for_one(request, nodes, [headers] * nodes.primary_count)
        finally:
            forget_info(req.environ, resource.account)
        return Response(answer.status, self._visible(req, answer.headers), answer.body)

    def _check_name(self, resource: Resource) -> None:
        try:
            self._core.constraints.check_account_name(resource.account)
        except ConstraintError as error:
            raise http_error(error.status, str(error)) from None

    def _visible(self, req: Request, headers: Mapping[str, str]) -> HeaderList:
        if not req.environ.get(OWNER):
            return returned_headers(headers, {*self._core.options.swift_owner_headers, _STORED_ACL})
        visible = returned_headers(headers, {_STORED_ACL})
        acl = headers.get(_STORED_ACL, "")
        if acl not in ("", "{}"):
            visible.append((_SHOWN_ACL.title(), acl))
        return visible


def create_account(core: Core, req: Request, account: str) -> bool:
    """Create an account for a write that needs it. A failure is logged and returns False."""
    nodes = core.nodes(core.rings.account, account)
    request = core.request(req, "Account", nodes.partition, Resource(account).path, method="PUT")
    headers = base_headers(req)
    headers["X-Timestamp"] = Timestamp.now().internal
    for name, value in req.headers.items():
        if name.startswith("X-Account-Sysmeta-"):
            headers[name] = value
    sent = [WireHeaders(headers)] * nodes.primary_count
    try:
        answer = core.ask_for_one(request, nodes, sent)
    finally:
        forget_info(req.environ, account)
    if 200 <= answer.status < 300:
        core.logger.info("event=account_created path=%s trans_id=%s", request.path, req.trans_id)
        return True
    core.logger.warning(
        "event=account_not_created path=%s status=%d trans_id=%s",
        request.path,
        answer.status,
        req.trans_id,
    )
    return False


def _empty_listing(req: Request) -> Response:
    """The listing of an account that does not exist yet, as if it existed and were empty.

    A header X-Backend-… marks it as not existing. It is for filters; clients do not get it.
    """
    now = Timestamp.now().normal
    headers = {
        "X-Account-Container-Count": "0",
        "X-Account-Object-Count": "0",
        "X-Account-Bytes-Used": "0",
        "X-Timestamp": now,
        "X-Put-Timestamp": now,
        "X-Backend-Fake-Account-Listing": "yes",
        "Content-Type": "application/json; charset=utf-8",
    }
    return Response(200, headers, b"" if req.method == "HEAD" else b"[]")
