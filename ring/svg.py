# SPDX-License-Identifier: Apache-2.0
"""A ring as a picture: one row each for regions, zones, servers and devices, as wide as weights.

The colour shows the deviation of a domain from its share: blue holds less, red holds more.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from ring.tree import KINDS, Branch, Picture

_WIDTH_MIN, _ROW, _HEAD = 1200.0, 60.0, 40.0
# The width for a device's id and the beginning of its name, at the usual weight.
_WIDTH_PER_DEVICE = 56.0
# Programs that draw the picture have limits.
_WIDTH_MAX = 60_000.0
# The deviation, percent, from which on the colour is full.
_FULL_COLOUR_PERCENT = 20.0
_LETTER = 7.0


def as_svg(picture: Picture) -> str:
    """The picture as an SVG document; the tooltip of each box has its figures."""
    count = sum(1 for _ in picture.root.devices())
    width = min(max(_WIDTH_MIN, _WIDTH_PER_DEVICE * count), _WIDTH_MAX)
    height = _HEAD + _ROW * len(KINDS)
    title = (
        f"{picture.path}: version {picture.version}, {picture.partitions} partitions, "
        f"{picture.replicas:g} replicas, balance {picture.balance:z.2f}, "
        f"dispersion {picture.dispersion:z.2f}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="12">',
            f'<text x="4" y="24" font-size="14">{escape(title)}</text>',
            *_boxes(picture.root, 0.0, width, 0),
            "</svg>",
            "",
        ]
    )


def _boxes(branch: Branch, left: float, width: float, depth: int) -> Iterator[str]:
    top = _HEAD + depth * _ROW
    name = branch.name if branch.name.startswith(branch.kind) else f"{branch.kind} {branch.name}"
    about = (
        f"{name}: weight {branch.weight:.2f}, wanted {branch.wanted:.1f}, "
        f"held {branch.held}, balance {branch.balance:z.2f}"
    )
    yield (
        f'<g><title>{escape(about)}</title><rect x="{left:.2f}" y="{top:g}" width="{width:.2f}" '
        f'height="{_ROW:g}" fill="{_colour(branch)}" stroke="white"/>'
    )
    for line, text in enumerate((branch.name, f"{branch.held} of {branch.wanted:.0f}")):
        room = int(width / _LETTER)
        if room > 2:
            y = top + 24 + 18 * line
            yield f'<text x="{left + 4:.2f}" y="{y:g}">{escape(_cut(text, room))}</text>'
    yield "</g>"
    for child, part in zip(branch.children, _parts(branch), strict=True):
        yield from _boxes(child, left, width * part, depth + 1)
        left += width * part


def _cut(text: str, room: int) -> str:
    """Cut a text with an ellipsis: a part of an address must not look like another address."""
    return text if len(text) <= room else f"{text[: room - 1]}\u2026"


def _parts(branch: Branch) -> list[float]:
    """The share of the width for each child; one without weight stays visible."""
    sizes = [max(child.weight, branch.weight / 100) or 1.0 for child in branch.children]
    return [size / sum(sizes) for size in sizes]


def _colour(branch: Branch) -> str:
    strength = max(-1.0, min(1.0, branch.balance / _FULL_COLOUR_PERCENT))
    red, green, blue = (230, 120, 110) if strength > 0 else (110, 150, 230)
    grey = 222
    mixed = [round(grey + (colour - grey) * abs(strength)) for colour in (red, green, blue)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)
