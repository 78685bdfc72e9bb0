"""A short run of `make nemesis`: some random faults, and equal replicas after them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from source_tree import ROOT

#: On several hosts: clocks that differ, flipped bits, a split network, and a killed server.
SEED = "1701"
ROUNDS = 1
_PATHS = (".", "test/support", "test/attack", "bench")


def test_a_sample_of_the_nemesis() -> None:
    command = [sys.executable, str(ROOT / "test" / "nemesis" / "nemesis.py"), "--json"]
    finished = subprocess.run(
        [*command, "--seed", SEED, "--rounds", str(ROUNDS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / path) for path in _PATHS)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert finished.stdout, finished.stderr
    report = json.loads(finished.stdout)
    assert report["findings"] == []
    assert len(report["rounds"]) == ROUNDS
    assert all(one["faults"] for one in report["rounds"])
    assert report["answers"]["checked at the end"] > 0
    assert finished.returncode == 0, finished.stderr
