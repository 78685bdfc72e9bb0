"""Random faults of a cluster under load, round after round, and a check after each.

The cluster has five hosts with all background jobs and a proxy each. In each round clients write,
read and delete objects whose possible states they know, through any proxy. Meanwhile servers are
killed or stopped, devices vanish, disks are ill or replaced, bits flip, networks are split or lose
packets, and the rings change. In every third seed the clocks of two hosts differ by a minute. Then
the faults end and the clients stop. The cluster has to reach equal replicas by itself: every
acknowledged object on each of its primaries with the right bytes, every deleted one gone, nothing
left on hand-offs, listings and counts of containers right.

The seed decides which faults are made. What the servers do in between is not repeatable.

examples:
  make nemesis                                              ten minutes
  make nemesis NEMESIS_ARGS="--seconds 3600 --seed 7"
  make nemesis NEMESIS_ARGS="--rounds 3 --json --keep /tmp/nemesis"
  make nemesis NEMESIS_ARGS="--only 'split network' --only 'device drained'"
  make nemesis NEMESIS_ARGS="--one-host"                    four nodes that share one network
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checked_clients import CheckedClients
from convergence import Convergence
from fault import End
from faults import NODES, Faults
from hosts import HostsCluster, can_skew
from ill_disk import IllDisk, build_program, can_mount
from networks import enter_own_networks
from running_cluster import RunningCluster
from several_proxies import SeveralProxies

_ROUND_SECONDS = (6.0, 20.0)
_PAUSE_SECONDS = (0.5, 4.0)
#: One more than the nodes that are in the rings at first.
_HOSTS = NODES + 1
_SKEW_SECONDS = 60
_USER = "test2:tester2", "testing2"


@dataclass
class Round:
    """One round: its faults and what was found after them."""

    number: int
    faults: list[str] = field(default_factory=list)
    #: From the end of the faults to equal replicas.
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def main() -> int:
    """Return the exit status: 0 if nothing was found."""
    arguments = _parse()
    has_network = enter_own_networks()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    print(f"nemesis: seed {seed}", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        home = arguments.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="martlet-nemesis-"))
        )
        disk = _disk(home, seed, stack)
        skews = _skews(seed)
        shown = [f"{skew:+d} s" for skew in skews if skew] or ["agree"]
        has_disk = "ill" if disk else "whole"
        print(f"nemesis: clocks {', '.join(shown)}; disk {has_disk}", file=sys.stderr, flush=True)
        cluster = (
            HostsCluster(home / "home", _HOSTS, range(1, NODES + 1), skews)
            if has_network and not arguments.one_host
            else RunningCluster(home / "home", "--nodes", str(NODES), background=True)
        ).start()
        stack.callback(cluster.stop)
        if disk:
            stack.callback(disk.heal)  # a process that hangs cannot be stopped
        chance = random.Random(seed)
        faults = Faults(cluster, chance, _victim(seed), disk, has_network, arguments.only)
        rounds, clients = _run(cluster, arguments, seed, faults)
    findings = [f"round {r.number}: {text}" for r in rounds for text in r.findings]
    report = {
        "seed": seed,
        "rounds": [asdict(one) for one in rounds],
        "answers": dict(sorted(clients.verdicts.counts.items())),
        "findings": findings,
    }
    print(json.dumps(report, indent=2) if arguments.json else _table(report, rounds))
    return 1 if findings else 0


def _run(
    cluster: RunningCluster, arguments: argparse.Namespace, seed: int, faults: Faults
) -> tuple[list[Round], CheckedClients]:
    accounts = [_account(cluster, seed, number) for number in range(arguments.clients)]
    clients = CheckedClients(accounts, seed)
    account = _account(cluster, seed, arguments.clients)
    convergence = Convergence(cluster, clients, account)
    until = time.monotonic() + arguments.seconds
    rounds: list[Round] = []
    while time.monotonic() < until and len(rounds) < arguments.rounds:
        one = Round(len(rounds) + 1)
        rounds.append(one)
        with clients.running():
            one.faults = _make_faults(faults)
        one.seconds, one.findings = convergence.await_all(arguments.patience)
        if not one.findings:
            clients.check_all()
            one.findings += clients.verdicts.violations
            clients.verdicts.violations = []
        if not one.findings:
            one.findings += convergence.check_bodies(arguments.patience)
        _say(one)
        if one.findings:
            break  # the next rounds would find the same
    account.close()
    clients.close()
    return rounds, clients


def _make_faults(faults: Faults) -> list[str]:
    """Begin some faults, at first the one that destroys data; end all; return their names.

    Data is destroyed while all replicas are equal: an acknowledged write of this round, which
    perhaps only two nodes have, is not lost by it.
    """
    faults.begin_round()
    chosen = faults.choose()
    chance = faults.chance
    seconds = chance.uniform(*_ROUND_SECONDS)
    ends: list[End] = []
    last: list[End] = []
    began = time.monotonic()
    try:
        for fault in chosen:
            (last if fault.ends_last else ends).append(fault.begin())
            time.sleep(chance.uniform(*_PAUSE_SECONDS))
            if ends and chance.random() < 0.3:
                ends.pop(chance.randrange(len(ends)))()
        time.sleep(max(0.0, began + seconds - time.monotonic()))
    finally:
        for end in [*reversed(ends), *last]:
            end()
    return [fault.name for fault in chosen]


def _account(cluster: RunningCluster, seed: int, number: int) -> SeveralProxies:
    """A client's view: through any proxy, or if clocks differ through that of the name.

    The last write is the one with the latest timestamp, and proxies make timestamps.
    """
    chance = random.Random(f"{seed}.{number}.proxy")

    def choose(names: Sequence[str]) -> int:
        by_name = zlib.crc32("/".join(names).encode())
        return by_name if any(_skews(seed)) else chance.randrange(_HOSTS)

    return SeveralProxies(cluster.proxies, *_USER, choose)


def _skews(seed: int) -> list[int]:
    """The seconds that the clock of each host is ahead; in every third seed not all the same."""
    skews = [0] * _HOSTS
    if seed % 3 == 0 and can_skew():
        fast, slow = random.Random(seed).sample(range(_HOSTS), 2)
        skews[fast], skews[slow] = _SKEW_SECONDS, -_SKEW_SECONDS
    return skews


def _victim(seed: int) -> int:
    return seed % NODES + 1


def _disk(home: Path, seed: int, stack: ExitStack) -> IllDisk | None:
    """The disk below the victim's device in every second seed; else None."""
    if seed // NODES % 2 or not can_mount():
        return None
    program = build_program(home)
    number = _victim(seed)
    mount_point = home / "home" / "devices" / f"node{number}" / f"d{number}"
    return stack.enter_context(IllDisk(program, home / "disk", mount_point))


def _say(one: Round) -> None:
    text = f"round {one.number}: {', '.join(one.faults)}; equal after {one.seconds:.1f} s"
    print(f"{text}; {len(one.findings)} findings", file=sys.stderr, flush=True)


def _table(report: dict[str, Any], rounds: list[Round]) -> str:
    counts = Counter(name for one in rounds for name in one.faults)
    seconds = sorted(one.seconds for one in rounds)
    lines = [f"nemesis: seed {report['seed']}, {len(rounds)} rounds"]
    lines += [f"{name:42} {count}" for name, count in sorted(counts.items())]
    lines += [f"answers: {name:33} {count}" for name, count in report["answers"].items()]
    lines.append(
        f"seconds until equal: median {seconds[len(seconds) // 2]:.1f}, most {seconds[-1]:.1f}"
    )
    lines += ["", *(f"FOUND: {finding}" for finding in report["findings"][:50])]
    lines.append(f"nemesis: {len(report['findings'])} findings")
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    description, _, examples = (__doc__ or "").partition("examples:\n")
    parser = argparse.ArgumentParser(
        prog="nemesis",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="no round begins later")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="at most")
    parser.add_argument("--seed", type=int, help="chosen and printed if it is not given")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument(
        "--patience", type=float, default=240.0, help="seconds until replicas must be equal"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the cluster in this directory"
    )
    parser.add_argument(
        "--one-host", action="store_true", help="four nodes on 127.0.0.1, as without root"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="FAULT",
        help="a fault, as in the table at the end; may be repeated (default: all)",
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
