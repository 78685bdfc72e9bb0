"""The benchmark runs and its figures match the cluster; the test does not judge their size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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
        timeout=300,
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


def run_bench(name: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / f"{name}.py"), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_listing_compares_with_real_swift() -> None:
    report = run_bench("listing", "--names", "500", "--page", "100", "--rounds", "1")
    assert report.keys() == {"martlet", "swift"}
    assert all(figures["pages_per_second"][0] > 0 for figures in report.values())
    assert report["swift"]["times_swifts"] == 1


def test_pipeline_compares_with_the_short_one() -> None:
    report = run_bench("pipeline", "--requests", "50", "--rounds", "1", "--clients", "4")
    assert report.keys() == {"short", "sample", "sample, encrypting"}
    for figures in report.values():
        assert figures["PUT"]["rounds_us"][0] > 0
    assert report["short"]["GET"]["ratio"] == 1


def test_no_request_fails_while_the_proxy_starts_anew() -> None:
    report = run_bench("upkeep", "--requests", "400", "--clients", "4", "--scrapes", "20")
    assert report["restarts"]["requests"] == 400
    assert report["restarts"]["starts"] >= 1
    assert (report["restarts"]["refused"], report["restarts"]["failed"]) == (0, 0)
    assert report["scrape_cpu_ms"].keys() == {"proxy", "account", "container", "object"}
    assert any(report["scrape_cpu_ms"].values())


def test_compare_measures_every_operation(tmp_path: Path) -> None:
    words = ["--peers", "martlet", "--objects", "20", "--sizes", "1K", "--rounds", "1"]
    words += ["--apis", "s3", "--processes", "1", "--json", str(tmp_path / "result.json")]
    words += ["--plot", str(tmp_path / "plot.svg")]
    done = subprocess.run(
        [sys.executable, "-m", "compare", *words],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'bench'}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "result.json").read_text())
    operations = [one["operation"] for one in report["samples"]]
    assert operations == ["PUT", "GET", "LIST", "mixed", "DELETE"]
    assert not any(one["errors"] for one in report["samples"])
    # The mixed load writes three objects and deletes two.
    assert all(
        one["requests"] == (21 if one["operation"] == "DELETE" else 20) for one in report["samples"]
    )
    assert sum(one["cpu_ms"] for one in report["samples"]) > 0
    assert "not measured" not in done.stdout
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")
