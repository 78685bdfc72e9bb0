"""Clients that send invalid requests. Each runs until a time of the monotonic clock."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import random
import socket
import time
from collections import Counter
from dataclasses import dataclass, field

from fuzz_api import NonsenseClient

from cluster.ports import HOST

_CONNECT_SECONDS = 10.0
_LOG_IN_EVERY = 200
_ENDLESS_BYTES = 8 << 20
#: A quarter of a gigabyte of zeros.
_BOMB = gzip.compress(bytes(256 << 20))
_CHUNKED = b" HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
_PUT = b"PUT /v1/AUTH_test/c/o" + _CHUNKED
#: Endless streams: the first bytes, and the bytes that are repeated.
_ENDLESS = (
    (b"GET /", b"a" * 60_000),
    (b"GET / HTTP/1.1\r\nHost: h\r\n", b"A: b\r\n" * 10_000),
    (_PUT + b"0\r\n", b"A: b\r\n" * 10_000),
    (_PUT + b"1;", b"x" * 60_000),
    (_PUT, b"5\r\nhello\r\n" * 6_000),
    (b"", b"\r\n" * 30_000),
    (b"", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 1_000),
    (
        b"PUT /v1/AUTH_test/c?extract-archive=tar.gz" + _CHUNKED,
        b"%x\r\n%b\r\n" % (len(_BOMB), _BOMB),
    ),
)


@dataclass
class Nonsense:
    """Answers to invalid requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    #: Requests whose 5xx is not explained by a killed server.
    findings: list[str] = field(default_factory=list)


def send_nonsense(port: int, seed: int, until: float) -> Nonsense:
    """Send requests of the fuzzer. Killed servers explain missing answers, 503 and 507."""
    seen = Nonsense()
    client = NonsenseClient(f"http://{HOST}:{port}", seed)
    number = 0
    while time.monotonic() < until:
        if number % _LOG_IN_EVERY == 0:
            with contextlib.suppress(OSError, http.client.HTTPException, TypeError):
                client.log_in()
        number += 1
        described, status = client.ask_nonsense()
        seen.statuses[status] += 1
        if status >= 500 and status not in (503, 507):
            seen.findings.append(f"{status} {described}")
    return seen


def pour(port: int, seed: int, until: float) -> int:
    """Send endless streams sequentially; return how many of them the server cut off."""
    chance = random.Random(seed)
    refused = 0
    while time.monotonic() < until:
        first, again = chance.choice(_ENDLESS)
        try:
            with socket.create_connection((HOST, port), timeout=_CONNECT_SECONDS) as client:
                client.sendall(first)
                for _ in range(_ENDLESS_BYTES // len(again) + 1):
                    client.sendall(again)
        except OSError:
            refused += 1
    return refused
