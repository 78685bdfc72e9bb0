# SPDX-License-Identifier: Apache-2.0
"""The answer to one request that did many things: counts, a status, and what went wrong.

Its status line has to be sent before the work is done, so the outcome stands in the body, in plain
text, JSON or XML, whichever the client prefers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from martlet.http import HTTPException
from martlet.listing import PLAIN, listing_content_type

#: A name and what was wrong with it.
Problem = tuple[str, str]


def bulk_content_type(accept: str | None) -> str:
    """The form of the answer; plain text where Accept names none of ours."""
    try:
        return listing_content_type(None, accept)
    except HTTPException:
        return PLAIN


def bulk_body(
    content_type: str, root: str, values: Mapping[str, str | int], problems: Sequence[Problem]
) -> bytes:
    """The answer's text.

    :param root: the XML root element: what was done, e.g. ``delete``.
    :param values: by their names in words, e.g. ``Number Deleted``.
    """
    if content_type.endswith("/json"):
        return json.dumps({**values, "Errors": [list(p) for p in problems]}).encode("ascii")
    if content_type.endswith("/xml"):
        return _xml(root, values, problems).encode("utf-8", "surrogateescape")
    lines = [f"{name}: {values[name]}\n" for name in sorted(values)]
    lines += ["Errors:\n", *(f"{name}, {status}\n" for name, status in problems)]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _xml(root: str, values: Mapping[str, str | int], problems: Sequence[Problem]) -> str:
    parts = [f"<{root}>\n"]
    for name in sorted(values):
        tag = name.lower().replace(" ", "_")
        parts.append(f"<{tag}>{escape(str(values[name]))}</{tag}>\n")
    parts.append("<errors>\n")
    for name, status in problems:
        inner = f"<name>{escape(name)}</name><status>{escape(status)}</status>"
        parts.append(f"<object>{inner}</object>\n")
    parts.append(f"</errors>\n</{root}>\n")
    return "".join(parts)
