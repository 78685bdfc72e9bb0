# SPDX-License-Identifier: Apache-2.0
"""HTTP connections of a test to the storage servers of a running cluster, with its secret."""

from __future__ import annotations

import http.client
from pathlib import Path

from martlet.conf.cluster import ClusterConf
from martlet.grid.http_login import Logins


class StorageConnection(http.client.HTTPConnection):
    """A connection that proves itself when it is opened, as those of the cluster's servers do.

    :param home: the home of the cluster.
    """

    def __init__(self, home: Path, host: str, port: int, timeout: float = 60) -> None:
        super().__init__(host, port, timeout=timeout)
        grid = ClusterConf.load(home / "etc").grid
        self._logins = Logins(grid.secrets, grid.plain_http)

    def connect(self) -> None:
        super().connect()
        login = self._logins((self.host, self.port), self.sock.getpeername()[0])
        request = login.start() if login else b""
        while login and request:
            self.sock.sendall(request)
            answer = http.client.HTTPResponse(self.sock, method="GET")
            answer.begin()
            answer.read()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            request = login.answer(answer.status, headers)
