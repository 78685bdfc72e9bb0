"""A service that is a fork of `martlet up` imports nothing further when it starts."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from cluster.confs import write_confs
from cluster.layout import Home, Layout
from cluster.policies import read_cluster_policies
from cluster.ports import PortPicker
from cluster.rings import write_rings

_SCRIPTS = sysconfig.get_path("scripts")
_SCRIPT = """\
import sys
from martlet.service.programs import find_main, preload
main = find_main(sys.argv[1])
preload(main)
before = set(sys.modules)
status = main([sys.argv[2], "--check"])
late = set(sys.modules) - before
print(status, sorted(name for name in late if not name.startswith("encodings.")))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with the confs and rings that `martlet up` writes."""
    home = Home(tmp_path_factory.mktemp("home"))
    layout = Layout.create(1).with_secret().with_ports(8080, PortPicker(taken=8080))
    for directory in home.directories(layout):
        directory.mkdir(parents=True, exist_ok=True)
    policies = read_cluster_policies(home, ())
    write_rings(home, layout, policies)
    write_confs(home, layout, policies)
    return home


@pytest.mark.parametrize("kind", ["account", "container", "proxy"])
def test_a_service_imports_nothing_further(home: Home, kind: str) -> None:
    program = Path(_SCRIPTS) / f"martlet-{kind}-server"
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(program), str(home.etc / f"{kind}-server.conf")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stderr == ""
    assert ran.stdout == "0 []\n"
