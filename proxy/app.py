# SPDX-License-Identifier: Apache-2.0
"""The WSGI application at the end of the proxy's pipeline: it finds the controller of a request."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from martlet.conf.cluster import ClusterConf
from martlet.conf.options import ConfigError, load_options, warn_once
from martlet.conf.swift_options import PROXY_DEFAULTS, RANDOM
from martlet.http.environ import (
    ACCOUNT_INFO,
    AUTHORIZE,
    CONTAINER_INFO,
    LOOK_UP,
    ORIGINAL_METHOD,
    TRANS_ID,
    Environ,
    StartResponse,
    WSGIApp,
)
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response, error_response, http_error
from martlet.http.trans_id import new_trans_id
from martlet.log import get_logger
from martlet.words.names import BadNameError, check_text, split_path
from martlet.words.timestamp import Timestamp
from proxy.config import ProxyOptions
from proxy.controllers.account import AccountController
from proxy.controllers.container import ContainerController
from proxy.controllers.cors import expose, preflight
from proxy.controllers.info_page import info_page
from proxy.controllers.object import ObjectController
from proxy.controllers.resource import Denied, Resource, Route
from proxy.info_registry import register_info
from proxy.lookup.info import account_info, container_info
from proxy.lookup.known import Known
from proxy.replicas import body_sums
from proxy.replicas.core import Core
from ring.errors import RingError
from ring.ring import RingSet, load_rings

_INFO_METHODS = ("GET", "HEAD", "OPTIONS")


class Application:
    """Serves ``/v1/account[/container[/object]]`` and ``/info``."""

    def __init__(
        self, options: ProxyOptions, cluster: ClusterConf, rings: RingSet, logger: logging.Logger
    ) -> None:
        self.core = Core(options, cluster, rings, logger)
        self._account_info = functools.partial(account_info, self.core)
        self._container_info = functools.partial(container_info, self.core)
        self._account_routes = AccountController(self.core).routes
        self._container_routes = ContainerController(self.core).routes
        self._object_routes = ObjectController(self.core).routes
        _publish(options, cluster)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        req = Request(environ)
        response: WSGIApp
        try:
            response = self._respond(req)
        except HTTPException as error:
            response = error.response
        except Denied as denial:
            response = denial.response
        except BadNameError:
            response = error_response(412, "Invalid UTF8 or contains NULL")
        except Exception:
            self.core.logger.exception("event=unhandled_error trans_id=%s", req.trans_id)
            response = error_response(500)
        if isinstance(response, Response):
            _name_type(response)
        return response(environ, start_response)

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The figures of this process for GET /metrics."""
        avoided = self.core.backends.health.suppressed()
        found: dict[tuple[str, ...], float] = {
            ("martlet_suppressed_devices", device): 1.0 for device in avoided
        }
        found["martlet_hints_waiting",] = self.core.hints.waiting
        return found

    def _respond(self, req: Request) -> WSGIApp:
        self._prepare(req)
        path = check_text(req.path)
        if path == "/info":
            return self._info(req)
        resource = self._resource(path)
        look_up = req.environ.get(LOOK_UP)
        if look_up is not None:
            look_up(Known(self.core, req, resource.account, resource.container))
            return Response(204)
        self._check_host(req)
        routes = self._routes_for(resource)
        route = routes.get(req.method)
        if req.method == "OPTIONS":
            return self._options(req, resource, routes)
        if route is None:
            raise http_error(405, headers={"Allow": _allowed(routes)})
        restore = self._authorize_early(req, route)
        try:
            response = self._handle(req, resource, route)
        finally:
            if restore is not None:
                req.environ[AUTHORIZE] = restore
        return response

    def _handle(self, req: Request, resource: Resource, route: Route) -> WSGIApp:
        origin = req.environ.get("HTTP_ORIGIN") if route.cors else None
        if not origin:
            return route.handler(req, resource)
        info = container_info(self.core, req, resource.account, resource.container)
        response: WSGIApp
        try:
            response = route.handler(req, resource)
        except HTTPException as error:
            response = error.response
        except Denied as denial:
            response = denial.response
        if isinstance(response, Response):
            expose(response, origin, info, self.core.options)
        return response

    def _prepare(self, req: Request) -> None:
        environ = req.environ
        if "HTTP_X_TIMESTAMP" in environ:
            environ["HTTP_X_TIMESTAMP"] = req.timestamp.internal
        else:
            environ["HTTP_X_TIMESTAMP"] = Timestamp.now().internal
        if "HTTP_X_STORAGE_TOKEN" in environ:
            environ.setdefault("HTTP_X_AUTH_TOKEN", environ["HTTP_X_STORAGE_TOKEN"])
        if TRANS_ID not in environ:
            environ[TRANS_ID] = new_trans_id()
        environ.setdefault(ORIGINAL_METHOD, req.method)
        # Auth reads account ACLs and bucket policies there.
        environ[ACCOUNT_INFO] = self._account_info
        environ[CONTAINER_INFO] = self._container_info

    def _resource(self, path: str) -> Resource:
        try:
            version, account, container, obj = split_path(path, 1, 4, True)
        except ValueError:
            raise http_error(404) from None
        if account is None:
            raise http_error(412, "Bad URL")
        if version not in self.core.constraints.valid_api_versions:
            raise http_error(400, "Unknown API version")
        return Resource(account, container or "", obj or "")

    def _check_host(self, req: Request) -> None:
        denied = self.core.options.deny_host_headers
        if denied and req.environ.get("HTTP_HOST", "").partition(":")[0] in denied:
            raise http_error(403, "Invalid host header")

    def _routes_for(self, resource: Resource) -> dict[str, Route]:
        if resource.obj:
            return self._object_routes
        return self._container_routes if resource.container else self._account_routes

    def _authorize_early(self, req: Request, route: Route) -> Any:
        """Call the auth system's check before anything else. If it allows the request, remove it
        from the environ, so that it runs once, and return it for the caller to restore.

        :raises Denied: the check refuses, and the handler cannot add an ACL that changes this.
        """
        check = req.environ.get(AUTHORIZE)
        if check is None:
            return None
        denial = check(req)
        if denial is None:
            del req.environ[AUTHORIZE]
            return check
        if not route.delays_denial:
            raise Denied(denial)
        return None

    def _options(self, req: Request, resource: Resource, routes: dict[str, Route]) -> Response:
        info = None
        if resource.container and "HTTP_ORIGIN" in req.environ:
            info = container_info(self.core, req, resource.account, resource.container)
        return preflight(req, [*routes, "OPTIONS"], info, self.core.options)

    def _info(self, req: Request) -> Response:
        if req.method not in _INFO_METHODS:
            raise http_error(405, headers={"Allow": ", ".join(_INFO_METHODS)})
        if req.method == "OPTIONS":
            return Response(200, {"Allow": ", ".join(_INFO_METHODS)})
        return info_page(req, self.core.options)


def _allowed(routes: dict[str, Route]) -> str:
    return ", ".join(sorted([*routes, "OPTIONS"]))


def _name_type(response: Response) -> None:
    """Set a type also without a body, as Swift does. Not with 304: caches would store the type."""
    if "content-type" not in response.headers and response.status != 304:
        response.headers["Content-Type"] = "text/html; charset=UTF-8"


def _publish(options: ProxyOptions, cluster: ClusterConf) -> None:
    """Add the section ``swift`` to /info."""
    policies = [
        {"name": p.name, "aliases": ", ".join(p.names)}
        | ({"default": True} if p.is_default else {})
        for p in cluster.policies
        if not p.is_deprecated
    ]
    values: dict[str, Any] = {
        **cluster.constraints.as_info(),
        "policies": policies,
        "strict_cors_mode": options.strict_cors_mode,
        "allow_account_management": options.allow_account_management,
        "account_autocreate": options.account_autocreate,
        "allow_open_expired": options.allow_open_expired,
    }
    register_info("swift", **values)


def app_factory(global_conf: Mapping[str, str], **local_conf: str) -> WSGIApp:
    """PasteDeploy's factory of ``egg:martlet#proxy``.

    :raises ConfigError: an option is wrong, or a ring cannot be read.
    """
    where = f"{global_conf.get('__file__', '')} [app:proxy-server]".strip()
    shared = {name: global_conf[name] for name in PROXY_DEFAULTS if name in global_conf}
    options = load_options(ProxyOptions, {**shared, **local_conf}, where)
    if options.sorting_method != "shuffle":
        warn_once(f"{where}: sorting_method {options.sorting_method} has no effect here: {RANDOM}")
    if body_sums.is_slow():
        warn_once(body_sums.SLOW)
    swift_dir = global_conf.get("swift_dir", "/etc/martlet")
    logger = get_logger("martlet.proxy")
    cluster = ClusterConf.load(swift_dir)
    policies = [policy.index for policy in cluster.policies]
    try:
        rings = load_rings(swift_dir, policies=policies, logger=logger)
    except RingError as error:
        raise ConfigError(str(error)) from None
    return Application(options, cluster, rings, logger)
