# SPDX-License-Identifier: Apache-2.0
"""Rows of the object table in the format of listings.

Every listing through a proxy is made from JSON pages of up to 10,000 rows. `render_rows` writes a
page directly from the rows, without a dictionary for each; the text is that of ``json.dumps``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from container.record import NULL, last_modified, split_swift_bytes
from martlet.words.names import quote_path
from storage.name_listing import Row, Subdir

_SIZE = re.compile(r"[0-9]{1,18}", re.ASCII).fullmatch


def object_entry(row: Row | Subdir, container_path: str) -> dict[str, Any]:
    """An entry of a listing of objects, for a row of `render_rows`."""
    if isinstance(row, Subdir):
        return {"subdir": row.name}
    *fields, version = row
    entry = _entry(*fields)
    if version not in ("", NULL):
        # As in Swift, where the object in the container is a link to the version.
        path = quote_path(f"/v1{container_path}/{entry['name']}")
        entry |= {"symlink_path": f"{path}?version-id={version}", "version_symlink": True}
    return entry


def version_entry(row: Row | Subdir, container_path: str) -> dict[str, Any]:
    """An entry of a listing of versions."""
    if isinstance(row, Subdir):
        return {"subdir": row.name}
    *fields, version, is_latest = row
    return _entry(*fields) | {"version_id": version, "is_latest": is_latest}


def _entry(name: str, created_at: str, size: int, stored_type: str, etag: str) -> dict[str, Any]:
    content_type, swift_bytes = split_swift_bytes(stored_type)
    if swift_bytes is not None and _SIZE(swift_bytes):  # a client may have sent anything
        size = int(swift_bytes)
    return {
        "bytes": size,
        "hash": etag,
        "name": name,
        "content_type": content_type,
        "last_modified": last_modified(created_at),
    }


def render_rows(rows: Iterable[Row | Subdir], container_path: str) -> bytes:
    """Render a listing of objects as JSON.

    Rows are (name, created_at, size, content_type, etag, version id).
    """
    entries = []
    for row in rows:
        if isinstance(row, Subdir):
            entries.append(f'{{"subdir": {quoted(row.name)}}}')
            continue
        if row[5] not in ("", NULL) or "swift_bytes" in row[3]:
            entries.append(json.dumps(object_entry(row, container_path)))
            continue
        name, created_at, size, content_type, etag, _ = row
        entries.append(
            f'{{"bytes": {size}, "hash": {quoted(etag)}, "name": {quoted(name)}, '
            f'"content_type": {quoted(content_type)}, '
            f'"last_modified": "{last_modified(created_at)}"}}'
        )
    return f"[{', '.join(entries)}]".encode("ascii")
