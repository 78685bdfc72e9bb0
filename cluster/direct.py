# SPDX-License-Identifier: Apache-2.0
"""Requests to the storage servers of a cluster, past the proxy, with a proof of its secret."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import ClusterError
from cluster.swift_dir import ClusterFiles
from martlet.conf.options import ConfigError
from martlet.grid.http_login import Logins
from martlet.http.backend_client import BackendClient, BackendError
from martlet.words.names import quote_path
from ring.devices import bracketed
from ring.ring import Node

USER_AGENT = "martlet-command"
POLICY_HEADER = "X-Backend-Storage-Policy-Index"
#: Longest listing that is read at once, bytes.
ANSWER_BYTES_MAX = 256 << 20


@dataclass(frozen=True)
class DirectAnswer:
    """An answer; headers by lower-case name. Status 0 and a reason: there was none."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    reason: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def says(self) -> str:
        """The status, or the reason why there is none."""
        return str(self.status) if self.status else self.reason

    def listing(self) -> list[dict[str, Any]]:
        """The entries of a listing; empty if it is none."""
        try:
            found = json.loads(self.body) if self.status == 200 else []
        except ValueError:
            found = []
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def node_name(node: Node) -> str:
    """A device and its server, as text."""
    return f"{bracketed(node['ip'])}:{node['port']}/{node['device']}"


def path_of(*names: str) -> str:
    """The path of an account, a container or an object."""
    return "/" + "/".join(names)


class DirectClient:
    """Any thread may use it."""

    def __init__(self, files: ClusterFiles, timeout: float) -> None:
        """:raises ClusterError: the certificates of the authorities cannot be used."""
        grid = files.conf.grid
        try:
            self._secure = grid.secure()
        except ConfigError as error:
            raise ClusterError(str(error)) from None
        self._start_login = Logins(grid.secrets, grid.plain_http)
        self._timeout = timeout
        self._threads = threading.local()

    def request(
        self,
        node: Node,
        partition: int,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> DirectAnswer:
        """Send a request for an account, a container or an object on one device."""
        address = (node["ip"], node["port"])
        target = quote_path(f"/{node['device']}/{partition}{path}") + (query and f"?{query}")
        sent = {"User-Agent": USER_AGENT, **(headers or {})}
        try:
            response = self._client().request(address, method, target, sent)
            body = response.body(ANSWER_BYTES_MAX)
        except BackendError as error:
            return DirectAnswer(0, {}, b"", error.reason)
        return DirectAnswer(response.status, response.headers, body)

    def read(
        self,
        node: Node,
        partition: int,
        path: str,
        headers: Mapping[str, str],
        is_deep: bool,
    ) -> tuple[DirectAnswer, str | None]:
        """The answer for an object; ``is_deep`` reads all of it, and returns the MD5, too."""
        if not is_deep:
            return self.request(node, partition, "HEAD", path, headers), None
        target = quote_path(f"/{node['device']}/{partition}{path}")
        digest = hashlib.md5(usedforsecurity=False)
        try:
            response = self._client().request(
                (node["ip"], node["port"]), "GET", target, {"User-Agent": USER_AGENT, **headers}
            )
            for chunk in response.iter_chunks():
                digest.update(chunk)
        except BackendError as error:
            return DirectAnswer(0, {}, b"", error.reason), None
        answer = DirectAnswer(response.status, response.headers)
        return answer, digest.hexdigest() if answer.is_success else None

    def _client(self) -> BackendClient:
        client: BackendClient | None = getattr(self._threads, "client", None)
        if client is None:
            client = BackendClient(
                self._timeout,
                self._timeout,
                start_login=self._start_login,
                secure=self._secure,
            )
            self._threads.client = client
        return client
