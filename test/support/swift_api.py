"""Plain requests of the Swift API for tests, and raw requests that no client would send."""

from __future__ import annotations

import copy
import http.client
import io
import json
import select
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from running_cluster import await_true

from cluster.ports import HOST

TIMEOUT_SECONDS = 60.0
Body = bytes | Iterable[bytes] | None


@dataclass(frozen=True)
class Answer:
    """A whole response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[str]:
        return self.body.decode().splitlines()


class Account:
    """One user's view of one account, over one kept-alive connection. Not for several threads."""

    def __init__(
        self, port: int, user: str = "test:tester", key: str = "testing", host: str = HOST
    ) -> None:
        self.host, self.port = host, port
        self._connection: http.client.HTTPConnection | None = None
        self.token, self.path = "", ""
        answer = self.send("GET", "/auth/v1.0", {"X-Auth-User": user, "X-Auth-Key": key})
        assert answer.status == 200, answer
        self.token = answer.headers["x-auth-token"]
        self.path = urlsplit(answer.headers["x-storage-url"]).path

    @classmethod
    def with_token(cls, port: int, token: str, path: str, host: str = HOST) -> Account:
        """Return a view of the account at ``path`` with a token from another source."""
        account = cls.__new__(cls)
        account.host, account.port, account.token, account.path = host, port, token, path
        account._connection = None
        return account

    def again(self) -> Account:
        """Return the same view over its own connection, for another thread."""
        account = copy.copy(self)
        account._connection = None
        return account

    def send(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: Body = None
    ) -> Answer:
        """Send any request with an unchanged path. The connection is closed after an error.

        :raises OSError: no answer came; http.client.HTTPException: the answer is not HTTP.
        """
        if self._connection is not None and _is_closed(self._connection.sock):
            self.close()  # the server keeps an idle connection for a minute
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                self.host, self.port, timeout=TIMEOUT_SECONDS
            )
        login = {"X-Auth-Token": self.token} if self.token else {}
        try:
            self._connection.request(method, path, body=body, headers={**login, **(headers or {})})
            response = self._connection.getresponse()
            answer = Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if response.will_close:
            self.close()
        return answer

    def call(
        self,
        method: str,
        *names: str,
        headers: dict[str, str] | None = None,
        body: Body = None,
        **query: str | int,
    ) -> Answer:
        """Send a request for the account, a container, or an object, by their names."""
        return self.send(method, self.url(*names, **query), headers, body)

    def await_names(self, listed: list[str], *names: str) -> None:
        """Wait until an account or container lists these: a busy server delays rows of writes."""
        await_true(lambda: self.call("GET", *names).lines == listed, f"{listed} in {names}")

    def url(self, *names: str, **query: str | int) -> str:
        """Return the path of a container or object with the query."""
        path = "/".join((self.path, *(quote(name) for name in names)))
        return f"{path}?{urlencode(query)}" if query else path

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_closed(idle: socket.socket | None) -> bool:
    """Whether the other side has closed it: otherwise an idle connection is not readable."""
    return idle is not None and select.select([idle], [], [], 0)[0] != []


class _Reader(io.BufferedReader):
    """Replaces the socket for HTTPResponse, and stays open between answers."""

    def makefile(self, _mode: str) -> _Reader:
        return self

    def close(self) -> None:
        """Do nothing: a response closes the reader at its end, but the connection stays open."""


class RawConnection:
    """A socket to the proxy for bytes that are not valid HTTP."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=TIMEOUT_SECONDS)
        # One reader for all answers: its buffer may already have bytes of the next.
        self._reader = _Reader(self.socket.makefile("rb", buffering=0))

    def send(self, data: bytes) -> None:
        """Send all bytes; ignore a closed connection, because the answer may already be there."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def answer(self, method: str = "GET") -> Answer:
        """Read one response.

        :raises http.client.HTTPException: there is no response.
        """
        response = http.client.HTTPResponse(self._reader, method=method)  # type: ignore[arg-type]
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def interim_status(self) -> int:
        """Read an interim response such as 100 Continue, and no byte after it."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self._reader.read(1)
            assert byte, f"connection closed after {head!r}"
            head += byte
        return int(head.split()[1])

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
