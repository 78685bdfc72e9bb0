# SPDX-License-Identifier: Apache-2.0
"""The requests that cost more than they should, in several releases of martlet, measured in turns.

    .venv/bin/python bench/outliers.py /src/old /src/new

Each argument is a source tree in which `make build` was run; without one it is this tree. Every
tree gets a cluster of its own, and the clusters take turns in each round. CPU is user and system
time of all processes of a cluster, from /proc. Rows marked with a size have no time: bytes of log.
The table has medians over the rounds, and the median of the ratios to the first tree.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from load import Load, content_of, run
from own_cluster import must
from processes import usage
from release_tree import release_tree
from releases import Candidate, Measured, start

METADATA_HEADERS = 90
SPREAD = 64

Figures = dict[str, float]


class Session:
    """One cluster, and a number that makes the names of each round new."""

    def __init__(self, candidate: Candidate) -> None:
        self.name = str(candidate.measured.tree)
        self._candidate = candidate
        self._round = 0

    def next_round(self) -> None:
        """Use new names from now on."""
        self._round += 1

    def container(self, name: str) -> str:
        """Create a container for this round; return its path."""
        path = f"{self._candidate.account}/{name}-{self._round}"
        self.request("PUT", path, 201)
        return path

    def request(
        self,
        method: str,
        path: str,
        status: int,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> bytes:
        """Send one request, which must succeed; return the body of its answer."""
        candidate = self._candidate
        return must(candidate.port, method, path, candidate.token, status, body, headers)

    def load(
        self,
        method: str,
        prefixes: list[str],
        numbers: list[int],
        status: int,
        size: int,
        clients: int = 256,
    ) -> None:
        """Send requests over several connections, to the prefixes in turn, each with its number."""
        candidate = self._candidate
        load = Load(
            candidate.port,
            candidate.token,
            method,
            prefixes[0],
            numbers,
            size,
            status,
            tuple(prefixes),
        )
        outcome = run(load, clients, 2)
        if outcome.failures:
            raise SystemExit(f"{self.name}: {outcome.failures} failed: {outcome.first_failure}")

    def cpu_ms(self, work: Callable[[], object], count: int) -> float:
        """The CPU time of the cluster for each of ``count`` parts of the work."""
        before = self._cpu()
        work()
        time.sleep(1.0)  # what a service does after its answers belongs to its own turn
        return (self._cpu() - before) / count

    def log_bytes(self) -> int:
        """The size of all logs of the cluster."""
        return sum(path.stat().st_size for path in self._candidate.home.rglob("*.log"))

    @property
    def account(self) -> str:
        """The path of the account."""
        return self._candidate.account

    @property
    def round(self) -> int:
        """The number of the round."""
        return self._round

    def _cpu(self) -> float:
        return sum(used.cpu_ms for used in usage(self._candidate.home).values())


def bulk(session: Session, count: int) -> Figures:
    """An archive of small files is stored, and deleted in one request."""
    container = session.container("bulk")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(count):
            info = tarfile.TarInfo(f"o-{number}")
            info.size = 1024
            tar.addfile(info, io.BytesIO(content_of(number, 1024)))
    name = container.rpartition("/")[2]
    names = "".join(f"/{name}/o-{number}\n" for number in range(count)).encode()
    wants = {"Accept": "application/json"}

    def upload() -> None:
        path = f"{container}?extract-archive=tar"
        report = json.loads(session.request("PUT", path, 200, archive.getvalue(), wants))
        if report["Number Files Created"] != count:
            raise SystemExit(f"{session.name}: {report}")

    def delete() -> None:
        path = f"{session.account}?bulk-delete"
        headers = {**wants, "Content-Type": "text/plain"}
        report = json.loads(session.request("POST", path, 200, names, headers))
        if report["Number Deleted"] != count:
            raise SystemExit(f"{session.name}: {report}")

    return {
        "bulk upload, CPU ms a file": session.cpu_ms(upload, count),
        "bulk delete, CPU ms a file": session.cpu_ms(delete, count),
    }


def containers(session: Session, count: int) -> Figures:
    """Containers are created, over many connections."""
    prefix = f"{session.account}/new-{session.round}-"
    count //= 10
    numbers = list(range(count))
    spent = session.cpu_ms(lambda: session.load("PUT", [prefix], numbers, 201, 0, 32), count)
    return {"container created, CPU ms": spent}


def metadata(session: Session, count: int) -> Figures:
    """GETs of an object without metadata, and of one with many headers."""
    container = session.container("meta")
    headers = {f"X-Object-Meta-Name-{n}": f"value {n}" for n in range(METADATA_HEADERS)}
    figures = {}
    numbers = [number % 64 for number in range(count)]
    for name, given in (("none", {}), ("many", headers)):
        prefix = f"{container}/{name}-"
        for number in range(64):
            session.request("PUT", f"{prefix}{number}", 201, b"x" * 4096, given)
        get = partial(session.load, "GET", [prefix], numbers, 200, 0)
        spent = session.cpu_ms(get, count)
        figures[f"GET, {len(given)} metadata headers, CPU ms"] = spent
    plain, dear = figures.values()
    return {**figures, f"... {METADATA_HEADERS} headers beside none": dear / plain}


def logs(session: Session, count: int) -> Figures:
    """The bytes of log of a PUT and a GET of 4 KiB."""
    prefix = [f"{session.container('logged')}/o-"]
    figures = {}
    for method, status in (("PUT", 201), ("GET", 200)):
        before = session.log_bytes()
        session.load(method, prefix, list(range(count)), status, 4096)
        time.sleep(2.0)  # lines are written in batches
        figures[f"log of a {method}, bytes"] = (session.log_bytes() - before) / count
    return figures


def spread(session: Session, count: int) -> Figures:
    """PUTs of 4 KiB to one container, and to 64 of them."""
    one = [f"{session.container('one')}/o-"]
    many = [f"{session.container(f'of-{number}')}/o-" for number in range(SPREAD)]
    figures = {}
    numbers = list(range(count))
    for name, prefixes in (("one container", one), (f"{SPREAD} containers", many)):
        session.load("PUT", prefixes, list(range(256)), 201, 4096)
        time.sleep(2.0)  # the first reports to the account
        warm = [f"{prefix}{session.round}-" for prefix in prefixes]
        put = partial(session.load, "PUT", warm, numbers, 201, 4096)
        spent = session.cpu_ms(put, count)
        figures[f"PUT to {name}, CPU ms"] = spent
    single, several = figures.values()
    return {**figures, f"... {SPREAD} containers beside one": several / single}


CASES: dict[str, Callable[[Session, int], Figures]] = {
    "bulk": bulk,
    "containers": containers,
    "metadata": metadata,
    "logs": logs,
    "spread": spread,
}


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "trees",
        nargs="*",
        type=release_tree,
        metavar="TREE",
        help="a built source tree or a commit",
    )
    parser.add_argument("--requests", type=int, default=2000, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, action="append", help="this case alone")
    given = parser.parse_args()
    trees = given.trees or [Path(__file__).absolute().parent.parent]
    with ExitStack() as stack:
        sessions = [Session(start(stack, Measured(tree))) for tree in trees]
        rounds: list[list[Figures]] = []
        for _ in range(given.rounds):
            rounds.append([{} for _ in sessions])
            for session in sessions:
                session.next_round()
            for case in given.only or CASES:
                for session, figures in zip(sessions, rounds[-1], strict=True):
                    figures.update(CASES[case](session, given.requests))
    print(table([session.name for session in sessions], rounds))
    return 0


def table(names: list[str], rounds: list[list[Figures]]) -> str:
    """The medians of each tree, and of the ratios to the first one."""
    lines = [f"{number}: {name}" for number, name in enumerate(names)]
    heads = "".join(f"{number:>10}{'ratio':>8}" for number in range(len(names)))
    lines += ["", f"{'':<40}{heads}"]
    for row in rounds[0][0]:
        cells = ""
        for number in range(len(names)):
            value = statistics.median(figures[number][row] for figures in rounds)
            ratio = statistics.median(figures[number][row] / figures[0][row] for figures in rounds)
            cells += f"{value:>10.3f}{ratio:>8.2f}"
        lines.append(f"{row:<40}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
