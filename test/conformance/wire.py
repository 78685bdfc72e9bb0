"""Requests on the wire, including unusual ones."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from answers import Answer, normal

from cluster.confs import TRIAL_USERS

_TIMEOUT_SECONDS = 60
_KEYS = {name: value.split()[0] for name, value in TRIAL_USERS.items()}


@dataclass(frozen=True)
class Ask:
    """One request; ``target`` is sent unchanged in the request line, one character per byte.

    :param user: the sender, None for an anonymous request.
    :param chunked: send the body in chunks.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    user: str | None = "test:tester"
    protocol: str = "HTTP/1.1"
    chunked: bool = False

    def __str__(self) -> str:
        target = (
            self.target if len(self.target) < 600 else f"{self.target[:150]}…({len(self.target)})"
        )
        headers = [(k[:60], v if len(v) < 120 else f"{v[:60]}…({len(v)})") for k, v in self.headers]
        extra = " ".join(
            word
            for word, said in (
                (f"as {self.user}", self.user != "test:tester"),
                (self.protocol, self.protocol != "HTTP/1.1"),
                ("chunked", self.chunked),
            )
            if said
        )
        return f"{self.method} {target!r} {headers} {self.body[:160]!r} {extra}".rstrip()


class Server:
    """One of the two compared servers."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._tokens: dict[str, str] = {}

    def ask(self, ask: Ask) -> Answer:
        """Send it over its own connection; the status is 0 if no answer came."""
        headers = list(ask.headers)
        if ask.user is not None:
            headers.append(("X-Auth-Token", self._token(ask.user)))
        try:
            return self._exchange(ask, headers)
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, {}, type(error).__name__)

    def _exchange(self, ask: Ask, headers: list[tuple[str, str]]) -> Answer:
        names = {name.lower() for name, _ in headers}
        lines = [f"{ask.method} {ask.target} {ask.protocol}"]
        if "host" not in names:
            lines.append("Host: same.example.com")
        body = ask.body
        if ask.chunked:
            lines.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        elif "content-length" not in names and (body or ask.method in ("PUT", "POST")):
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in headers]
        lines += ["Connection: close", "", ""]
        host, port = self._address.hostname, self._address.port
        assert host
        assert port
        with socket.create_connection((host, port), _TIMEOUT_SECONDS) as connection:
            connection.sendall("\r\n".join(lines).encode("latin-1") + body)
            with http.client.HTTPResponse(connection, method=ask.method) as answer:
                answer.begin()
                return normal(answer, answer.read())

    def _token(self, user: str) -> str:
        if user not in self._tokens:
            request = http.client.HTTPConnection(self._address.netloc, timeout=_TIMEOUT_SECONDS)
            request.request(
                "GET", "/auth/v1.0", headers={"X-Auth-User": user, "X-Auth-Key": _KEYS[user]}
            )
            answer = request.getresponse()
            answer.read()
            self._tokens[user] = answer.headers["X-Auth-Token"]
        return self._tokens[user]
