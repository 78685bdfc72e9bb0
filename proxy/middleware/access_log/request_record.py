# SPDX-License-Identifier: Apache-2.0
"""The facts about one request that its access line shows."""

from __future__ import annotations

import time

from martlet.http.environ import Environ, HeaderList
from martlet.http.headers import find_header
from proxy.middleware.access_log.counting_input import CountingInput


class RequestRecord:
    """One request in progress.

    Method and path are taken at the start. Other filters may rewrite them, but the line shows the
    request of the client.
    """

    __slots__ = (
        "_input",
        "bytes_sent",
        "environ",
        "method",
        "path",
        "policy_index",
        "query",
        "started",
        "status",
        "ttfb",
    )

    def __init__(self, environ: Environ) -> None:
        self.started = time.time()
        self.environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ["PATH_INFO"]
        self.query: str = environ.get("QUERY_STRING") or ""
        self.policy_index: str | None = None
        #: Seconds until the response headers were there.
        self.ttfb = 0.0
        self.bytes_sent = 0
        self.status = 0
        self._input: CountingInput | None = None
        if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            self._input = environ["wsgi.input"] = CountingInput(environ["wsgi.input"])

    def answered(self, status: str, headers: HeaderList) -> None:
        """Take the status and the facts in the response headers."""
        self.ttfb = time.time() - self.started
        self.status = int(status[:3])
        self.policy_index = find_header(headers, "x-backend-storage-policy-index")

    @property
    def bytes_received(self) -> int:
        """Bytes of the request body that were read."""
        return 0 if self._input is None else self._input.bytes_received

    @property
    def is_client_gone(self) -> bool:
        """Whether the client closed the connection before its request was complete."""
        return self._input is not None and self._input.client_disconnect
