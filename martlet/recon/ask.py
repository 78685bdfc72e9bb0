# SPDX-License-Identifier: Apache-2.0
"""Requests for ``/recon/`` to many storage servers at the same time, each with a time-out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from martlet.http.backend_client import Address, BackendClient, BackendError

#: Servers that are asked at the same time.
AT_ONCE_MAX = 64
#: Longest answer, bytes. That of a host with thousands of devices is far shorter.
ANSWER_BYTES_MAX = 64 << 20
#: The path that tells the kind of a server: the answer to OPTIONS.
KIND_PATH = "OPTIONS /"


@dataclass(frozen=True, order=True)
class Server:
    """A storage server, and its devices in the rings."""

    kind: str
    ip: str
    port: int
    devices: tuple[str, ...] = field(compare=False, default=())

    @property
    def name(self) -> str:
        """The address as text."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"

    @property
    def address(self) -> Address:
        return self.ip, self.port


@dataclass(frozen=True)
class Answer:
    """An answer; ``value`` is JSON. The times are those of this host."""

    status: int
    value: Any
    sent: float
    received: float


@dataclass
class Reply:
    """The answers of a server by path; ``error`` is the reason if it did not answer one."""

    server: Server
    answers: dict[str, Answer] = field(default_factory=dict)
    error: str = ""

    def value(self, path: str) -> Any:
        """The figures of a path; None if the server has none."""
        answer = self.answers.get(path)
        return answer.value if answer is not None and answer.status == 200 else None


def ask_all(
    servers: Sequence[Server],
    paths_of: Callable[[str], Iterable[str]],
    make_client: Callable[[], BackendClient],
) -> list[Reply]:
    """Ask each server for the paths of its kind, all servers at the same time.

    A server that does not answer in time is not asked for more.
    """

    def ask(server: Server) -> Reply:
        reply, client = Reply(server), make_client()
        try:
            for path in paths_of(server.kind):
                reply.answers[path] = _ask(client, server, path)
        except BackendError as error:
            reply.error = error.reason
        finally:
            client.close()
        return reply

    if not servers:
        return []
    with ThreadPoolExecutor(min(len(servers), AT_ONCE_MAX)) as threads:
        return list(threads.map(ask, servers))


def _ask(client: BackendClient, server: Server, path: str) -> Answer:
    """:raises BackendError: there is no answer, or not in time."""
    sent = time.time()
    if path == KIND_PATH:
        response = client.request(server.address, "OPTIONS", "/", {})
        response.body(ANSWER_BYTES_MAX)
        kind = response.headers.get("server", "").partition("/")[0]
        return Answer(response.status, kind, sent, time.time())
    response = client.request(server.address, "GET", f"/recon/{path}", {})
    body = response.body(ANSWER_BYTES_MAX)
    received = time.time()
    try:
        value = json.loads(body) if response.status == 200 else None
    except ValueError:
        value = None
    return Answer(response.status, value, sent, received)
