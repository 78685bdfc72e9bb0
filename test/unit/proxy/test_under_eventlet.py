"""The proxy runs under eventlet: what holds with real threads must hold with green ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
GREEN_PYTEST = """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
import sys, pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_uploads_and_fan_out_under_eventlet() -> None:
    files = [str(HERE / name) for name in ("test_object_put.py", "test_object_change.py")]
    command = [sys.executable, "-c", GREEN_PYTEST, "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
