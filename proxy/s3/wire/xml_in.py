# SPDX-License-Identifier: Apache-2.0
"""The XML of requests: small documents without entities, read into a tree of plain elements.

defusedxml refuses document types, entities and references to other files. The tree has a limit
on its depth; the limit on the size is set where the body is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from proxy.s3.wire.errors import S3Error

_DEPTH_MAX = 20


class _TooDeep(Exception):
    pass


class _ShallowBuilder(TreeBuilder):
    """Builds a tree of limited depth."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def start(self, tag: Any, attrs: Any) -> Any:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise _TooDeep
        return super().start(tag, attrs)

    def end(self, tag: Any) -> Any:
        self._depth -= 1
        return super().end(tag)


def parse_xml(body: bytes, root: str, code: str = "MalformedXML") -> Element:
    """Return the root element, whose name must be ``root`` in any namespace.

    :raises S3Error: ``code`` if the document is malformed, or another one.
    """
    parser = DefusedXMLParser(target=_ShallowBuilder(), forbid_dtd=True)
    try:
        parser.feed(body)
        found: Element = parser.close()
    except (ParseError, DefusedXmlException, _TooDeep, ValueError, LookupError):
        raise S3Error(code) from None
    if local_name(found) != root:
        raise S3Error(code)
    return found


def local_name(element: Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def children(element: Element, name: str) -> Iterator[Element]:
    """The children of this local name."""
    return (child for child in element if local_name(child) == name)


def child_text(element: Element, name: str) -> str | None:
    """The text of the first child of this local name; None without such a child."""
    for child in children(element, name):
        return (child.text or "").strip() if name != "Key" else child.text or ""
    return None
