"""The benchmark runs and its figures are those of the cluster; how high they are is not tested."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from running_cluster import RunningCluster
from source_tree import ROOT

OBJECTS = 200


def test_small_objects_measures_a_running_cluster(cluster: RunningCluster) -> None:
    command = [sys.executable, str(ROOT / "bench" / "small_objects.py"), "--json"]
    sizes = ["--objects", str(OBJECTS), "--flush-objects", "64", "--clients", "8"]
    done = subprocess.run(
        [*command, *sizes, "--home", str(cluster.home)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for method in ("put", "get"):
        assert report[method]["answers"] == OBJECTS
        assert report[method]["failures"] == 0
        assert report[method]["per_second"] > 0
        assert report[method]["cpu_ms_each"] > 0
    assert report["object_server_counters"]["Puts"] == OBJECTS * 3
    assert report["resident_mib"].keys() == {*cluster.services(), "supervisor"}
    assert all(mib > 1 for mib in report["resident_mib"].values())
    if shutil.which("strace"):
        assert report["flush_pass"]["by_service"]["object-server"] > 0
    else:
        assert report["flush_pass"] is None
