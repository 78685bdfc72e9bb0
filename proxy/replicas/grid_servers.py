# SPDX-License-Identifier: Apache-2.0
"""The servers that speak the grid, and those that HTTP has to carry requests to.

A server of OpenStack Swift has no grid. An older server may not know a name. Such a server is asked
by HTTP, and asked for the grid again after PLAIN_SECONDS. HTTP also carries a single request whose
payload or answer does not fit into the grid, or for which a connection has no room now.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from martlet.grid.client import GridClient
from martlet.grid.errors import Code, GridRefusedError, RequestError
from martlet.grid.plain_http import PlainHttp
from martlet.http.backend_client import Address, BackendError
from ring.ring import Node

#: How long a server without a grid, or without a name, is asked by HTTP, seconds.
PLAIN_SECONDS = 60.0

_NOT_FOR_GRID = (Code.UNKNOWN_NAME, Code.TOO_LARGE, Code.BAD_PAYLOAD)


class Grid:
    """The grid of one proxy process.

    :param plain_http: the IP addresses of servers that are never asked for a grid.
    """

    def __init__(
        self,
        client: GridClient,
        plain_http: PlainHttp | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self._plain_http = plain_http or PlainHttp()
        self._clock = clock
        #: Until when a server, or one name of it, is asked by HTTP. Empty in a cluster of ours.
        self._plain_until: dict[tuple[Address, str], float] = {}

    def serves(self, node: Node, name: str) -> bool:
        """Whether to send a request of that name to the device over the grid; "" is no name."""
        if not name or node["ip"] in self._plain_http:
            return False
        if not self._plain_until:
            return True
        address = node["ip"], node["port"]
        return not (self._is_plain((address, "")) or self._is_plain((address, name)))

    def note(self, address: Address, name: str, error: BackendError) -> bool:
        """Whether the error says that HTTP has to carry the request.

        `may_have_run` says whether that would be the second time.
        """
        if isinstance(error, GridRefusedError) and error.has_no_grid:
            self._plain_until[address, ""] = self._clock() + PLAIN_SECONDS
            return True
        if not isinstance(error, RequestError) or error.code not in _NOT_FOR_GRID:
            return False
        if error.code == Code.UNKNOWN_NAME:
            self._plain_until[address, name] = self._clock() + PLAIN_SECONDS
        return True

    def _is_plain(self, key: tuple[Address, str]) -> bool:
        until = self._plain_until.get(key)
        if until is None:
            return False
        if self._clock() < until:
            return True
        self._plain_until.pop(key, None)
        return False
