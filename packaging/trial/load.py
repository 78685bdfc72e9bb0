#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: load.py ADDRESS KEY CERTIFICATE: PUTs and GETs through TLS until its input ends.

Prints a line with the requests and the failed ones, and each kind of failure once.
"""

from __future__ import annotations

import collections
import http.client
import itertools
import ssl
import sys
import threading
import time

_CLIENTS = 8
_BODY = b"x" * 4096


class Load:
    """Clients of one address, each with a connection that it keeps."""

    def __init__(self, address: str, key: str, certificate: str) -> None:
        self.address = address
        self.trust = ssl.create_default_context(cafile=certificate)
        self.ended = threading.Event()
        self.results: collections.Counter[str] = collections.Counter()
        self.times: list[float] = []
        login = {"X-Auth-User": "admin:admin", "X-Auth-Key": key}
        connection = self.connection()
        answer, _ = ask(connection, "GET", "/auth/v1.0", login, b"")
        self.headers = {"X-Auth-Token": answer.headers["X-Auth-Token"]}
        self.path = "/" + answer.headers["X-Storage-Url"].split("/", 3)[3] + "/load"
        ask(connection, "PUT", self.path, self.headers, b"")

    def connection(self) -> http.client.HTTPSConnection:
        """A new connection, not open yet."""
        return http.client.HTTPSConnection(self.address, timeout=30, context=self.trust)

    def client(self, name: int) -> None:
        """Write and read an object again and again."""
        connection = self.connection()
        for number in itertools.count():
            if self.ended.is_set():
                return
            began = time.monotonic()
            try:
                path = f"{self.path}/{name}-{number}"
                put, _ = ask(connection, "PUT", path, self.headers, _BODY)
                got, body = ask(connection, "GET", path, self.headers, b"")
                good = (put.status, got.status) == (201, 200) and body == _BODY
                seen = f"{put.status} {put.headers['X-Trans-Id']}, {got.status}"
                result = "good" if good else f"{path}: {seen} {got.headers['X-Trans-Id']}"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                result = repr(error)
            self.results[result] += 1
            self.times.append(time.monotonic() - began)


def ask(
    connection: http.client.HTTPSConnection,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send one request; return the answer and its body."""
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer, answer.read()


def main() -> int:
    """Run the clients; return 1 if a request failed."""
    load = Load(*sys.argv[1:4])
    clients = [threading.Thread(target=load.client, args=(name,)) for name in range(_CLIENTS)]
    for client in clients:
        client.start()
    sys.stdin.read()
    load.ended.set()
    for client in clients:
        client.join()
    good = load.results.pop("good", 0)
    failed = load.results.total()
    slowest = max(load.times, default=0.0)
    print(f"{good + failed} times PUT and GET, {failed} failed, slowest {slowest:.2f} s")
    for result, count in load.results.most_common():
        print(f"    {count}: {result}")
    return 1 if failed or not good else 0


if __name__ == "__main__":
    sys.exit(main())
