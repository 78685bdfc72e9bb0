"""The same client under eventlet: a green thread waits where a thread would."""

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


def test_connections_under_eventlet() -> None:
    file = str(HERE / "test_connections.py")
    command = [sys.executable, "-c", GREEN_PYTEST, "-q", "-p", "no:cacheprovider", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
