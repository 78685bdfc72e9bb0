# SPDX-License-Identifier: Apache-2.0
"""The XML of answers. Names of elements come from the code, text from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from martlet.http.listing import escape_xml

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
#: The start of each document.
DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'
_XSI = "http://www.w3.org/2001/XMLSchema-instance"


class Document:
    """A document that is written from its start to its end."""

    def __init__(self, root: str, namespace: str = NAMESPACE) -> None:
        """Open the element ``root``."""
        attribute = f' xmlns="{namespace}"' if namespace else ""
        self._root = root
        self._parts = [f"<{root}{attribute}>"]

    def text(self, name: str, value: str | int | bool) -> None:
        """Add an element with text; ``True`` is ``true``."""
        if isinstance(value, bool):
            value = "true" if value else "false"
        self._parts.append(f"<{name}>{escape_xml(str(value))}</{name}>")

    def lines(self, name: str, value: str) -> None:
        """Add an element with text whose ends of lines stay as they are."""
        text = "\n".join(escape_xml(line) for line in value.split("\n"))
        self._parts.append(f"<{name}>{text}</{name}>")

    def add(self, elements: str) -> None:
        """Add elements that are XML already: long listings make them with fewer calls."""
        self._parts.append(elements)

    def content(self, value: str) -> None:
        """Add text to the element that is open."""
        self._parts.append(escape_xml(value))

    @contextmanager
    def inside(self, name: str, attributes: str = "") -> Iterator[None]:
        """Add an element around the elements that are added within the ``with`` statement."""
        self._parts.append(f"<{name}{attributes}>")
        yield
        self._parts.append(f"</{name}>")

    def grantee(self, kind: str) -> str:
        """The attributes of a grantee; ``kind`` is ``CanonicalUser`` or ``Group``."""
        return f' xmlns:xsi="{_XSI}" xsi:type="{kind}"'

    def owner(self, name: str, owner_id: str) -> None:
        """Add an element about a user: ``Owner`` or ``Initiator``."""
        with self.inside(name):
            self.text("ID", owner_id)
            self.text("DisplayName", owner_id)

    def finish(self) -> bytes:
        """Close the root and return the document."""
        self._parts.append(f"</{self._root}>")
        return DECLARATION + "".join(self._parts).encode("utf-8")
