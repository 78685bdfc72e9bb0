"""Attack a cluster of this tree in many ways, and check each acknowledged operation.

The cluster has four nodes. These run in parallel: clients that know the possible states of their
objects; clients that send invalid requests and endless streams; connections that are idle or send a
byte a second; random kills and stops of servers. Afterwards every object is read from all replicas.

The run fails if an acknowledged change is lost or an object has bytes that were never stored in it.
It also fails if an answer is wrong or health checks take too long.

examples:
  make attack                                          five minutes
  make attack ATTACK_ARGS="--seconds 60 --seed 7"
  make attack ATTACK_ARGS="--seconds 60 --background"  with replicators beside it
  make attack ATTACK_ARGS="--idle 10000 --dripping 2000 --no-kills"
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from checked_clients import CheckedClients
from hostile_clients import pour, send_nonsense
from killer import Incident, attack_servers, held
from running_cluster import RunningCluster, await_true
from slow_clients import Health, check_health, keep_connections
from swift_api import Account

#: The longest median of the health checks on a machine with nothing else to do.
HEALTH_SECONDS_MAX = 0.5
#: A read this long after a server's return is never outdated if a live replica is newer.
SETTLED_SECONDS = 5.0
_FILES_WANTED = 40_000
_START_SECONDS_MAX = 120.0
#: In a process of the pool: shared with the other processes.
_barrier: list[Barrier] = []


def main() -> int:
    """Return the exit status: 0 if no fault was found."""
    arguments = _parse()
    _raise_file_limit(arguments.idle + arguments.dripping)
    with tempfile.TemporaryDirectory(prefix="martlet-attack-") as directory:
        home = Path(directory) / "home"
        cluster = RunningCluster(home, "--nodes", "4", background=arguments.background).start()
        try:
            report = _attack(cluster, arguments)
        finally:
            cluster.stop()
    print(json.dumps(report, indent=2) if arguments.json else _table(report))
    return 1 if report["findings"] else 0


def _attack(cluster: RunningCluster, arguments: argparse.Namespace) -> dict[str, Any]:
    # Not the account of the hostile clients: they may set a quota.
    accounts = [
        Account(cluster.port, "test2:tester2", "testing2") for _ in range(arguments.clients)
    ]
    clients = CheckedClients(accounts, arguments.seed)
    before = held(cluster.home)
    port, seed = cluster.port, arguments.seed
    context = multiprocessing.get_context("spawn")  # none of this process's threads
    roles = arguments.hostile + 3
    with ProcessPoolExecutor(roles, context, _share, (context.Barrier(roles),)) as pool:
        list(pool.map(_await_all, range(roles)))  # on a busy machine some take seconds to start
        until = time.monotonic() + arguments.seconds
        health = pool.submit(check_health, port, until)
        slow = pool.submit(keep_connections, port, arguments.idle, arguments.dripping, until)
        poured = pool.submit(pour, port, seed, until)
        nonsense = [
            pool.submit(send_nonsense, port, seed + n, until) for n in range(arguments.hostile)
        ]
        with clients.running():
            incidents = []
            if arguments.kills:
                incidents = attack_servers(cluster, seed, until)
            time.sleep(max(0.0, until - time.monotonic()))  # the attack has a fixed length
        findings = [text for seen in nonsense for text in seen.result().findings]
        checked = health.result()
    time.sleep(arguments.quiet)  # the proxy closes idle connections and frees memory
    await_true(  # the last attack awaited a new process, not its answer
        lambda: {entry["state"] for entry in cluster.services().values()} == {"ok"},
        "all services answer",
    )
    clients.check_all()
    clients.close()
    findings += [
        *clients.verdicts.violations,
        *_outdated(clients, incidents),
        *_slow(checked, arguments.health),
    ]
    return {
        "seconds": arguments.seconds,
        "seed": seed,
        "incidents": [asdict(incident) for incident in incidents],
        "connections opened by slow clients": slow.result(),
        "endless streams refused": poured.result(),
        "requests of nonsense": sum(seen.result().statuses.total() for seen in nonsense),
        "answers": dict(sorted(clients.verdicts.counts.items())),
        "health check, seconds": _quantiles(checked.seconds),
        "health check, failures": dict(checked.failures),
        "held before": {name: asdict(value) for name, value in before.items()},
        "held after": {name: asdict(value) for name, value in held(cluster.home).items()},
        "findings": findings,
    }


def _share(barrier: Barrier) -> None:
    _barrier.append(barrier)


def _await_all(_: int) -> None:
    """Block this process until each process of the pool has started."""
    _barrier[0].wait(_START_SECONDS_MAX)


def _outdated(clients: CheckedClients, incidents: list[Incident]) -> list[str]:
    """Return the outdated reads at times when no server had been down for a while."""
    return [
        f"outdated read: {what}"
        for at, what in clients.verdicts.outdated
        if not any(i.began <= at <= i.ended + SETTLED_SECONDS for i in incidents)
    ]


def _slow(health: Health, seconds_max: float) -> list[str]:
    """Judge the median of the checks: the proxy is killed as well, so some checks fail or wait."""
    typical = statistics.median(health.seconds)
    if typical > seconds_max:
        return [f"a health check took {typical:.2f} s in the median"]
    return []


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median": round(statistics.median(ordered), 4),
        "p99": round(ordered[len(ordered) * 99 // 100], 4),
        "most": round(ordered[-1], 4),
        "checks": len(ordered),
    }


def _table(report: dict[str, Any]) -> str:
    lines = [f"attack: {report['seconds']} s, seed {report['seed']}"]
    kills = sum(incident["is_kill"] for incident in report["incidents"])
    lines.append(f"{'servers killed':42} {kills}")
    lines.append(f"{'servers stopped for a moment':42} {len(report['incidents']) - kills}")
    for name, value in report.items():
        if isinstance(value, int) and name not in ("seconds", "seed"):
            lines.append(f"{name:42} {value}")
    for group in ("health check, seconds", "health check, failures", "answers"):
        lines += [f"{group}: {name:{40 - len(group)}} {n}" for name, n in report[group].items()]
    lines.append(f"\n{'':28}{'MiB resident':>20}{'open files':>20}{'threads':>20}")
    for name, before in report["held before"].items():
        after = report["held after"].get(name, before)
        cells = "".join(f"{before[key]:10.0f} → {after[key]:<7.0f}" for key in before)
        lines.append(f"{name:28}{cells}")
    lines += ["", *(f"FOUND: {finding}" for finding in report["findings"][:50])]
    lines.append(f"attack: {len(report['findings'])} findings")
    return "\n".join(lines)


def _raise_file_limit(connections: int) -> None:
    """Raise the limit of open files: each connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_FILES_WANTED, 2 * connections)
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _parse() -> argparse.Namespace:
    description, _, examples = (__doc__ or "").partition("examples:\n")
    parser = argparse.ArgumentParser(
        prog="attack",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=32, help="that are checked")
    parser.add_argument("--hostile", type=int, default=2, help="that send nonsense")
    parser.add_argument("--idle", type=int, default=500, help="connections that say nothing")
    parser.add_argument("--dripping", type=int, default=100, help="that say a byte a second")
    parser.add_argument("--quiet", type=float, default=10.0, help="seconds before the last reads")
    parser.add_argument(
        "--health", type=float, default=HEALTH_SECONDS_MAX, help="longest median of the checks"
    )
    parser.add_argument("--no-kills", dest="kills", action="store_false")
    parser.add_argument("--background", action="store_true", help="with replicators, which heal")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
