# SPDX-License-Identifier: Apache-2.0
"""Tests again under eventlet: a green thread waits where a thread would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CODE = """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
import sys, pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def assert_pass_under_eventlet(*files: Path) -> None:
    """Run the tests of the files in a process whose standard library is patched."""
    names = [str(file) for file in files]
    command = [sys.executable, "-c", _CODE, "-q", "-p", "no:cacheprovider", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
