"""A short run of `make attack`: all attacks in parallel, for some seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from source_tree import ROOT

SECONDS = "15"
#: As in attack.py: the last reads come later after a server's return than outdated ones may.
SETTLED_SECONDS = "5"
#: Other tests share the processors. A proxy that the slow clients hold up needs longer.
HEALTH_SECONDS = "5"
_PATHS = (".", "test/support", "test/conformance", "bench")  # "." first: bench has a ring.py


def test_a_sample_of_the_attack() -> None:
    command = [sys.executable, str(ROOT / "test" / "attack" / "attack.py"), "--json"]
    options = ["--seconds", SECONDS, "--quiet", SETTLED_SECONDS]
    options += ["--health", HEALTH_SECONDS]
    options += ["--clients", "12", "--idle", "300", "--dripping", "60"]
    paths = os.pathsep.join(str(ROOT / path) for path in _PATHS)
    finished = subprocess.run(
        [*command, *options],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.stdout, finished.stderr
    report = json.loads(finished.stdout)
    assert report["findings"] == []
    assert report["answers"]["checked at the end"] > 0
    assert report["incidents"]
    assert report["requests of nonsense"] > 0
    assert finished.returncode == 0, finished.stderr
