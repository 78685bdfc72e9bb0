# SPDX-License-Identifier: Apache-2.0
"""The files in ``recon_cache_path``: a background process adds its figures to those of others."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from typing import Any


def write_report(path: str, figures: Mapping[str, Any]) -> None:
    """Replace these figures in a file; the others stay. The directory is made if it is missing.

    A reader finds the old document or the new one. A file that is no document is replaced.

    :raises OSError: it cannot be written.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held for the moment of a small write
        try:
            with open(path, encoding="utf-8") as stream:
                found = json.load(stream)
        except (OSError, ValueError):
            found = {}
        document = {**(found if isinstance(found, dict) else {}), **figures}
        temporary = f"{path}.new"
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(document, stream)
        os.replace(temporary, path)
