# SPDX-License-Identifier: Apache-2.0
"""The passes over a peer: PUT, GET, mixed, LIST, DELETE; and what is recorded of each."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from load import percentile

from compare.apis import Target
from compare.client import Load, Outcome, Step, run
from compare.running import Running

OPERATIONS = ("PUT", "GET", "mixed", "LIST", "DELETE")
#: The shares of warp's mixed load, in percent.
MIXED = {"GET": 45, "HEAD": 30, "PUT": 15, "DELETE": 10}
#: A pass moves at most about this many bytes to or from the peer, and has at least two requests.
BYTES_MAX = 256 << 20
LISTINGS_MAX = 200
#: Through each API: so many that a store which keeps many objects in a file has most of its files.
WARM_UP_OBJECTS = 2048
WARM_UP_BYTES = 4096
READY_SECONDS_MAX = 30.0


class WrongContent(Exception):
    """A peer returned other bytes than were written."""


@dataclass(frozen=True)
class Options:
    """The size of the measurement."""

    objects: int
    clients: int
    processes: int
    operations: tuple[str, ...]

    def count(self, size_bytes: int) -> int:
        """The number of objects of a size."""
        return max(2, min(self.objects, BYTES_MAX // size_bytes))


@dataclass(frozen=True)
class Sample:
    """One pass: an operation of a size at a peer in one round. Errors make the figures void."""

    peer: str
    api: str
    operation: str
    size_bytes: int
    round: int
    requests: int
    per_second: float
    cpu_ms: float
    client_cpu_ms: float
    median_ms: float
    p99_ms: float
    errors: int
    first_error: str = ""


def sample(
    peer: str, api: str, operation: str, size_bytes: int, number: int, outcome: Outcome
) -> Sample:
    """Divide the outcome of a pass by its requests."""
    requests = max(1, len(outcome.latencies_ms))
    return Sample(
        peer=peer,
        api=api,
        operation=operation,
        size_bytes=size_bytes,
        round=number,
        requests=requests,
        per_second=requests / outcome.seconds,
        cpu_ms=outcome.server_cpu_ms / requests,
        client_cpu_ms=outcome.client_cpu_ms / requests,
        median_ms=percentile(outcome.latencies_ms, 0.5),
        p99_ms=percentile(outcome.latencies_ms, 0.99),
        errors=len(outcome.failures),
        first_error=outcome.failures[0] if outcome.failures else "",
    )


def send(
    running: Running, target: Target, steps: Sequence[Step], clients: int, processes: int
) -> Outcome:
    """Send the steps, after what others wrote is on the disk."""
    os.sync()
    load = Load(target.port, target.access, steps)
    return run(load, min(clients, len(steps)), processes, running.cpu_ms)


def warm_up(running: Running, target: Target, options: Options) -> None:
    """Make the container, as soon as the peer can; write and read some objects.

    :raises WrongContent: the answers are not as they must be.
    """
    names = [f"{target.container}/warm-{number}" for number in range(WARM_UP_OBJECTS)]
    for step in (target.make_container(target.container), target.put(names[0], WARM_UP_BYTES)):
        _await_success(running, target, step)
    for steps in (
        [target.put(name, WARM_UP_BYTES) for name in names],
        [target.get(name, WARM_UP_BYTES) for name in names],
    ):
        outcome = send(running, target, steps, options.clients, options.processes)
        if outcome.failures:
            raise WrongContent(outcome.failures[0])


def _await_success(running: Running, target: Target, step: Step) -> None:
    """Send a request again while the peer, which already listens, is not ready."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while (outcome := send(running, target, [step], 1, 1)).failures:
        if time.monotonic() > deadline:
            raise WrongContent(outcome.failures[0])


def passes(target: Target, size_bytes: int, options: Options, number: int) -> dict[str, list[Step]]:
    """The steps of each operation. The PUTs write what the others read and delete."""
    count = options.count(size_bytes)
    prefix = f"r{number}-{size_bytes}-"
    names = [f"{target.container}/{prefix}{index:06}" for index in range(count)]
    chance = random.Random(number)
    mixed, left = _mixed(target, names, size_bytes, chance)
    read = list(names)
    chance.shuffle(read)
    listings = min(LISTINGS_MAX, count)
    return {
        "PUT": [target.put(name, size_bytes) for name in names],
        "GET": [target.get(name, size_bytes) for name in read],
        "LIST": [target.listing(target.container, prefix)] * listings,
        "mixed": mixed,
        "DELETE": [
            target.delete(name) for name in (left if "mixed" in options.operations else names)
        ],
    }


def _mixed(
    target: Target, names: list[str], size_bytes: int, chance: random.Random
) -> tuple[list[Step], list[str]]:
    """A mixed load of as many requests as there are names; and the names that it leaves.

    The last names are only deleted, so that no request meets an object that is gone.
    """
    counts = {method: len(names) * share // 100 for method, share in MIXED.items()}
    kept = names[: len(names) - counts["DELETE"]]
    new = [f"{name}-new" for name in names[: counts["PUT"]]]
    steps = [target.delete(name) for name in names[len(kept) :]]
    steps += [target.put(name, size_bytes) for name in new]
    steps += [target.head(name) for name in chance.choices(kept, k=counts["HEAD"])]
    left = len(names) - len(steps)
    steps += [target.get(name, size_bytes) for name in chance.choices(kept, k=left)]
    chance.shuffle(steps)
    return steps, kept + new


def measure(
    peer: str, running: Running, target: Target, size_bytes: int, options: Options, number: int
) -> list[Sample]:
    """Run the chosen operations; PUT and DELETE run in any case, and are recorded if chosen."""
    samples = []
    for operation, steps in passes(target, size_bytes, options, number).items():
        if operation in ("PUT", "DELETE") or operation in options.operations:
            outcome = send(running, target, steps, options.clients, options.processes)
            if operation in options.operations:
                samples.append(sample(peer, target.api, operation, size_bytes, number, outcome))
    return samples
