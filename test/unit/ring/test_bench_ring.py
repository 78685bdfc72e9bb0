"""The benchmark of the ring runs; on its first clusters the placement is Swift's or better."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_random_clusters_beside_openstack_swift() -> None:
    command = [sys.executable, str(ROOT / "bench" / "ring_speed.py"), "clusters", "--clusters", "5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["5 random clusters", "each side on its own ring"]
    own = lines[2 : lines.index("both on the ring of Swift")]
    assert len(own) == 13, "a new ring and six changes; a line more is a case that is worse"
    for line in own:
        counts = re.findall(r"better (\d+), equal (\d+), worse (\d+)", line)
        assert [sum(map(int, found)) for found in counts] == [5, 5]
        assert "worse and in nothing better 0" in line
