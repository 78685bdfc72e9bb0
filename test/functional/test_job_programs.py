"""The programs of the background jobs, as an operator runs them by hand.

Passes in other tests are forks, whose interpreter does not end as that of a program does.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from running_cluster import RunningCluster

from martlet.service.programs import find_program
from replicator.jobs import JOB_KINDS, JobKind

IN_PYTHON = [kind for kind in JOB_KINDS if kind.command[0] != "martlet-object-server"]


@pytest.mark.parametrize("kind", IN_PYTHON, ids=lambda kind: kind.name)
def test_a_pass_ends_with_its_figures(cluster: RunningCluster, kind: JobKind) -> None:
    (directory,) = (path.parent for path in (cluster.home / "etc").rglob("container-server.conf"))
    program = find_program(kind.command[0])
    done = subprocess.run(
        [program, str(kind.conf_in(directory)), "--once", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
