# SPDX-License-Identifier: Apache-2.0
"""A run: the peers are set up, started together, and measured in turns."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from processes import FlushCount

from compare.build import PROGRAMS, NotBuilt, build, built
from compare.completion import CompletionSample, Parts, measure_completion
from compare.peers import Peer
from compare.report import PeerFacts
from compare.running import NotStarted, Running
from compare.signed import Refused
from compare.versions import VersionSample, measure_versions
from compare.workload import (
    WARM_UP_BYTES,
    Options,
    Sample,
    WrongContent,
    measure,
    send,
    warm_up,
)

_T = TypeVar("_T")
_IDLE_SECONDS = 2.0
_FLUSH_PUTS = 128


def say(text: str) -> None:
    """Show progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class _Contender:
    peer: Peer
    running: Running
    facts: PeerFacts


class Session:
    """The peers of a run and what was measured of them."""

    def __init__(self, directory: Path, options: Options, stack: ExitStack) -> None:
        """The peers run until the stack is closed."""
        self._directory = directory
        self._options = options
        self._stack = stack
        self._contenders: list[_Contender] = []
        self._missing: list[PeerFacts] = []
        self.samples: list[Sample] = []
        self.versions: list[VersionSample] = []
        self.completions: list[CompletionSample] = []

    def start(self, peers: Sequence[Peer], programs: Mapping[str, Path | str]) -> None:
        """Start peers and warm them up. A text in place of a program is why it is missing."""
        for peer in peers:
            program = programs.get(peer.program or "", Path(sys.executable))
            facts = PeerFacts(peer.name, _version(peer, program), peer.copies)
            if isinstance(program, str):
                self._leave_out(facts, program)
                continue
            say(f"{peer.name}: starting")
            home = self._directory / peer.name
            home.mkdir()
            try:
                running = self._stack.enter_context(peer.start(program, home))
                idle = _idle_cpu(running)
                facts = replace(
                    facts, memory_fresh_mib=running.memory_mib(), idle_cpu_ms_per_second=idle
                )
                for target in running.targets.values():
                    warm_up(running, target, self._options)
                flushes = self._flushes_per_put(running)
            except (NotStarted, WrongContent) as error:
                self._leave_out(facts, str(error))
                continue
            facts = replace(facts, flushes_per_put=flushes)
            self._contenders.append(_Contender(peer, running, facts))

    def _leave_out(self, facts: PeerFacts, reason: str) -> None:
        say(f"{facts.name}: left out: {reason}")
        self._missing.append(replace(facts, missing=" ".join(reason.split())))

    def _flushes_per_put(self, running: Running) -> float | None:
        """Count with strace in a pass of its own, because strace slows the peer down."""
        if not FlushCount.is_possible():
            return None
        target = running.targets["s3"]
        names = [f"{target.container}/flush-{number}" for number in range(_FLUSH_PUTS)]
        steps = [target.put(name, WARM_UP_BYTES) for name in names]
        with tempfile.TemporaryDirectory(dir=self._directory) as scratch:
            count = FlushCount({str(pid): pid for pid in running.pids}, Path(scratch))
            try:
                count.start()
            except RuntimeError as error:
                say(f"flushes are not counted: {error}")
                return None
            send(running, target, steps, self._options.clients, self._options.processes)
            return sum(count.stop().values()) / _FLUSH_PUTS

    def cpu_ms(self) -> float:
        """The CPU time of all peers."""
        return sum(contender.running.cpu_ms() for contender in self._contenders)

    def measure(self, sizes: Sequence[int], apis: Sequence[str], rounds: int) -> None:
        """Measure all operations, round by round; the first peer is another one in each."""
        turns = [
            (contender, target)
            for contender in self._contenders
            for api, target in contender.running.targets.items()
            if api in apis
        ]
        for number in range(rounds):
            for size_bytes in sizes:
                for contender, target in rotated(turns, number):
                    name = contender.peer.name
                    found = measure(
                        name, contender.running, target, size_bytes, self._options, number
                    )
                    self.samples += found
                    told = ", ".join(f"{one.operation} {one.cpu_ms:.2f}" for one in found)
                    errors = sum(one.errors for one in found)
                    more = f"; {errors} errors: {_first_error(found)}" if errors else ""
                    where = f"round {number + 1}/{rounds}, {size_bytes:,} bytes"
                    say(f"{where}, {name} ({target.api}): CPU ms {told}{more}")

    def measure_versions(self, counts: Sequence[int]) -> None:
        """Measure the object with many versions at each peer."""
        for contender in self._contenders if counts else []:
            say(f"{contender.peer.name}: an object with up to {max(counts):,} versions")
            target = contender.running.targets["s3"]
            name = contender.peer.name
            try:
                for found in measure_versions(name, contender.running, target, counts):
                    self.versions.append(found)
            except Refused as error:
                say(f"{name}: no versions: {error}")

    def measure_completions(self, parts: Parts, rounds: int) -> None:
        """Measure the completion of a multipart upload at each peer, round by round."""
        refusing: set[str] = set()
        for number in range(rounds):
            for contender in rotated(self._contenders, number):
                name, target = contender.peer.name, contender.running.targets["s3"]
                if name in refusing:
                    continue
                try:
                    found = measure_completion(name, contender.running, target, parts, number)
                except Refused as error:
                    refusing.add(name)
                    say(f"{name}: no completion: {error}")
                    continue
                self.completions.append(found)
                said = f"{found.took_ms:.1f} ms, CPU ms {found.cpu_ms:.1f}"
                say(f"round {number + 1}/{rounds}, {name}: a completion took {said}")

    def facts(self) -> list[PeerFacts]:
        """The facts of each peer, with the memory it has now."""
        measured = [
            replace(contender.facts, memory_mib=contender.running.memory_mib())
            for contender in self._contenders
        ]
        return measured + self._missing


def set_up(
    peers: Sequence[Peer], binaries: Mapping[str, Path], cache: Path
) -> dict[str, Path | str]:
    """Build the programs of the peers; a text is the reason why one is missing."""
    found: dict[str, Path | str] = {}
    for name in dict.fromkeys(peer.program for peer in peers if peer.program):
        program = PROGRAMS[name]
        if name in binaries:
            found[name] = binaries[name].absolute()
            continue
        if not built(program, cache).exists():
            say(f"{name}: building {program.package}@{program.version}, which takes minutes, once")
        try:
            found[name] = build(program, cache)
        except NotBuilt as error:
            say(f"{name}: not built: {error}")
            found[name] = str(error)
    return found


def rotated(turns: list[_T], number: int) -> list[_T]:
    """The turns, from another one on in each round."""
    first = number % len(turns) if turns else 0
    return turns[first:] + turns[:first]


def _version(peer: Peer, program: Path | str) -> str:
    if peer.program is None:
        return version(peer.name)
    if isinstance(program, Path) and built(PROGRAMS[peer.program], program.parent) != program:
        return str(program)
    return PROGRAMS[peer.program].version


def _idle_cpu(running: Running) -> float:
    """The CPU milliseconds for each second without a request."""
    time.sleep(_IDLE_SECONDS)  # what a start leaves to do
    before = running.cpu_ms()
    time.sleep(_IDLE_SECONDS)
    return (running.cpu_ms() - before) / _IDLE_SECONDS


def _first_error(samples: Sequence[Sample]) -> str:
    return next((one.first_error for one in samples if one.errors), "")
