#!/usr/bin/env python3
"""usage: coverage_table.py PYTHON GO    prints how much of each package the unit tests run.

PYTHON is a report of `coverage json`, GO a profile of `go test -coverprofile`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# Package, statements, statements that ran.
Count = tuple[str, int, int]


def python_counts(report: str) -> Iterator[Count]:
    """The counts of each file, under the name of its package."""
    for path, file in json.loads(report)["files"].items():
        summary = file["summary"]
        yield str(Path(path).parent), summary["num_statements"], summary["covered_lines"]


def go_counts(profile: str) -> Iterator[Count]:
    """The counts of each block, under the path of its package.

    The profile of several packages names a block once for each test program.
    """
    ran: dict[str, tuple[int, bool]] = {}
    for line in profile.splitlines():
        if line.startswith("mode:"):
            continue
        block, statements, times = line.rsplit(" ", 2)
        ran[block] = (int(statements), times != "0" or ran.get(block, (0, False))[1])
    for block, (number, has_run) in ran.items():
        path = Path(block.rpartition(":")[0])
        yield str(Path(*path.parts[1:-1])), number, number if has_run else 0


def table(counts: Iterable[Count], total: str) -> Iterator[str]:
    """A line for each package and one for their sum, named ``total``."""
    sums: dict[str, tuple[int, int]] = {}
    for name, statements, ran in counts:
        for row in (name, total):
            before = sums.get(row, (0, 0))
            sums[row] = (before[0] + statements, before[1] + ran)
    for name in [*sorted(sums.keys() - {total}), total]:
        statements, ran = sums.get(name, (0, 0))
        if statements:
            yield f"{name:44} {statements:10} {ran:10} {ran / statements:8.1%}"


def main(python: str, go: str) -> None:
    """Prints the two tables."""
    print(f"{'package':44} {'statements':>10} {'run':>10} {'share':>8}")
    for line in table(python_counts(Path(python).read_text()), "Python"):
        print(line)
    for line in table(go_counts(Path(go).read_text()), "Go"):
        print(line)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
