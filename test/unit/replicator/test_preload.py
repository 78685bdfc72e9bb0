"""`load_modules` loads all that a job in Python imports before it runs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

from martlet.service.programs import find_main
from replicator.jobs import JOB_KINDS

_SCRIPTS = sysconfig.get_path("scripts")
_IN_PYTHON = [
    kind.command[0] for kind in JOB_KINDS if find_main(f"{_SCRIPTS}/{kind.command[0]}") is not None
]
_SCRIPT = """\
import sys
from martlet.service.programs import find_main
from replicator.preload import load_modules
main = find_main(sys.argv[1])
load_modules()
before = set(sys.modules)
status = main(["/no/such.conf"])
ours = ("account", "container", "eventlet", "martlet", "replicator", "ring", "storage")
print(status, sorted(name for name in set(sys.modules) - before if name.startswith(ours)))
"""


def test_seven_jobs_are_in_python() -> None:
    assert len(_IN_PYTHON) == 7
    assert find_main("/bin/true") is None
    assert find_main(f"{_SCRIPTS}/python3") is None


@pytest.mark.parametrize("program", _IN_PYTHON)
def test_a_job_imports_nothing_further(program: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT, f"{_SCRIPTS}/{program}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stderr == f"{program}: cannot read /no/such.conf: No such file or directory\n"
    assert ran.stdout == "1 []\n"
