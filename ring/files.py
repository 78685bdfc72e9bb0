# SPDX-License-Identifier: Apache-2.0
"""Replacing a file so that a crash leaves either the old or the new one, whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Makes ``content`` durable under ``path``.

    Write to a temporary file beside it, fsync, rename, fsync of the folder. A crash before the
    rename leaves the old file and perhaps a ``.<name>.*`` file that nobody reads.

    :raises OSError: nothing was replaced.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
