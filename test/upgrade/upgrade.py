"""A rolling upgrade under load, from the release before to this one, and the way back.

A cluster of four nodes with all background jobs and a proxy each begins with the release before.
It stores objects, versions, large objects, uploads in parts, for two accounts. Then each node in
turn gets this release, as the Debian package does it, and `martlet recon` must find nothing wrong
before the next one. Clients write, read, list and delete meanwhile, through the proxies of both
releases. No request may fail, and no answer have other bytes than those written. The same follows
in the opposite order.

At the end this release writes what the other one does not know: a locked version. Each node gets
the release before once more. It must refuse that partition with a sentence and serve all else.
After another upgrade everything is there.

examples:
  make upgrade-test                                           from the release before
  make upgrade-test UPGRADE_ARGS="--from v0.1.0 --seed 7"
  make upgrade-test UPGRADE_ARGS="--from /src/old --keep /tmp/upgrade --json"
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api_clients import OTHER, Clients
from checked_clients import POST_OF_DELETED, CheckedClients
from convergence import Convergence
from expiring import Expiring
from locked import Locked
from mixed_cluster import MixedCluster
from release_tree import ROOT, release_before, release_tree, version_of
from rolling_load import Load
from running_cluster import await_true
from several_proxies import SeveralProxies
from stored import Stored

#: Requests that each change of a node must meet at the least.
_REQUESTS_BETWEEN = 150


@dataclass
class Report:
    """The steps with their seconds, the answers by kind, and the findings."""

    versions: dict[str, str]
    seed: int
    steps: dict[str, float] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.steps[what] = round(time.monotonic() - began, 1)
        found = f"{len(self.findings)} findings"
        print(f"{what}: {self.steps[what]} s, {found}", file=sys.stderr, flush=True)


class Upgrade:
    """The steps, on a running cluster of the old release."""

    def __init__(self, cluster: MixedCluster, old: Path, new: Path, report: Report) -> None:
        self._cluster = cluster
        self._old, self._new = old, new
        self._report = report
        self._clients = self._new_clients("stored")
        with report.step("objects stored by the release before"):
            self._stored = Stored(self._clients)
            self._expiring = Expiring(self._clients)
            self._read_back("stored")
        self._load = Load(self._new_clients, self._stored.checks, report.seed)
        chance = random.Random(report.seed)
        accounts = [
            SeveralProxies(
                cluster.proxies, *OTHER, lambda _: chance.randrange(len(cluster.proxies))
            )
            for _ in range(3)
        ]
        self._checked = CheckedClients(accounts[1:], report.seed)
        self._convergence = Convergence(cluster, self._checked, accounts[0])

    def run(self) -> None:
        """Upgrade and back under load, then once more with what the old release does not know."""
        nodes = list(self._cluster.nodes)
        self._roll("upgrade", nodes, self._new)
        with self._report.step("an upload that the release before began is completed"):
            self._stored.finish()
        self._roll("way back", nodes[::-1], self._old)
        self._note_answers()
        self._locked(nodes)
        self._clients.close()
        self._load.close()

    def _roll(self, what: str, nodes: Iterable[int], tree: Path) -> None:
        """Change the release of all nodes under load; then all replicas must become equal."""
        with self._load.running(), self._checked.running():
            self._await_requests()
            for number in nodes:
                with self._report.step(f"{what}: node {number}"):
                    self._change(number, tree)
                    self._await_requests()
        with self._report.step(f"{what}: equal replicas, everything is read"):
            _, left = self._convergence.await_all(240.0)
            self._report.findings += [f"{what}: {finding}" for finding in left]
            self._checked.check_all()
            self._report.findings += self._convergence.check_bodies(240.0)
            self._read_back(what)
            self._expiring.await_gone(self._clients)

    def _change(self, number: int, tree: Path) -> None:
        self._cluster.change_release(number, tree)
        await_true(lambda: not self._cluster.recon(), "martlet recon finds nothing wrong", 60.0)

    def _locked(self, nodes: list[int]) -> None:
        """A locked version of the new release before the old one, and after it."""
        with self._report.step("second upgrade"):
            for number in nodes:
                self._cluster.change_release(number, self._new)
        self._connect_again("locked")
        locked = Locked(self._cluster, self._clients, self._stored.names())
        with self._report.step("second way back, with a locked version"):
            for number in nodes[::-1]:
                self._cluster.change_release(number, self._old)
            self._report.findings += locked.findings_in_old_release(self._clients)
            self._read_back("old release beside a locked version")
        with self._report.step("third upgrade: everything is read"):
            for number in nodes:
                self._cluster.change_release(number, self._new)
            self._connect_again("third")
            self._report.findings += locked.findings_in_new_release(self._clients)
            self._read_back("third upgrade")

    def _read_back(self, when: str) -> None:
        found = [check.finding(self._clients) for check in self._stored.checks]
        self._report.findings += [f"{when}: {finding}" for finding in found if finding]

    def _await_requests(self) -> None:
        def count() -> int:
            return sum(self._checked.verdicts.counts.values()) + sum(self._load.counts.values())

        wanted = count() + _REQUESTS_BETWEEN
        await_true(lambda: count() >= wanted, "requests under way")

    def _note_answers(self) -> None:
        """Nothing that the clients under load got may be a failure."""
        counts = self._checked.verdicts.counts
        self._report.answers = dict(sorted((counts + self._load.counts).items()))
        # The release before may answer a POST so, if one replica has missed the delete.
        counts = counts - Counter({"POST 503": counts[POST_OF_DELETED]})
        del counts[POST_OF_DELETED]
        failed = [f"{count} times {what}" for what, count in counts.items() if not _is_well(what)]
        self._report.findings += failed + self._checked.verdicts.violations + self._load.findings

    def _connect_again(self, name: str) -> None:
        """A kept connection may have its next answer from a worker of the old release."""
        self._clients.close()
        self._clients = self._new_clients(name)

    def _new_clients(self, name: str) -> Clients:
        return Clients(self._cluster.proxies, f"{self._report.seed}.{name}")


def _is_well(what: str) -> bool:
    """Whether a count of ``CheckedClients`` is no failure: a kind of read, or a good status."""
    method, _, status = what.partition(" ")
    return not method.isupper() or status in ("200", "201", "202", "204", "404")


def main() -> int:
    """Return the exit status: 0 if nothing was found."""
    arguments = _parse()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    old, new = release_tree(arguments.old or release_before()), release_tree(arguments.new)
    versions = {"from": version_of(old), "to": version_of(new)}
    if versions["from"] == versions["to"]:
        raise SystemExit(f"both trees have the version {versions['to']}: name commits")
    report = Report(versions, seed)
    print(f"upgrade: {versions}, seed {seed}", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        home = arguments.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="martlet-upgrade-"))
        )
        cluster = MixedCluster(home / "home", old)
        stack.callback(cluster.stop)
        with report.step("four nodes of the release before"):
            cluster.start()
        Upgrade(cluster, old, new, report).run()
    print(json.dumps(vars(report), indent=2) if arguments.json else _table(report))
    return 1 if report.findings else 0


def _table(report: Report) -> str:
    lines = [f"upgrade: from {report.versions['from']} to {report.versions['to']}"]
    rows: dict[str, Any] = {f"seconds: {what}": took for what, took in report.steps.items()}
    rows |= report.answers
    lines += [f"{what:66} {value}" for what, value in rows.items()]
    lines += ["", *(f"FOUND: {finding}" for finding in report.findings[:50])]
    lines.append(f"upgrade: seed {report.seed}, {len(report.findings)} findings")
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    description, _, examples = (__doc__ or "").partition("examples:\n")
    parser = argparse.ArgumentParser(
        prog="upgrade",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--from",
        dest="old",
        metavar="TREE",
        help="a commit, or a built tree (default: the last tag, or RELEASE_BEFORE)",
    )
    parser.add_argument(
        "--to", dest="new", metavar="TREE", default=str(ROOT), help="(default: this tree)"
    )
    parser.add_argument("--seed", type=int, help="chosen and printed if it is not given")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the cluster in this directory"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
