# SPDX-License-Identifier: Apache-2.0
"""The command-line client of python-swiftclient, against a real cluster."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

from running_cluster import RunningCluster

SWIFT = str(Path(sysconfig.get_path("scripts")) / "swift")


def swift(cluster: RunningCluster, cwd: Path, *arguments: str) -> str:
    """Run `swift` in ``cwd`` as test:tester and return its output; it must report no error."""
    login = ["-A", f"{cluster.url}/auth/v1.0", "-U", "test:tester", "-K", "testing"]
    done = subprocess.run(
        [SWIFT, *login, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout
