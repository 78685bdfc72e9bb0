# SPDX-License-Identifier: Apache-2.0
"""The plot of a comparison: one dot for each peer and operation on logarithmic axes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from compare.report import OURS, Cell, PeerFacts, Result, cells, number, size_name

WIDTH = 960
_LABELS, _PANEL, _GAP = 220, 320, 50
_TOP, _TITLE, _ROW, _BETWEEN = 92, 26, 22, 20
_OURS, _OTHER, _GRID, _TEXT, _FAINT = "#c2410c", "#475569", "#e2e8f0", "#0f172a", "#64748b"
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


@dataclass(frozen=True)
class _Panel:
    """A column of the plot: a figure, and the range of its axis."""

    left: float
    title: str
    value: Callable[[Cell], float]
    low: float
    high: float

    def x(self, value: float) -> float:
        """The place of a value."""
        span = math.log10(self.high) - math.log10(self.low)
        return self.left + _PANEL * (math.log10(value) - math.log10(self.low)) / span

    def ticks(self) -> Iterator[float]:
        """The powers of ten on the axis."""
        for exponent in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1):
            yield 10.0**exponent


def svg(result: Result, api: str, size_bytes: int) -> str:
    """Draw CPU and rate of each operation at one size through one API.

    :raises ValueError: nothing was measured there.
    """
    chosen = {
        (key[1], key[3]): cell
        for key, cell in cells(result.samples).items()
        if key[0] == api and key[2] == size_bytes and not cell.errors and cell.cpu_ms > 0
    }
    if not chosen:
        raise ValueError(f"nothing to plot: {api}, {size_name(size_bytes)}")
    operations = list(dict.fromkeys(operation for operation, _ in chosen))
    peers = [peer for peer in result.peers if any(name == peer.name for _, name in chosen)]
    panels = [
        _panel(
            _LABELS,
            "CPU per operation, ms, logarithmic (less is better)",
            chosen,
            lambda c: c.cpu_ms,
        ),
        _panel(
            _LABELS + _PANEL + _GAP,
            "operations per second, logarithmic (more is better)",
            chosen,
            lambda c: c.per_second,
        ),
    ]
    block = _TITLE + len(peers) * _ROW + _BETWEEN
    height = _TOP + len(operations) * block + 34
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' "
        f"width='{WIDTH}' height='{height}' {_FONT}>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
        *_heading(result, api, size_bytes),
    ]
    for panel in panels:
        lines += _axis(panel, height)
    for index, operation in enumerate(operations):
        top = _TOP + index * block
        lines.append(_label(16, top + 18, operation, _TEXT, 15, "font-weight='600'"))
        for row, peer in enumerate(peers):
            y = top + _TITLE + row * _ROW + 10
            lines += _peer_row(peer, y, chosen.get((operation, peer.name)), panels)
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def _panel(
    left: float, title: str, chosen: dict[tuple[str, str], Cell], value: Callable[[Cell], float]
) -> _Panel:
    values = [value(cell) for cell in chosen.values()]
    low, high = (
        10.0 ** math.floor(math.log10(min(values))),
        10.0 ** math.ceil(math.log10(max(values))),
    )
    return _Panel(left, title, value, low, high if high > low else low * 10)


def _heading(result: Result, api: str, size_bytes: int) -> Iterator[str]:
    name = "S3 with signatures checked" if api == "s3" else "Swift's API"
    machine = result.machine
    title = f"{size_name(size_bytes)} objects, {machine['clients']} clients, {name}"
    below = (
        f"all processes of each store on one machine of {machine['processors']} processors, "
        f"one file system, medians of {machine['rounds']} rounds; {machine['at']}, "
        f"commit {machine['commit']}"
    )
    yield _label(16, 28, title, _TEXT, 18, "font-weight='600'")
    yield _label(16, 48, below, _FAINT, 12)


def _axis(panel: _Panel, height: float) -> Iterator[str]:
    yield _label(panel.left, 78, panel.title, _FAINT, 12)
    for tick in panel.ticks():
        x = panel.x(tick)
        yield f"<line x1='{x:.1f}' y1='{_TOP}' x2='{x:.1f}' y2='{height - 30}' stroke='{_GRID}'/>"
        text = f"{tick:,.0f}" if tick >= 1 else f"{tick:g}"
        yield _label(x, height - 14, text, _FAINT, 11, "text-anchor='middle'")


def _peer_row(
    peer: PeerFacts, y: float, cell: Cell | None, panels: Sequence[_Panel]
) -> Iterator[str]:
    color = _OURS if peer.name == OURS else _OTHER
    weight = "font-weight='600'" if peer.name == OURS else ""
    yield _label(16, y + 4, peer.name, color, 13, weight)
    yield _label(92, y + 4, peer.safety, _FAINT, 10)
    for panel in panels:
        end = panel.left + _PANEL
        yield f"<line x1='{panel.left}' y1='{y}' x2='{end}' y2='{y}' stroke='{_GRID}'/>"
        if cell is None:
            continue
        value = panel.value(cell)
        x = panel.x(value)
        yield (
            f"<line x1='{panel.left}' y1='{y}' x2='{x:.1f}' y2='{y}' stroke='{color}' "
            "stroke-opacity='0.35' stroke-width='3'/>"
        )
        yield f"<circle cx='{x:.1f}' cy='{y}' r='5' fill='{color}'/>"
        yield _label(x + 9, y + 4, number(value), color, 11, weight)


def _label(x: float, y: float, text: str, color: str, size: int, more: str = "") -> str:
    place = f"x='{x:.1f}' y='{y:.1f}'"
    return f"<text {place} font-size='{size}' fill='{color}' {more}>{escape(text)}</text>"
