"""Random faults of a cluster under load, round after round, and a check after each.

The cluster has four nodes with all background jobs. In each round clients write, read and delete
objects whose possible states they know. Meanwhile servers are killed or stopped, devices vanish,
disks are ill or replaced, bits flip, networks lose requests or answers, and the ring changes. Then
the faults end and the clients stop. The cluster has to reach equal replicas by itself: every
acknowledged object on each of its primaries with the right bytes, every deleted one gone, nothing
left on hand-offs, listings and counts of containers right.

The seed decides which faults are made. What the servers do in between is not repeatable.

examples:
  make nemesis                                              ten minutes
  make nemesis NEMESIS_ARGS="--seconds 3600 --seed 7"
  make nemesis NEMESIS_ARGS="--rounds 3 --json --keep /tmp/nemesis"
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checked_clients import CheckedClients
from convergence import Convergence
from faults import NODES, Fault, Faults
from ill_disk import IllDisk, build_program, can_mount
from running_cluster import RunningCluster
from swift_api import Account

_ROUND_SECONDS = (6.0, 20.0)
_PAUSE_SECONDS = (0.5, 4.0)
_OWN_NETWORK = "MARTLET_NEMESIS_NETWORK"


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
    has_network = _enter_own_network()
    seed = arguments.seed if arguments.seed is not None else random.randrange(10**6)
    print(f"nemesis: seed {seed}", file=sys.stderr, flush=True)
    with ExitStack() as stack:
        home = arguments.keep or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="martlet-nemesis-"))
        )
        disk = _disk(home, seed, stack)
        cluster = RunningCluster(home / "home", "--nodes", str(NODES), background=True).start()
        stack.callback(cluster.stop)
        if disk:
            stack.callback(disk.heal)  # a process that hangs cannot be stopped
        rounds, clients = _run(cluster, arguments, seed, disk, has_network)
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
    cluster: RunningCluster,
    arguments: argparse.Namespace,
    seed: int,
    disk: IllDisk | None,
    has_network: bool,
) -> tuple[list[Round], CheckedClients]:
    chance = random.Random(seed)
    clients = CheckedClients(cluster.port, arguments.clients, seed)
    account = Account(cluster.port, "test2:tester2", "testing2")
    convergence = Convergence(cluster, clients, account)
    faults = Faults(cluster, chance, _victim(seed), disk, has_network)
    until = time.monotonic() + arguments.seconds
    rounds: list[Round] = []
    while time.monotonic() < until and len(rounds) < arguments.rounds:
        one = Round(len(rounds) + 1)
        rounds.append(one)
        with clients.running():
            one.faults = _make_faults(faults, chance)
        one.seconds, one.findings = convergence.await_all(arguments.patience)
        if not one.findings:
            clients.check_all()
            one.findings += clients.verdicts.violations
            clients.verdicts.violations = []
        if not one.findings:
            one.findings += convergence.check_bodies()
        _say(one)
        if one.findings:
            break  # the next rounds would find the same
    account.close()
    clients.close()
    return rounds, clients


def _make_faults(faults: Faults, chance: random.Random) -> list[str]:
    """Begin some faults, at first the one that destroys data; end all; return their names.

    Data is destroyed while all replicas are equal: an acknowledged write of this round, which
    perhaps only two nodes have, is not lost by it.
    """
    chosen: list[Fault] = [faults.destructive()] if chance.random() < 0.6 else []
    chosen += [faults.harmless() for _ in range(chance.randint(1, 4))]
    seconds = chance.uniform(*_ROUND_SECONDS)
    ends: list[Callable[[], None]] = []
    began = time.monotonic()
    try:
        for fault in chosen:
            ends.append(fault.begin())
            time.sleep(chance.uniform(*_PAUSE_SECONDS))
            if ends and chance.random() < 0.3:
                ends.pop(chance.randrange(len(ends)))()
        time.sleep(max(0.0, began + seconds - time.monotonic()))
    finally:
        for end in reversed(ends):
            end()
    return [fault.name for fault in chosen]


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


def _enter_own_network() -> bool:
    """Start again in a network of its own, if this user may make one; return whether it is there.

    There the rules of routing can be changed, which lets requests get lost.
    """
    if os.environ.get(_OWN_NETWORK):
        return True
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        print("nemesis: no faults of the network: they need root, unshare and ip", file=sys.stderr)
        return False
    prepare = (
        "ip link set lo up && ip rule add pref 100 table local && ip rule del pref 0 && "
        'exec "$0" "$@"'
    )
    command = ["unshare", "--net", "sh", "-c", prepare, sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**os.environ, _OWN_NETWORK: "yes"})


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
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
