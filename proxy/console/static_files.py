# SPDX-License-Identifier: Apache-2.0
"""The files of the console, read once and answered from memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parent / "static"
#: By suffix; files with another suffix are not served.
_TYPES = {
    ".css": "text/css; charset=UTF-8",
    ".html": "text/html; charset=UTF-8",
    ".js": "text/javascript; charset=UTF-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class StaticFile:
    """A file: its bytes, its Content-Type and its Etag."""

    body: bytes
    content_type: str
    etag: str

    @classmethod
    def of(cls, body: bytes, content_type: str) -> StaticFile:
        """The file with an Etag made from its bytes."""
        return cls(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def read_files(directory: Path = DIRECTORY) -> Mapping[str, StaticFile]:
    """All files that are served, by their path below ``/console/``; ``""`` is the page."""
    files = {
        path.relative_to(directory).as_posix(): StaticFile.of(path.read_bytes(), kind)
        for path in sorted(directory.rglob("*"))
        if (kind := _TYPES.get(path.suffix)) and path.is_file()
    }
    files[""] = files["index.html"]
    return files
