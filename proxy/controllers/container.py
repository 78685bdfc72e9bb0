# SPDX-License-Identifier: Apache-2.0
"""Requests about a container."""

from __future__ import annotations

import json
from collections.abc import Sequence

from martlet.conf.constraints import ConstraintError
from martlet.http.environ import CLEAN_ACL, OWNER
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from proxy.controllers.account import create_account
from proxy.controllers.resource import Resource, Route, authorize
from proxy.controllers.sharded_listing import RECORD_TYPE, Query, ShardedListing, is_sharded
from proxy.headers import database_headers, returned_headers
from proxy.listing import json_query
from proxy.lookup.info import (
    account_info,
    container_info,
    container_key,
    forget_info,
    look_up,
    restore_header,
)
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders
from ring.ring import Node

#: Whether the shards of a container that is to be deleted are empty: unknown or true.
SHARDS_EMPTY = "X-Backend-Shards-Empty"
_PASSED = frozenset(
    [
        "x-container-read",
        "x-container-write",
        "x-container-sync-key",
        "x-container-sync-to",
        "x-versions-location",
    ]
)
_REMOVABLE = frozenset(name.replace("x-", "x-remove-", 1) for name in _PASSED)
_ACL_HEADERS = ("X-Container-Read", "X-Container-Write")


class ContainerController:
    """GET, HEAD, PUT, POST and DELETE of a container."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.routes = {
            "GET": Route(self.get, delays_denial=True, cors=True),
            "HEAD": Route(self.head, delays_denial=True, cors=True),
            "PUT": Route(self.put, cors=True),
            "POST": Route(self.post, cors=True),
            "DELETE": Route(self.delete, cors=True),
        }

    def get(self, req: Request, resource: Resource) -> Response:
        """200 with the listing; 400, 404, 412, 503."""
        query = json_query(req, self._core.constraints.container_listing_limit)
        return self._read(req, resource, query)

    def head(self, req: Request, resource: Resource) -> Response:
        """204; 404, 503."""
        return self._read(req, resource, "")

    def put(self, req: Request, resource: Resource) -> Response:
        """201 for a new container, 202 for an existing one; 400, 403, 404, 409, 503."""
        core = self._core
        self._check_change(req)
        policy_headers = self._policy_headers(req)
        self._check_name(resource)
        self._drop_owner_headers(req)
        account_exists, container_count = self._find_account(req, resource)
        if not account_exists and core.options.account_autocreate:
            if not create_account(core, req, resource.account):
                raise http_error(503)
            account_exists, container_count = self._find_account(req, resource)
        if not account_exists:
            raise http_error(404)
        self._check_container_count(req, resource, container_count)
        return self._send_to_all(req, resource, policy_headers, tells_account=True)

    def post(self, req: Request, resource: Resource) -> Response:
        """204; 400, 404, 503."""
        self._check_change(req)
        self._drop_owner_headers(req)
        if not self._find_account(req, resource)[0]:
            raise http_error(404)
        return self._send_to_all(req, resource, {}, tells_account=False)

    def delete(self, req: Request, resource: Resource) -> Response:
        """204; 404, 409 (not empty), 503."""
        if not self._find_account(req, resource)[0]:
            raise http_error(404)
        headers = {**self._default_policy(), SHARDS_EMPTY: "unknown"}
        response = self._send_to_all(req, resource, headers, tells_account=True)
        state = response.headers.get("X-Backend-Sharding-State", "unsharded")
        if response.status == 409 and state != "unsharded" and self._is_empty(req, resource):
            headers[SHARDS_EMPTY] = "true"
            response = self._send_to_all(req, resource, headers, tells_account=True)
        if response.status == 202:  # no server had it
            raise http_error(404)
        return response

    def _is_empty(self, req: Request, resource: Resource) -> bool:
        """Whether a sharded container has no object and no version.

        :raises HTTPException: (503) a shard does not answer.
        """
        info = container_info(self._core, req, resource.account, resource.container)
        query = Query.of({"limit": "1", "versions": "true"}, 1)
        listing = ShardedListing(self._core, req, query, str(info["storage_policy"]))
        return not listing.read(resource.account, resource.container)

    def _read(self, req: Request, resource: Resource, query: str) -> Response:
        core = self._core
        if not resource.account.startswith(core.constraints.auto_create_account_prefix):
            status = account_info(core, req, resource.account)["status"]
            if status >= 500:
                raise http_error(503)
            if not 200 <= status < 300:
                authorize(req, None)
                raise http_error(404)
        nodes = core.nodes(core.rings.container, resource.account, resource.container, is_read=True)
        request = core.request(req, "Container", nodes.partition, resource.path + query)
        search = Search(core, request, nodes)
        asks_for_auto = req.method == "GET" and RECORD_TYPE not in req.headers
        headers = database_headers(req, "container")
        if asks_for_auto:
            headers[RECORD_TYPE] = "auto"
        found = search.find_whole(WireHeaders(headers))
        answer = search.failure() if found is None else found
        authorize(req, answer.headers.get("x-container-read"))
        if asks_for_auto and is_sharded(answer):
            answer = self._list_shards(req, resource, answer)
        hidden: Sequence[str] = ()
        if not req.environ.get(OWNER):
            hidden = core.options.swift_owner_headers
        response = Response(answer.status, returned_headers(answer.headers, hidden), answer.body)
        if response.is_success:
            response.headers["Accept-Ranges"] = "bytes"
        self._name_policy(response)
        return response

    def _list_shards(self, req: Request, resource: Resource, answer: Answer) -> Answer:
        """The answer of a sharded container, with the listing from its shards."""
        query = Query.of(req.params, self._core.constraints.container_listing_limit)
        policy = answer.headers.get("x-backend-storage-policy-index", "0")
        listing = ShardedListing(self._core, req, query, policy)
        entries = listing.read(resource.account, resource.container, answer)
        headers = {**answer.headers, RECORD_TYPE.lower(): "object"}
        return Answer(200, headers, json.dumps(entries).encode("ascii"))

    def _name_policy(self, response: Response) -> None:
        index = response.headers.get("X-Backend-Storage-Policy-Index", "")
        if response.is_success and index.isdigit():
            policy = self._core.cluster.policy_by_index(int(index))
            if policy is not None:
                response.headers["X-Storage-Policy"] = policy.name

    def _check_change(self, req: Request) -> None:
        clean_acl = req.environ.get(CLEAN_ACL)
        try:
            if clean_acl is not None:
                for name in _ACL_HEADERS:
                    if name in req.headers:
                        req.headers[name] = clean_acl(name.lower(), req.headers[name])
            self._core.constraints.check_metadata("container", req.headers.items())
        except ConstraintError as error:
            raise http_error(error.status, str(error)) from None
        except ValueError as error:
            raise http_error(400, str(error)) from None

    def _policy_headers(self, req: Request) -> dict[str, str]:
        name = req.headers.get("X-Storage-Policy")
        if not name:
            return self._default_policy()
        policy = self._core.cluster.policy_by_name(name)
        if policy is None:
            raise http_error(400, f"Invalid X-Storage-Policy '{name}'")
        if policy.is_deprecated:
            raise http_error(400, f"Storage Policy '{policy.name}' is deprecated")
        return {"X-Backend-Storage-Policy-Index": str(policy.index)}

    def _default_policy(self) -> dict[str, str]:
        return {"X-Backend-Storage-Policy-Default": str(self._core.cluster.default_policy.index)}

    def _check_name(self, resource: Resource) -> None:
        try:
            self._core.constraints.check_container_name(resource.container)
        except ConstraintError as error:
            raise http_error(error.status, str(error)) from None

    def _drop_owner_headers(self, req: Request) -> None:
        if not req.environ.get(OWNER):
            for name in self._core.options.swift_owner_headers:
                for given in (name, name.lower().replace("x-", "x-remove-", 1)):
                    if given in req.headers:
                        del req.headers[given]

    def _find_account(self, req: Request, resource: Resource) -> tuple[bool, int]:
        info = account_info(self._core, req, resource.account)
        if info["status"] >= 500:
            raise http_error(503)
        return info["account_really_exists"], info["container_count"]

    def _check_container_count(self, req: Request, resource: Resource, count: int) -> None:
        options = self._core.options
        if not 0 < options.max_containers_per_account <= count:
            return
        if resource.account in options.max_containers_whitelist:
            return
        info = container_info(self._core, req, resource.account, resource.container)
        if not 200 <= info["status"] < 300:
            raise http_error(
                403, f"Reached container limit of {options.max_containers_per_account}"
            )

    def _send_to_all(
        self, req: Request, resource: Resource, extra: dict[str, str], tells_account: bool
    ) -> Response:
        core = self._core
        nodes = core.nodes(core.rings.container, resource.account, resource.container)
        request = core.request(req, "Container", nodes.partition, resource.path)
        # A PUT of a container that is not in the cache counts as that of a new container.
        known = (
            look_up(req.environ, container_key(resource.account, resource.container))[0]
            if req.method == "PUT"
            else container_info(core, req, resource.account, resource.container)
        )
        sent = database_headers(req, "container", _PASSED, _REMOVABLE)
        common = WireHeaders(sent | extra | restore_header(known))
        headers = [common] * nodes.primary_count
        if tells_account:
            account_partition, accounts = core.rings.account.get_nodes(resource.account)
            updates = _account_updates(account_partition, accounts, nodes.primary_count)
            headers = [WireHeaders(update, common) for update in updates]
        try:
            answer = core.ask_for_one(request, nodes, headers)
        finally:
            forget_info(req.environ, resource.account, resource.container)
        return Response(answer.status, returned_headers(answer.headers), answer.body)


def _account_updates(
    partition: int, accounts: Sequence[Node], container_replicas: int
) -> list[dict[str, str]]:
    """The account servers that each container server updates: each account replica has one."""
    updates: list[dict[str, str]] = []
    for index in range(container_replicas):
        told = accounts[index::container_replicas]
        if not told:
            updates.append({})
            continue
        updates.append(
            {
                "X-Account-Partition": str(partition),
                "X-Account-Host": ",".join(f"{n['ip']}:{n['port']}" for n in told),
                "X-Account-Device": ",".join(n["device"] for n in told),
            }
        )
    return updates
