"""Slow clients, and a client that checks whether others are served meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections import Counter
from dataclasses import dataclass, field

from cluster.ports import HOST

_CONNECT_SECONDS = 10.0
_HEAD = b"GET /healthcheck HTTP/1.1\r\nHost: h\r\nX-A: "
_BODY = b"PUT /v1/AUTH_test/c/o HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"
_CHUNK = b"PUT /v1/AUTH_test/c/o HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n"
_DRIPPING = (_HEAD, _BODY, _CHUNK)
_PAUSE_SECONDS = 1.0
_HEALTH_PAUSE_SECONDS = 0.2
_HEALTH_SECONDS_MAX = 30.0


def keep_connections(port: int, idle: int, dripping: int, until: float) -> int:
    """Keep idle connections open, and connections that send a byte a second.

    Connections that the server closes are reopened. The result is the number of opened ones.
    """
    heads = [b""] * idle + [_DRIPPING[number % 3] for number in range(dripping)]
    clients: list[socket.socket | None] = [None] * len(heads)
    opened = 0
    while time.monotonic() < until:
        for number, head in enumerate(heads):
            if time.monotonic() >= until:
                break
            client = clients[number]
            if client is None:
                clients[number] = client = _open(port, head)
                opened += client is not None
            elif not _is_open_after_byte(client, b"a" if head else b""):
                client.close()
                clients[number] = None
        time.sleep(_PAUSE_SECONDS)  # such a client sends a byte a second
    for client in clients:
        if client is not None:
            client.close()
    return opened


def _open(port: int, head: bytes) -> socket.socket | None:
    """Open a connection; return None if it fails now."""
    try:
        client = socket.create_connection((HOST, port), timeout=_CONNECT_SECONDS)
    except OSError:
        return None
    client.setblocking(False)
    with contextlib.suppress(OSError):
        client.send(head)
    return client


def _is_open_after_byte(client: socket.socket, byte: bytes) -> bool:
    try:
        client.send(byte)
        return client.recv(1000) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@dataclass
class Health:
    """The durations and failures of a health check every fifth of a second."""

    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


def check_health(port: int, until: float) -> Health:
    seen = Health()
    while time.monotonic() < until:
        began = time.monotonic()
        connection = http.client.HTTPConnection(HOST, port, timeout=_HEALTH_SECONDS_MAX)
        try:
            connection.request("GET", "/healthcheck")
            status = connection.getresponse().status
            if status != 200:
                seen.failures[str(status)] += 1
        except (OSError, http.client.HTTPException) as error:
            seen.failures[type(error).__name__] += 1
        finally:
            connection.close()
        seen.seconds.append(time.monotonic() - began)
        time.sleep(_HEALTH_PAUSE_SECONDS)
    return seen
