# SPDX-License-Identifier: Apache-2.0
"""The pages of staticweb: a listing, and a page for disabled listings.

The structure, ids and classes of a listing are OpenStack Swift's: style sheets rely on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BUILT_IN_STYLE = """\
  <style type="text/css">
   h1 {font-size: 1em; font-weight: bold;}
   th {text-align: left; padding: 0px 1em 0px 1em;}
   td {padding: 0px 1em 0px 1em;}
   a {text-decoration: none;}
  </style>"""
_HEADING_ROW = """\
   <tr id="heading">
    <th class="colname">Name</th>
    <th class="colsize">Size</th>
    <th class="coldate">Date</th>
   </tr>"""


@dataclass(frozen=True)
class ListingPage:
    """The contents of a listing page; all text.

    ``label``: title of the listing; ``prefix``: the directory, with its slash; ``css``: URL of a
    style sheet, relative to the container, or empty; ``query``: appended to every link, escaped;
    ``has_parent``: whether to show a link to the parent directory.
    """

    label: str
    prefix: str
    css: str
    query: str
    has_parent: bool

    def render(self, entries: Iterable[Mapping[str, Any]]) -> str:
        """Return the page for the entries of a JSON listing: directories first."""
        entries = list(entries)
        rows = [_HEADING_ROW]
        if self.has_parent:
            rows.append(_row(' id="parent" class="item"', f"../{self.query}", "../"))
        rows.extend(self._directory(e["subdir"]) for e in entries if "subdir" in e)
        rows.extend(self._object(e) for e in entries if "name" in e and e["name"] != self.prefix)
        title = f"Listing of {escape(self.label)}"
        table = "\n".join(rows)
        return (
            f"<!DOCTYPE html>\n<html>\n <head>\n  <title>{title}</title>\n{self._style()}\n"
            f' </head>\n <body>\n  <h1 id="title">{title}</h1>\n  <table id="listing">\n'
            f"{table}\n  </table>\n </body>\n</html>\n"
        )

    def _style(self) -> str:
        if not self.css:
            return _BUILT_IN_STYLE
        css = self.css
        if not css.startswith(("/", "http://", "https://")):
            css = "../" * self.prefix.count("/") + css
        return f'  <link rel="stylesheet" type="text/css" href="{quote(css, safe="/:")}" />'

    def _directory(self, path: str) -> str:
        name = path.removeprefix(self.prefix)
        return _row(' class="item subdir"', _link(name) + self.query, name)

    def _object(self, entry: Mapping[str, Any]) -> str:
        name = str(entry["name"]).removeprefix(self.prefix)
        media_type = str(entry["content_type"]).partition(";")[0]
        classes = " ".join(f"type-{escape(part.lower())}" for part in media_type.split("/"))
        date = str(entry["last_modified"]).partition(".")[0].replace("T", " ")
        size = readable_size(int(entry["bytes"]))
        return _row(f' class="item {classes}"', _link(name) + self.query, name, size, date)


def _link(name: str) -> str:
    # A name of dots, or with a colon, must not be read as a relative path or a scheme.
    return f"./{quote(name).replace('.', '%2E')}"


def _row(attributes: str, href: str, name: str, size: str = "&nbsp;", date: str = "&nbsp;") -> str:
    return (
        f'   <tr{attributes}>\n    <td class="colname"><a href="{href}">{escape(name)}</a></td>\n'
        f'    <td class="colsize">{size}</td>\n    <td class="coldate">{date}</td>\n   </tr>'
    )


def readable_size(count: int) -> str:
    """Return a size in readable form: 4Ki."""
    power = 0
    while count >= 1024 and power + 1 < len(_UNITS):
        count = round(count / 1024)
        power += 1
    return f"{count}{_UNITS[power]}"


def no_listing_page(label: str, index: str) -> str:
    """Return the page for a disabled listing; ``index`` is the missing index file."""
    missing = ""
    if index:
        missing = (
            f"<h1>Index File Not Found</h1>\n<p>The site's index, <b>{escape(index)}</b> "
            "(X-Container-Meta-Web-Index), does not exist.</p>\n"
        )
    title = f"Listing of {escape(label)}"
    return (
        f"<!DOCTYPE html>\n<html>\n<head>\n<title>{title}</title>\n</head>\n<body>\n"
        "<h1>Web Listing Disabled</h1>\n<p>This site shows no listings. Its owner can turn them on "
        f"with X-Container-Meta-Web-Listings.</p>\n{missing}</body>\n</html>\n"
    )
