# SPDX-License-Identifier: Apache-2.0
"""Locations of data: ``GET /endpoints/[v1/|v2/]account[/container[/object]]``.

The filter serves software that runs beside the data, such as Hadoop. v1 is the default and answers
with a JSON list of URLs at the storage servers. v2 answers with
``{"endpoints": [...], "headers": {...}}``; requests to the endpoints need these headers. There is
no authentication: keep a proxy with this filter inside the cluster. Place it right of cache.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.cluster import ClusterConf
from martlet.conf.grid import GridConf
from martlet.conf.options import ConfigError, option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import HTTPException, Response, http_error
from martlet.words.names import BadNameError, quote_path, wsgi_to_str
from proxy.middleware.subrequest import get_container_info
from ring.errors import RingError
from ring.ring import Node, RingSet, load_rings

_VERSIONS = {"v1": 1, "v1.0": 1, "v2": 2, "v2.0": 2}
_POLICY_HEADER = "X-Backend-Storage-Policy-Index"


@dataclass(frozen=True)
class ListEndpointsOptions:
    """``[filter:list-endpoints]``."""

    list_endpoints_path: str = option("/endpoints/", "Path prefix of the requests")

    def __post_init__(self) -> None:
        if not self.list_endpoints_path.strip("/"):
            raise ValueError("list_endpoints_path may not be empty")


class ListEndpoints:
    """The filter."""

    def __init__(
        self, app: WSGIApp, options: ListEndpointsOptions, rings: RingSet, grid: GridConf
    ) -> None:
        self._app = app
        self._rings = rings
        self._grid = grid
        self._path = f"/{options.list_endpoints_path.strip('/')}/"

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 200 with JSON; 400 bad path; 404 no such storage policy; 405 not a GET."""
        if not environ["PATH_INFO"].startswith(self._path):
            return self._app(environ, start_response)
        try:
            response = self._answer(environ)
        except HTTPException as error:
            response = error.response
        return response(environ, start_response)

    def _answer(self, environ: Environ) -> Response:
        if environ["REQUEST_METHOD"] != "GET":
            raise http_error(405, headers={"Allow": "GET"})
        version, names = self._parse(environ["PATH_INFO"])
        headers: dict[str, str] = {}
        ring = self._rings.account if len(names) == 1 else self._rings.container
        if len(names) == 3:
            info = get_container_info(environ, self._app, names[0], names[1], "LE")
            policy = int(info.get("storage_policy") or 0)
            headers[_POLICY_HEADER] = str(policy)
            try:
                ring = self._rings.object_ring(policy)
            except RingError as error:
                raise http_error(404, str(error)) from None
        partition, nodes = ring.get_nodes(*names)
        urls = [self._url(node, partition, names) for node in nodes]
        shown = urls if version == 1 else {"endpoints": urls, "headers": headers}
        return Response(200, {"Content-Type": "application/json"}, json.dumps(shown))

    def _parse(self, path: str) -> tuple[int, list[str]]:
        """Return the requested version, and one to three names."""
        try:
            rest = wsgi_to_str(path.removeprefix(self._path))
        except BadNameError as error:
            raise http_error(400, str(error)) from None
        first, _, behind = rest.partition("/")
        version = 1
        # An account may not have the name of a version.
        if first in _VERSIONS:
            version, rest = _VERSIONS[first], behind
        elif first.startswith("v") and first[1:].replace(".", "", 1).isdecimal():
            raise http_error(400, f"Unsupported version {first!r}")
        names = rest.split("/", 2)
        if not names[-1] and len(names) > 1:
            names.pop()
        if not all(names):
            raise http_error(400, "No account specified")
        return version, names

    def _url(self, node: Node, partition: int, names: list[str]) -> str:
        scheme = "https" if self._grid.speaks_tls(node["ip"]) else "http"
        host = f"[{node['ip']}]" if ":" in node["ip"] else node["ip"]
        path = quote_path("/".join(["", node["device"], str(partition), *names]))
        return f"{scheme}://{host}:{node['port']}{path}"


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], ListEndpoints]:
    """PasteDeploy's entry point.

    :raises ConfigError: a ring cannot be read.
    """
    options = load_filter_options(ListEndpointsOptions, "list-endpoints", global_conf, local_conf)
    swift_dir = global_conf.get("swift_dir", "/etc/martlet")
    cluster = ClusterConf.load(swift_dir)
    policies = [policy.index for policy in cluster.policies]
    try:
        rings = load_rings(swift_dir, policies=policies)
    except RingError as error:
        raise ConfigError(str(error)) from None
    return lambda app: ListEndpoints(app, options, rings, cluster.grid)
