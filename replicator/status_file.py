# SPDX-License-Identifier: Apache-2.0
"""The status file of a supervisor (doc/background.md): one JSON document, replaced as a whole.

It is not synced: after a power cut no supervisor runs that it could tell of.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Version of the form of the file.
FORMAT = 1
STATUS_NAME = "background.json"


def write_status(path: Path, state: str, jobs: Sequence[dict[str, Any]]) -> None:
    """Replace the file; a reader finds the old document or the new one.

    :raises OSError: it cannot be written.
    """
    document = {
        "format": FORMAT,
        "pid": os.getpid(),
        "state": state,
        "written": time.time(),
        "jobs": list(jobs),
    }
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    temporary.rename(path)


def read_status(path: Path) -> dict[str, dict[str, Any]]:
    """The jobs in the file by name; empty if there is no file, or not one of this form."""
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            return {}
        return {entry["job"]: entry for entry in document["jobs"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
