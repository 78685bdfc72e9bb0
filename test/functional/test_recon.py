"""OpenStack Swift's swift-recon works with our servers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import urllib.request
from pathlib import Path

import pytest
from running_cluster import RunningCluster, await_true

from cluster.ports import HOST

SWIFT_RECON = Path(sysconfig.get_path("scripts")) / "swift-recon"
CHECKS = (
    "--loadstats --diskusage --unmounted --quarantined --sockstat --time --driveaudit "
    "--validate-servers --swift-versions --replication --auditor --timeout 60"
)


def pending_rows(cluster: RunningCluster) -> int:
    """Return the number of rows that the object server has not delivered yet."""
    url = f"http://{HOST}:{cluster.storage_port('object')}/recon/async"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return int(json.load(answer)["async_pending"])


@pytest.mark.parametrize("kind", ["account", "container", "object"])
def test_swift_recon(cluster: RunningCluster, tmp_path: Path, kind: str) -> None:
    # Other tests of this cluster may have left some.
    await_true(lambda: pending_rows(cluster) == 0, "no row is pending")
    for ring in (cluster.home / "etc").glob("*.ring.gz"):
        shutil.copy(ring, tmp_path)
    conf = cluster.home / "etc" / "martlet.conf"
    shutil.copy(conf, tmp_path / "swift.conf")
    more = {"object": ["--async", "--updater", "--expirer"], "container": ["--updater"]}
    command = [str(SWIFT_RECON), "--swiftdir", str(tmp_path), kind, *CHECKS.split()]
    result = subprocess.run(
        [*command, *more.get(kind, [])], capture_output=True, text=True, timeout=300, check=True
    )
    output = result.stdout
    assert "!!" not in output, output
    assert "Error" not in output, output
    assert f"Validating server type '{kind}' on 1 hosts...\n1/1 hosts ok" in output
    assert "[15m_load_avg] low" in output
    assert "Disk usage: space used" in output
    assert f"[quarantined_{kind}s] low: 0" in output
    assert "[tcp_in_use] low" in output
    assert "Versions matched" in output
    if kind == "object":
        assert "[async_pending] low: 0" in output
