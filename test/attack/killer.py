"""Kills and stops random servers of a cluster, and reads the resources of their processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from processes import process_tree, services, usage
from running_cluster import RunningCluster, await_true

_PAUSE_SECONDS = (0.5, 12.0)
_STOPPED_SECONDS = (0.05, 3.0)
#: How many of ten attacks on a server stop it for a moment; the others kill it.
_STOPS_OF_TEN = 2


@dataclass(frozen=True)
class Incident:
    """One server killed, or stopped and continued."""

    service: str
    #: The start, and the return of the server, by the monotonic clock.
    began: float
    ended: float
    is_kill: bool


def attack_servers(cluster: RunningCluster, seed: int, until: float) -> list[Incident]:
    """Attack one server at a time, either with all its workers or one worker alone."""
    chance = random.Random(seed)
    incidents: list[Incident] = []
    while True:
        pause = chance.uniform(*_PAUSE_SECONDS)
        if time.monotonic() + pause + _STOPPED_SECONDS[1] > until:
            return incidents
        time.sleep(pause)  # normal operation between two attacks
        service = chance.choice([name for name in services(cluster.home) if name != "supervisor"])
        incidents.append(_attack(cluster, service, chance))


def _attack(cluster: RunningCluster, service: str, chance: random.Random) -> Incident:
    tree = process_tree(cluster.pid_of(service))
    victim = chance.choice(tree)
    began = time.monotonic()
    is_kill = chance.random() * 10 >= _STOPS_OF_TEN
    with contextlib.suppress(ProcessLookupError):
        if is_kill:
            os.kill(victim, signal.SIGKILL)
        else:
            os.kill(victim, signal.SIGSTOP)
            time.sleep(chance.uniform(*_STOPPED_SECONDS))  # the time it is stopped
            os.kill(victim, signal.SIGCONT)
    if is_kill and victim == tree[0]:
        await_true(lambda: is_new(cluster, service, victim), f"a new {service}")
    return Incident(service, began, time.monotonic(), is_kill)


def is_new(cluster: RunningCluster, service: str, old: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return cluster.pid_of(service) != old
    return False


@dataclass(frozen=True)
class Held:
    """The resources of one service with all its workers."""

    resident_mib: float
    files: int
    threads: int


def held(home: Path) -> dict[str, Held]:
    """Return the current memory, files and threads of each service, by its name."""
    memory = usage(home)
    found = {}
    for name, pid in services(home).items():
        members = [pid] if name == "supervisor" else process_tree(pid)
        found[name] = Held(
            memory[name].resident_mib,
            sum(_entries(f"/proc/{member}/fd") for member in members),
            sum(_entries(f"/proc/{member}/task") for member in members),
        )
    return found


def _entries(directory: str) -> int:
    try:
        return len(os.listdir(directory))
    except OSError:
        return 0
