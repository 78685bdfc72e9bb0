# SPDX-License-Identifier: Apache-2.0
"""The reports of containers to their accounts: requests and CPU for a burst, cost of a sweep.

    .venv/bin/python bench/account_reports.py [--containers 100] [--databases 10000] [--tree DIR]

The burst: containers are created in a cluster of its own, and the requests to account servers are
counted in their logs until none comes any more. The sweep: one process looks at many databases
without news, once when it knows nothing, and then again. ``--tree`` measures another release, built
in its own directory.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from own_cluster import login, must, own_cluster
from processes import usage

#: A request for a container's row, or with many of them.
_REPORT = re.compile(r" request method=(PUT|UPDATE) path=/\w+/\d+/AUTH_test(/\S+)? ")
QUIET_SECONDS = 4.0

# Runs with the modules of a tree: the databases are copies of one, whose state is reported.
_SWEEP = """
import os, shutil, sys, time
from pathlib import Path
from container.config import ContainerOptions
from container.database import ContainerDatabase
from container.reporter import Reporter

home, count = Path(sys.argv[1]), int(sys.argv[2])
top = home / "devices/d1/containers"

def path_of(number):
    name = f"{number * 2654435761 % 2**128:032x}"
    return top / str(number % 64) / name[-3:] / name / f"{name}.db"

first = path_of(1)
database = ContainerDatabase(str(first))
database.create("AUTH_a", "c", "1700000000.00000", 0, {})
database.set_reported(database.info())
database.close()
time.sleep(0.5)
for number in range(2, count + 1):
    path = path_of(number)
    path.parent.mkdir(parents=True)
    shutil.copyfile(first, path)
time.sleep(1.5)  # what has just changed is never taken as unchanged
options = ContainerOptions(containers_per_second=10**9)
reporter = Reporter(options, str(home / "devices"), None, None, None)
for words in ("first", "next"):
    began, cpu = time.monotonic(), time.process_time()
    reporter.sweep()
    each = (time.process_time() - cpu) * 1000 / count, (time.monotonic() - began) * 1000 / count
    print(f"{words} sweep over {count} databases: {each[0]:.4f} ms CPU, {each[1]:.4f} ms each")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--containers", type=int, default=100, help="containers in the burst")
    parser.add_argument("--databases", type=int, default=10_000, help="databases in a sweep")
    parser.add_argument("--tree", type=Path, help="the directory of another release")
    options = parser.parse_args()
    tree = options.tree and options.tree.absolute()
    if options.containers:
        with own_cluster(tree) as home:
            burst(home, options.containers)
    if options.databases:
        sweep(tree or Path(__file__).resolve().parent.parent, options.databases)
    return 0


def burst(home: Path, count: int) -> None:
    """Create containers, and wait until their accounts know them."""
    port = _port(home)
    token, account = login(port)
    must(port, "PUT", f"{account}/warm", token, 201)
    _await_quiet(home)
    before, cpu = _reports(home), _cpu(home)
    for number in range(count):
        must(port, "PUT", f"{account}/c{number:05d}", token, 201)
    _await_quiet(home)
    after = _reports(home)
    made = {method: after[method] - before[method] for method in sorted(after)}
    for method, requests in made.items():
        print(f"{method} requests to accounts for each container: {requests / count:.2f}")
    print(f"CPU of account and container servers for each: {(_cpu(home) - cpu) / count:.1f} ms")


def _port(home: Path) -> int:
    match = re.search(r"bind_port = (\d+)", (home / "etc" / "proxy-server.conf").read_text())
    assert match
    return int(match[1])


def _reports(home: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for log in (home / "logs").glob("account-server*.log"):
        for match in _REPORT.finditer(log.read_text()):
            if match[1] == "UPDATE" or match[2]:
                found[match[1]] += 1
    return found


def _cpu(home: Path) -> float:
    return sum(u.cpu_ms for n, u in usage(home).items() if n.startswith(("account", "container")))


def _await_quiet(home: Path) -> None:
    """Wait until no report has come for a while."""
    last, since = _reports(home), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        time.sleep(0.25)
        now = _reports(home)
        if now != last:
            last, since = now, time.monotonic()


def sweep(tree: Path, count: int) -> None:
    """Look at databases without news, with the modules of a tree."""
    with tempfile.TemporaryDirectory() as home:
        python = tree / ".venv" / "bin" / "python"
        subprocess.run(
            [str(python), "-c", _SWEEP, home, str(count)],
            check=True,
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(tree)},
        )


if __name__ == "__main__":
    sys.exit(main())
