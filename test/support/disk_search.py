"""Search of a cluster's devices for plain data."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import xattr  # type: ignore[import-untyped]
from running_cluster import RunningCluster


def on_disk(cluster: RunningCluster, needle: bytes) -> list[str]:
    """Return the files below the devices that contain ``needle`` in content or an attribute."""
    return [
        str(path)
        for folder, _, names in os.walk(cluster.home / "devices")
        for path in (Path(folder, name) for name in names)
        if needle in _content(path) or _in_attributes(path, needle)
    ]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""  # removed meanwhile: a journal of SQLite, an empty segment


def _in_attributes(path: Path, needle: bytes) -> bool:
    try:
        names = xattr.listxattr(str(path))
        return any(needle in xattr.getxattr(str(path), name) for name in names)
    except OSError:
        return False  # this file system has no attributes


def content(size: int) -> tuple[bytes, bytes]:
    """Return a body of that size, made of one unique word, and the word."""
    word = secrets.token_hex(16).encode()
    return (word * (size // 32 + 1))[:size], word
