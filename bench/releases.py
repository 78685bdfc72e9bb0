# SPDX-License-Identifier: Apache-2.0
"""The CPU time of a small PUT and GET in several releases of martlet, measured in turns.

    .venv/bin/python bench/releases.py 5288686c /src/new

Each argument is a source tree in which `make build` was run, or a commit, which is built under
``build/releases``. Every tree gets a cluster of its own.
In each round the clusters write objects, and read them again, one cluster after the other. The
order changes from round to round. CPU is user and system time of all processes of a cluster, from
/proc. The clusters are started anew several times: two processes of one tree may differ by 8 % for
as long as they live. The table has medians over all rounds. The last column is the median of the
ratios to the first tree in the same round.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from load import Load, Outcome, run
from own_cluster import login, must, own_cluster
from processes import usage
from release_tree import release_tree

#: Five for each partition, so that nearly all have their first file, as in a cluster in use.
WARM_UP_OBJECTS = 5 * 1024
STATUSES = {"PUT": 201, "GET": 200}


@dataclass
class Measured:
    """A tree, and what was measured: for each method one value for each round."""

    tree: Path
    cpu_ms: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)


@dataclass
class Candidate:
    """The running cluster of a tree."""

    measured: Measured
    home: Path
    port: int
    token: str
    account: str

    def load(self, method: str, prefix: str, numbers: list[int], options: Options) -> Outcome:
        """Send the requests, which must all succeed."""
        load = Load(
            self.port,
            self.token,
            method,
            f"{self.account}/bench{prefix}",
            numbers,
            options.size,
            STATUSES[method],
        )
        outcome = run(load, options.clients, 2)
        if outcome.failures:
            raise SystemExit(
                f"{self.measured.tree}: {outcome.failures} failed: {outcome.first_failure}"
            )
        return outcome

    def measure(self, method: str, prefix: str, numbers: list[int], options: Options) -> None:
        """Note the CPU milliseconds for each request, by kind of service, and the rate."""
        before = self._cpu_ms()
        outcome = self.load(method, prefix, numbers, options)
        after = self._cpu_ms()
        spent = {kind: (after[kind] - before[kind]) / len(numbers) for kind in after}
        measured = self.measured
        measured.cpu_ms.setdefault(method, []).append({**spent, "all": sum(spent.values())})
        measured.rates.setdefault(method, []).append(len(numbers) / outcome.seconds)

    def _cpu_ms(self) -> dict[str, float]:
        """By kind of service; those of several nodes are one."""
        kinds: dict[str, float] = {}
        for name, used in usage(self.home).items():
            kind = name.partition("-")[0]
            kinds[kind] = kinds.get(kind, 0.0) + used.cpu_ms
        return kinds


@dataclass(frozen=True)
class Options:
    """The command line."""

    objects: int
    starts: int
    rounds: int
    size: int
    clients: int


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "trees",
        nargs="+",
        type=release_tree,
        metavar="TREE",
        help="a built source tree or a commit",
    )
    parser.add_argument("--objects", type=int, default=4000, help="in each round")
    parser.add_argument("--starts", type=int, default=3, help="of each cluster")
    parser.add_argument("--rounds", type=int, default=3, help="after each start")
    parser.add_argument("--size", type=int, default=4096, metavar="BYTES", help="of each object")
    parser.add_argument("--clients", type=int, default=32, help="parallel connections")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    options = Options(given.objects, given.starts, given.rounds, given.size, given.clients)
    trees = [Measured(tree) for tree in given.trees]
    for _ in range(options.starts):
        with ExitStack() as stack:
            candidates = [start(stack, measured) for measured in trees]
            for number in range(options.rounds):
                measure_round(candidates, number, options)
    print(json.dumps(figures(trees), indent=2) if given.json else table(trees, options))
    return 0


def start(stack: ExitStack, measured: Measured) -> Candidate:
    """Start the cluster of a tree, and warm it up."""
    home = stack.enter_context(own_cluster(measured.tree))
    port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
    token, account = login(port)
    must(port, "PUT", f"{account}/bench", token, 201)
    candidate = Candidate(measured, home, port, token, account)
    warm = list(range(WARM_UP_OBJECTS))
    options = Options(0, 0, 0, 4096, 32)
    for method in STATUSES:
        candidate.load(method, "/warm-", warm, options)
    return candidate


def measure_round(candidates: list[Candidate], number: int, options: Options) -> None:
    """PUT and GET at each cluster; which of them is first changes."""
    turn = number % len(candidates)
    numbers = list(range(options.objects))
    for method in STATUSES:
        for candidate in candidates[turn:] + candidates[:turn]:
            candidate.measure(method, f"/{number}-", numbers, options)
            time.sleep(0.5)  # what a service does after its answers belongs to its own turn
        random.Random(number).shuffle(numbers)


def figures(trees: list[Measured]) -> dict[str, dict[str, dict[str, float]]]:
    """For each method and row: the value of each tree, and its ratio to the first tree."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    first = trees[0]
    for method in STATUSES:
        rows: dict[str, dict[str, float]] = {}
        kinds = sorted({kind for c in trees for kind in c.cpu_ms[method][0]})
        for kind in [k for k in kinds if k != "all"] + ["all"]:
            row = rows[f"CPU us, {kind}"] = {}
            bases = [spent.get(kind, 0.0) for spent in first.cpu_ms[method]]
            for c in trees:
                values = [spent.get(kind, 0.0) for spent in c.cpu_ms[method]]
                row[str(c.tree)] = statistics.median(values) * 1000
                ratios = [v / b for v, b in zip(values, bases, strict=True) if b]
                row[f"ratio {c.tree}"] = statistics.median(ratios) if ratios else float("nan")
        row = rows["requests/s"] = {}
        for c in trees:
            rates = c.rates[method]
            row[str(c.tree)] = statistics.median(rates)
            row[f"ratio {c.tree}"] = statistics.median(
                r / b for r, b in zip(rates, first.rates[method], strict=True)
            )
        found[method] = rows
    return found


def table(trees: list[Measured], options: Options) -> str:
    """The figures as text."""
    lines = [
        f"{options.starts} starts, {options.rounds} rounds after each of {options.objects} objects "
        f"of {options.size} bytes, {options.clients} clients",
        *(f"  {i}: {c.tree}" for i, c in enumerate(trees)),
    ]
    heads = "".join(f"{i:>10}{'ratio':>8}" for i in range(len(trees)))
    for method, rows in figures(trees).items():
        lines += ["", f"{method:<24}{heads}"]
        for name, row in rows.items():
            cells = "".join(
                f"{row[str(c.tree)]:>10.0f}{row[f'ratio {c.tree}']:>8.2f}" for c in trees
            )
            lines.append(f"{name:<24}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
