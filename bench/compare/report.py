# SPDX-License-Identifier: Apache-2.0
"""The result of a comparison: medians, ratios to martlet, tables in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from compare.completion import CompletionSample
from compare.versions import VersionSample
from compare.workload import Sample

OURS = "martlet"
VOID = "errors"
API_NAMES = {"s3": "S3, signatures checked", "swift": "Swift's API"}
#: Group commits share flushes; fewer per PUT than this are those of databases and of chance.
_FLUSHES_MIN = 0.02
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class PeerFacts:
    """The facts of a peer that was measured, or the reason why it was not."""

    name: str
    version: str
    copies: str
    flushes_per_put: float | None = None
    memory_fresh_mib: float = 0.0
    memory_mib: float = 0.0
    idle_cpu_ms_per_second: float = 0.0
    missing: str = ""

    @property
    def safety(self) -> str:
        """The copies, and whether a PUT waits for a disk."""
        if self.flushes_per_put is None:
            return self.copies
        flushed = "flushed" if self.flushes_per_put >= _FLUSHES_MIN else "not flushed"
        return f"{self.copies}, {flushed}"


@dataclass(frozen=True)
class Result:
    """All that a run has recorded."""

    machine: Mapping[str, Any]
    peers: Sequence[PeerFacts]
    samples: Sequence[Sample]
    versions: Sequence[VersionSample] = field(default_factory=list)
    completions: Sequence[CompletionSample] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """From what ``to_json`` returned."""
        return cls(
            data["machine"],
            [PeerFacts(**peer) for peer in data["peers"]],
            [Sample(**sample) for sample in data["samples"]],
            [VersionSample(**sample) for sample in data["versions"]],
            [CompletionSample(**sample) for sample in data.get("completions", [])],
        )


@dataclass(frozen=True)
class Cell:
    """The medians over the rounds of one operation of a size at one peer."""

    cpu_ms: float
    per_second: float
    median_ms: float
    p99_ms: float
    client_cpu_ms: float
    errors: int


Key = tuple[str, str, int, str]  # API, operation, size, peer


def cells(samples: Iterable[Sample]) -> dict[Key, Cell]:
    """The medians of each operation; errors of all rounds are added."""
    grouped: dict[Key, list[Sample]] = {}
    for one in samples:
        grouped.setdefault((one.api, one.operation, one.size_bytes, one.peer), []).append(one)
    return {
        key: Cell(
            statistics.median(one.cpu_ms for one in group),
            statistics.median(one.per_second for one in group),
            statistics.median(one.median_ms for one in group),
            statistics.median(one.p99_ms for one in group),
            statistics.median(one.client_cpu_ms for one in group),
            sum(one.errors for one in group),
        )
        for key, group in grouped.items()
    }


def size_name(size_bytes: int) -> str:
    """A size as people write it."""
    for unit, name in _UNITS:
        if size_bytes >= unit and size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


def number(value: float) -> str:
    """A figure with three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def markdown(result: Result) -> str:
    """All tables."""
    measured = cells(result.samples)
    parts = [_machine_line(result), _peers_table(result.peers)]
    for api in sorted({key[0] for key in measured}):
        ours = {key: cell for key, cell in measured.items() if key[0] == api}
        name = API_NAMES[api]
        parts.append(f"CPU of all processes per operation, ms ({name}); ratio to {OURS}:")
        parts.append(_table(ours, lambda cell: cell.cpu_ms))
        parts.append(f"Operations per second ({name}); ratio to {OURS}:")
        parts.append(_table(ours, lambda cell: cell.per_second))
        parts.append(f"Latency, median / p99, ms ({name}):")
        parts.append(_latency_table(ours))
        parts.append(f"The client's own CPU per operation, ms ({name}):")
        parts.append(_grid(ours, lambda cell, _: number(cell.client_cpu_ms) if cell else ""))
    if result.versions:
        parts.append("One object with many versions (S3), one client: median ms (CPU ms):")
        parts.append(_versions_table(result.versions))
    if result.completions:
        parts.append("Completion of an upload (S3), one client: median ms (CPU ms):")
        parts.append(_completions_table(result.completions))
    errors = [one for one in result.samples if one.errors]
    parts += [f"Error: {one.peer}, {one.api}, {one.operation}: {one.first_error}" for one in errors]
    return "\n\n".join(parts) + "\n"


def _machine_line(result: Result) -> str:
    machine = result.machine
    return (
        f"{machine['at']}, commit {machine['commit']}, {machine['processors']} processors, "
        f"Linux {machine['kernel']}, {machine['file_system']}, "
        f"Python {machine.get('python', 'unknown')}; {machine['rounds']} rounds of "
        f"{machine['objects']} objects, {machine['clients']} clients. "
        f"Load before: {machine['load_before']}; other programs took "
        f"{machine['others_percent']:.0f} % of the processors meanwhile. The client took "
        f"{machine['client_percent']:.0f} %."
    )


def _row(values: Iterable[str]) -> str:
    return "| " + " | ".join(values) + " |"


def _peers_table(peers: Sequence[PeerFacts]) -> str:
    heads = ("peer", "version", "copies", "flushes per PUT", "MiB fresh", "MiB after")
    lines = [_row((*heads, "CPU idle, ms/s")), _row(["---"] * 7)]
    for peer in peers:
        if peer.missing:
            lines.append(
                _row((peer.name, peer.version, f"not measured: {peer.missing}", *[""] * 4))
            )
            continue
        flushes = peer.flushes_per_put
        figures = (peer.memory_fresh_mib, peer.memory_mib, peer.idle_cpu_ms_per_second)
        counted = "not counted" if flushes is None else f"{flushes:.2f}"
        values = [f"{value:.0f}" for value in figures[:2]] + [f"{figures[2]:.1f}"]
        lines.append(_row((peer.name, peer.version, peer.safety, counted, *values)))
    return "\n".join(lines)


def _grid(measured: Mapping[Key, Cell], text: Callable[[Cell | None, Cell | None], str]) -> str:
    """A row for each operation and size, a column for each peer; ``text`` also gets martlet's."""
    peers = list(dict.fromkeys(key[3] for key in measured))
    peers.sort(key=lambda name: name != OURS)
    lines = [_row(("", *peers)), _row(["---"] * (len(peers) + 1))]
    for api, operation, size in dict.fromkeys(key[:3] for key in measured):
        found = [measured.get((api, operation, size, peer)) for peer in peers]
        ours = measured.get((api, operation, size, OURS))
        cells_of_row = (
            text(cell, None if peer == OURS else ours)
            for peer, cell in zip(peers, found, strict=True)
        )
        lines.append(_row((f"{operation} {size_name(size)}", *cells_of_row)))
    return "\n".join(lines)


def _table(measured: Mapping[Key, Cell], value: Callable[[Cell], float]) -> str:
    def text(cell: Cell | None, ours: Cell | None) -> str:
        if cell is None:
            return ""
        if cell.errors:
            return VOID
        if ours is None or ours.errors or not value(ours):
            return number(value(cell))
        return f"{number(value(cell))} ({value(cell) / value(ours):.2f})"

    return _grid(measured, text)


def _latency_table(measured: Mapping[Key, Cell]) -> str:
    def text(cell: Cell | None, ours: Cell | None) -> str:
        if cell is None:
            return ""
        return VOID if cell.errors else f"{number(cell.median_ms)} / {number(cell.p99_ms)}"

    return _grid(measured, text)


def _versions_table(samples: Sequence[VersionSample]) -> str:
    peers = list(dict.fromkeys(one.peer for one in samples))
    found = {(one.operation, one.versions, one.peer): one for one in samples}
    lines = [_row(("", *peers)), _row(["---"] * (len(peers) + 1))]
    for operation in dict.fromkeys(one.operation for one in samples):
        for count in dict.fromkeys(one.versions for one in samples):
            row = [f"{operation}, {count:,} versions"]
            for peer in peers:
                one = found.get((operation, count, peer))
                row.append(f"{number(one.median_ms)} ({number(one.cpu_ms)})" if one else "")
            lines.append(_row(row))
    return "\n".join(lines)


def _completions_table(samples: Sequence[CompletionSample]) -> str:
    peers = list(dict.fromkeys(one.peer for one in samples))
    lines = [_row(("", *peers)), _row(["---"] * (len(peers) + 1))]
    row = [f"{samples[0].parts} parts of {size_name(samples[0].size_bytes)}"]
    for peer in peers:
        found = [one for one in samples if one.peer == peer]
        took, cpu = (statistics.median(values) for values in zip(*map(_times, found), strict=True))
        row.append(f"{number(took)} ({number(cpu)})")
    return "\n".join([*lines, _row(row)])


def _times(sample: CompletionSample) -> tuple[float, float]:
    return sample.took_ms, sample.cpu_ms
