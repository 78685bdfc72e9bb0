# SPDX-License-Identifier: Apache-2.0
"""Tables of figures as text: numbers, ages, sizes; a line below with their sums and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = "-"
NEVER = "never"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class Cell:
    """A value as it is shown.

    ``number`` counts in the lines below the table; ``show`` makes a text of such a number.
    """

    text: str
    number: float | None = None
    show: Callable[[float], str] | None = None
    adds: bool = False  # a sum of such numbers has a meaning

    @property
    def is_number(self) -> bool:
        return self.number is not None or self.text in (NOTHING, NEVER)


def number_in(value: Any) -> float | None:
    """A number of an answer; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def count(value: Any, adds: bool = True) -> Cell:
    """A number without a unit."""
    number = number_in(value)
    return Cell(NOTHING) if number is None else Cell(plain(number), number, plain, adds)


def plain(number: float) -> str:
    """A number, with decimals if it has some."""
    return f"{number:.0f}" if number == int(number) else f"{number:.2f}"


def span(value: Any) -> Cell:
    """A time in seconds."""
    number = number_in(value)
    return Cell(NOTHING) if number is None else Cell(span_text(number), number, span_text)


def span_text(seconds: float) -> str:
    """A time in its largest unit."""
    for length, unit in _SPANS:
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if abs(seconds) >= 10 else f"{seconds:.1f} s"


def age(moment: Any, now: float) -> Cell:
    """The time since a moment; never, for one that has not come; a text as it is."""
    if isinstance(moment, str) and moment:
        return Cell(moment)
    number = number_in(moment)
    if not number:
        return Cell(NEVER)
    passed = max(0.0, now - number)
    return Cell(_ago(passed), passed, _ago)


def _ago(seconds: float) -> str:
    return f"{span_text(seconds)} ago"


def size(value: Any) -> Cell:
    """A number of bytes."""
    number = number_in(value)
    return (
        Cell(NOTHING) if number is None else Cell(size_text(number), number, size_text, adds=True)
    )


def size_text(number: float) -> str:
    """A number of bytes in a unit that leaves few digits."""
    unit = 0
    while abs(number) >= 1024 and unit + 1 < len(_UNITS):
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def share(part: float, whole: float) -> Cell:
    """A part of a whole, in percent."""
    if whole <= 0:
        return Cell(NOTHING)
    percent = 100 * part / whole
    return Cell(_percent(percent), percent, _percent)


def _percent(number: float) -> str:
    return f"{number:.1f} %"


def footer(rows: Sequence[Sequence[Cell | str]]) -> list[list[Cell | str]]:
    """The lowest, average and highest number of each column, and the sums; none for one row."""
    columns = list(zip(*rows, strict=True))[1:]
    numbers = [[c for c in column if isinstance(c, Cell) and c.show] for column in columns]
    if max(map(len, numbers), default=0) < 2:
        return []
    lines: list[list[Cell | str]] = []
    for label, compute, is_sum in _FOOTERS:
        if is_sum and not any(cell.adds for column in numbers for cell in column):
            continue
        line: list[Cell | str] = [label]
        for column in numbers:
            shown = [cell for cell in column if cell.adds or not is_sum]
            line.append(_computed(compute, shown))
        lines.append(line)
    return lines


def _average(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


_FOOTERS: tuple[tuple[str, Callable[[Sequence[float]], float], bool], ...] = (
    ("lowest", min, False),
    ("average", _average, False),
    ("highest", max, False),
    ("total", sum, True),
)


def _computed(compute: Callable[[Sequence[float]], float], column: Sequence[Cell]) -> Cell:
    numbers = [cell.number for cell in column if cell.number is not None]
    if not numbers or column[0].show is None:
        return Cell("")
    return Cell(column[0].show(compute(numbers)))


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell | str]],
    below: Sequence[Sequence[Cell | str]] = (),
) -> str:
    """Columns of equal width; those of numbers are set to the right."""
    texts = [[printable(_text(cell)) for cell in row] for row in (*rows, *below)]
    widths = [max(len(line[i]) for line in (list(heads), *texts)) for i in range(len(heads))]
    is_right = [
        bool(rows) and all(isinstance(row[i], Cell) and row[i].is_number for row in rows)  # type: ignore[union-attr]
        for i in range(len(heads))
    ]
    lines = []
    for line in (heads, *texts):
        cells = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_right, strict=True)
        )
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def printable(text: str) -> str:
    """A text of a server without control sequences for the terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
