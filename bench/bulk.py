# SPDX-License-Identifier: Apache-2.0
"""The speed of an archive upload compared with its files one by one.

Several rounds on one cluster, in turns: PUTs of small files by one client in sequence over one
keep-alive connection; the same by 64 clients in parallel; and one PUT of a tar of such files.
Nothing is asserted: the rates and the CPU time of all services for each file are printed.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from load import HOST, Load, content_of, run
from own_cluster import KEY, USER, own_cluster
from processes import usage

CLIENTS = 64


def main() -> int:
    """Print a line for each way of storing the files, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=10_000, help="files in the archive")
    parser.add_argument("--single", type=int, default=1000, help="PUTs, one by one, of a round")
    parser.add_argument("--size", type=int, default=1024, metavar="BYTES", help="of each file")
    parser.add_argument("--rounds", type=int, default=3, help="turns of all; medians are shown")
    parser.add_argument("--home", type=Path, help="use the cluster that runs in this directory")
    arguments = parser.parse_args()
    if arguments.home:
        measure(arguments.home.absolute(), arguments)
    else:
        with own_cluster() as home:
            measure(home, arguments)
    return 0


def measure(home: Path, arguments: argparse.Namespace) -> None:
    """Run the rounds on the cluster of ``home`` and print the results."""
    session = _Session(home, arguments.size)
    archive = session.archive(arguments.files)
    ways: list[tuple[str, int, Callable[[str], None]]] = [
        ("one client, one by one", arguments.single, session.one_by_one(arguments.single)),
        (f"{CLIENTS} clients", arguments.files, session.at_once(arguments.files)),
        ("one archive", arguments.files, session.extract(archive, arguments.files)),
    ]
    rates: dict[str, list[float]] = {name: [] for name, _, _ in ways}
    cpu: dict[str, list[float]] = {name: [] for name, _, _ in ways}
    for _ in range(arguments.rounds):
        for name, count, store in ways:
            container = session.new_container()
            used = _cpu_ms(home)
            started = time.monotonic()
            store(container)
            rates[name].append(count / (time.monotonic() - started))
            cpu[name].append((_cpu_ms(home) - used) / count)
    for name, _, _ in ways:
        print(f"{name:24} {median(rates[name]):8.0f} files/s {median(cpu[name]):6.2f} ms CPU each")
    one, many, bulk = (median(rates[name]) for name, _, _ in ways)
    print(f"the archive: {bulk / one:.1f} times one client, {bulk / many:.2f} times {CLIENTS}")


class _Session:
    """The ways of storing files, each in its own container."""

    def __init__(self, home: Path, size: int) -> None:
        self._port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
        self._size = size
        self._connection = http.client.HTTPConnection(HOST, self._port, timeout=600)
        login = {"X-Auth-User": USER, "X-Auth-Key": KEY}
        self._connection.request("GET", "/auth/v1.0", headers=login)
        answer = self._connection.getresponse()
        answer.read()
        self._headers = {"X-Auth-Token": answer.headers["X-Auth-Token"]}
        self._account = urlsplit(answer.headers["X-Storage-Url"]).path

    def new_container(self) -> str:
        """Create a container; return its path."""
        path = f"{self._account}/bulk-{time.time_ns()}"
        self._put(path, b"", 201)
        return path

    def archive(self, count: int) -> bytes:
        """A tar of ``count`` files."""
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for number in range(count):
                info = tarfile.TarInfo(f"o-{number}")
                info.size = self._size
                archive.addfile(info, io.BytesIO(content_of(number, self._size)))
        return stream.getvalue()

    def one_by_one(self, count: int) -> Callable[[str], None]:
        """Make a function that stores ``count`` files by single PUTs."""

        def store(container: str) -> None:
            for number in range(count):
                self._put(f"{container}/o-{number}", content_of(number, self._size), 201)

        return store

    def at_once(self, count: int) -> Callable[[str], None]:
        """Make a function that stores ``count`` files over many connections."""

        def store(container: str) -> None:
            token = self._headers["X-Auth-Token"]
            numbers = list(range(count))
            load = Load(self._port, token, "PUT", f"{container}/o-", numbers, self._size, 201)
            outcome = run(load, CLIENTS, 1)
            if outcome.failures:
                sys.exit(f"{outcome.failures} PUTs failed: {outcome.first_failure}")

        return store

    def extract(self, archive: bytes, count: int) -> Callable[[str], None]:
        """Make a function that stores the files of an archive."""

        def store(container: str) -> None:
            headers = {**self._headers, "Accept": "application/json"}
            path = f"{container}?extract-archive=tar"
            report = json.loads(self._send("PUT", path, archive, headers, 200))
            if report["Number Files Created"] != count:
                sys.exit(f"the archive was not stored: {report}")

        return store

    def _put(self, path: str, body: bytes, expected: int) -> None:
        self._send("PUT", path, body, self._headers, expected)

    def _send(
        self, method: str, path: str, body: bytes, headers: dict[str, str], expected: int
    ) -> bytes:
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != expected:
            sys.exit(f"{method} {path}: {answer.status} {content[:200]!r}")
        return content


def _cpu_ms(home: Path) -> float:
    return sum(used.cpu_ms for used in usage(home).values())


if __name__ == "__main__":
    sys.exit(main())
