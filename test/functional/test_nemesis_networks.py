"""The networks and the clocks of the nemesis do what its faults rely on."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from networks import missing
from running_cluster import await_true
from source_tree import ROOT

_PATHS = (".", "test/support", "test/attack", "bench")
_COMMAND = [sys.executable, str(ROOT / "test" / "nemesis" / "try_networks.py")]
_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([*(str(ROOT / path) for path in _PATHS), *sys.path]),
}
_ALL = ["12", "13", "21", "23", "31", "32"]

_MISSING = missing()
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)


@pytest.mark.skipif(not importlib.util.find_spec("libfaketime"), reason="needs libfaketime")
def test_what_is_lost_and_the_clocks() -> None:
    done = subprocess.run(_COMMAND, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A connection needs both ways, so losing one of them is enough.
    without = [pair for pair in _ALL if pair not in ("12", "21")]
    assert json.loads(done.stdout) == {
        "whole": _ALL,
        "split": without,
        "one way": without,
        "healed": _ALL,
        "clocks": [60, -60],
    }


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_after(number: signal.Signals) -> None:
    word = f"nemesis-{number}-of-{os.getpid()}"
    process = subprocess.Popen(
        [*_COMMAND, word], env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline().strip() == word
    assert len(_processes_with(word)) >= 2
    process.send_signal(number)
    process.wait()
    await_true(lambda: not _processes_with(word), "no process of the networks is left")
    assert not list(Path("/run/netns").glob("host*"))


def _processes_with(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if word in words:
            found.append(words)
    return found
