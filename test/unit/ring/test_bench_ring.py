"""The benchmark of the ring runs; on its first clusters the placement is Swift's or better."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_random_clusters_beside_openstack_swift() -> None:
    command = [sys.executable, str(ROOT / "bench" / "ring.py"), "clusters", "--clusters", "5"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines[0] == "5 random clusters"
    for line in lines[1:3]:
        counts = re.findall(r"better (\d+), equal (\d+), worse (\d+)", line)
        assert [sum(map(int, found)) for found in counts] == [5, 5]
        assert [found[2] for found in counts] == ["0", "0"]
    assert lines[3] == "off the exact quotas: 0"
