# SPDX-License-Identifier: Apache-2.0
"""Tests again, under eventlet or over TLS, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from certificates import Authority

_CODE = """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
import sys, pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def assert_pass_under_eventlet(*files: Path, environment: dict[str, str] | None = None) -> None:
    """Run the tests of the files in a process whose standard library is patched."""
    _assert_pass([sys.executable, "-c", _CODE], files, environment or {})


def assert_pass_over_tls(directory: Path, file: Path, *, is_green: bool) -> None:
    """Run the tests of a file with servers and clients of `grid_peers` that speak TLS."""
    Authority(directory).issue("127.0.0.1")
    environment = {"MARTLET_TEST_CERTIFICATES": str(directory)}
    if is_green:
        assert_pass_under_eventlet(file, environment=environment)
    else:
        _assert_pass([sys.executable, "-m", "pytest"], [file], environment)


def _assert_pass(program: list[str], files: Iterable[Path], environment: dict[str, str]) -> None:
    command = [*program, "-q", "-p", "no:cacheprovider", *map(str, files)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
