"""Differences that applications can see, from the same requests to OpenStack Swift and martlet.

Walks (``walks_*.py``) are random, from a seed. The parts of the answers that a client can rely on
are compared (``answers.py``). ``expected/differences.toml`` lists the intended differences, each
with its reason. A 5xx of Swift that martlet answers otherwise is only counted.
"""

from __future__ import annotations

import random
import re
import secrets
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import walks_access
import walks_bulk
import walks_large
import walks_names
import walks_objects
from answers import Answer
from suite import Result
from wire import Ask, Server

DECIDED = Path(__file__).parent / "expected" / "differences.toml"
WALKS = (
    *walks_names.WALKS,
    *walks_objects.WALKS,
    *walks_large.WALKS,
    *walks_bulk.WALKS,
    *walks_access.WALKS,
)
_WRITES = ("PUT", "POST", "DELETE", "COPY")


@dataclass(frozen=True)
class _Decision:
    """An intended difference: patterns of the request and of the line that describes it."""

    ask: re.Pattern[str]
    line: re.Pattern[str]
    reason: str


@dataclass
class Comparison:
    """The results so far."""

    asked: int = 0
    swift_failed: int = 0
    decided: Counter[str] = field(default_factory=Counter)
    findings: list[Result] = field(default_factory=list)


def run_differences(
    peer_url: str, own_url: str, rounds: int, seed: int, only: Sequence[str] = ()
) -> list[Result]:
    """Run each kind of walk ``rounds`` times; return a failed result for each difference."""
    servers = Server(peer_url), Server(own_url)
    seen = Comparison()
    decisions = _read_decisions()
    for number in range(rounds):
        for walk in WALKS:
            if only and walk.__name__ not in only:
                continue
            name = f"{walk.__name__}.{seed}.{number}"
            # Unique to each run, so that earlier runs leave no trace.
            container = f"{walk.__name__[:4]}{secrets.token_hex(4)}"
            asks = walk(random.Random(name), container)
            _compare(servers, name, asks, decisions, seen)
    print(
        f"conformance: differences, seed {seed}: {seen.asked} requests, {len(seen.findings)} "
        f"answers differ, {seen.swift_failed} are 5xx of Swift's, as decided differ:"
    )
    for reason, count in seen.decided.most_common():
        print(f"  {count} {reason}")
    return seen.findings or [Result(f"differences.{seed}", "passed")]


def _compare(
    servers: tuple[Server, Server],
    name: str,
    asks: Iterator[Ask],
    decisions: Sequence[_Decision],
    seen: Comparison,
) -> None:
    for step, ask in enumerate(asks):
        theirs, ours = (server.ask(ask) for server in servers)
        seen.asked += 1
        left = _undecided(ask, theirs.differences(ours), decisions, seen.decided)
        if _fails(theirs) and not _fails(ours):
            seen.swift_failed += 1
        elif left:
            seen.findings.append(
                Result(f"differences.{name}.{step}", "failed", "; ".join([str(ask), *left]))
            )
        did_other = theirs.status // 100 != ours.status // 100
        if ask.method == "DELETE":
            did_other |= theirs.body != ours.body  # reports of deletions
        if ask.method in _WRITES and did_other:
            return  # from here on the two servers have different objects


def _fails(answer: Answer) -> bool:
    return answer.status >= 500 or not answer.status


def _undecided(
    ask: Ask, lines: Sequence[str], decisions: Sequence[_Decision], counts: Counter[str]
) -> list[str]:
    left = []
    for line in lines:
        said = str(ask)
        reasons = (d.reason for d in decisions if d.ask.search(said) and d.line.search(line))
        reason = next(reasons, None)
        if reason is None:
            left.append(line)
        else:
            counts[reason] += 1
    return left


def _read_decisions() -> list[_Decision]:
    entries = tomllib.loads(DECIDED.read_text())["decided"]
    return [
        _Decision(re.compile(e.get("ask", "")), re.compile(e["line"]), e["reason"]) for e in entries
    ]
