"""OpenStack Swift's probe tests, unchanged, with our servers and jobs in place of Swift's.

The tests stop servers, take disks away and run single passes of jobs, then look at the replicas
through Swift's own backend protocol. Some of them look into Swift's files instead, or into its
processes: these cannot pass here (doc/probes.md).
"""

from __future__ import annotations

import getpass
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import judges
from running_cluster import RunningCluster
from suite import PROBES, Result

from cluster.confs import render
from cluster.layout import Home
from cluster.services import services_of
from martlet.conf.options import read_ini
from martlet.service.programs import find_object_server, find_script

_HOST = "127.0.0.1"
_HASH = {"swift_hash_path_prefix": "probes"}
_SERVERS = ("account-server", "container-server", "object-server", "proxy-server")
# Where Swift has several minutes, so that a pass of a job comes soon.
_OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "account-server": {"account-reaper": {"delay_reaping": 0}},
    "container-server": {"app:container-server": {"report_interval": 1}},
    "object-server": {"object-updater": {"interval": 1}},
    # A worker whose own cache has a container must answer: there is no memcached.
    "proxy-server": {
        "DEFAULT": {"workers": 1},
        "app:proxy-server": {"allow_account_management": "yes"},
    },
}
# Swift's own, in the processes of the tests.
_INTERNAL_CLIENT = """
[DEFAULT]
swift_dir = {etc}
user = {user}
[pipeline:main]
pipeline = catch_errors symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_open_expired = true
[filter:symlink]
use = egg:swift#symlink
[filter:catch_errors]
use = egg:swift#catch_errors
"""

_TESTS = """
[probe_test]
proxy_base_url = {url}
check_server_timeout = 60
[s3api_test]
endpoint = {url}
access_key1 = test:tester
secret_key1 = testing
"""


def run_probes(selection: Sequence[str]) -> list[Result]:
    """Run the tests, or those of ``selection`` (pytest's arguments), on a cluster of four nodes."""
    home = judges.WORK / "probe-cluster"
    shutil.rmtree(home, ignore_errors=True)
    cluster = _new_cluster(home)
    described = home / "probe.json"
    described.write_text(json.dumps(_describe(home), indent=1))
    conf = _TESTS.format(url=cluster.url)
    return PROBES.run(conf, selection, variables={"PROBE_CLUSTER": str(described)})


def _new_cluster(home: Path) -> RunningCluster:
    """A stopped cluster with empty devices, whose servers need no proof."""
    (home / "etc").mkdir(parents=True)
    conf = {"grid": {"grid_plain_http": _HOST}}
    (home / "etc" / "martlet.conf").write_text(render(conf))
    policies = ("--policy", "Policy-0", "--policy", "silver")
    cluster = RunningCluster(home, "--nodes", "4", *policies).start()
    cluster.stop()
    etc = home / "etc"
    shutil.copy(etc / "martlet.conf", etc / "swift.conf")
    text = _INTERNAL_CLIENT.format(etc=etc, user=getpass.getuser())
    (etc / "internal-client.conf").rename(etc / "own-internal-client.conf")
    (etc / "internal-client.conf").write_text(text)
    for path in etc.rglob("*.conf"):
        if path.stem in _OPTIONS:
            _add(path, _OPTIONS[path.stem])
        path.write_text(path.read_text().replace(f"= {etc}/internal-", f"= {etc}/own-internal-"))
    return cluster


def _add(conf: Path, sections: dict[str, dict[str, Any]]) -> None:
    parser = read_ini(conf)
    for section, options in sections.items():
        if section not in parser:
            parser.add_section(section)
        parser[section].update({name: str(value) for name, value in options.items()})
    with conf.open("w") as stream:
        parser.write(stream)


def _describe(home: Path) -> dict[str, Any]:
    """The programs of each node, and the devices with copies of their first content."""
    layout = Home(home).read_layout()
    assert layout is not None
    programs: dict[str, list[dict[str, Any]]] = {}
    for service in services_of(Home(home), layout):
        for kind in _SERVERS:
            if service.name.startswith(kind):
                conf = service.command[-1]
                entry = {"command": service.command, "conf": conf, "port": service.port}
                programs.setdefault(kind, []).append(entry)
    nodes = [Home(home).node_etc(layout, node) for node in layout.nodes]
    for job, command in _jobs().items():
        kind = job.partition("-")[0]
        confs = [node / f"{kind}-server.conf" for node in nodes]
        if job == "container-reconciler":
            confs = [home / "etc" / "container-reconciler.conf"]
        programs[job] = [
            {"command": [*command, str(conf)], "conf": str(conf), "port": None} for conf in confs
        ]
    devices = {}
    for node in layout.nodes:
        for name in node.devices:
            device, pristine = Home(home).node_devices(layout, node) / name, home / "new" / name
            shutil.copytree(device, pristine)
            devices[str(device)] = str(pristine)
    logs = str(home / "logs")
    return {"etc": str(home / "etc"), "logs": logs, "programs": programs, "devices": devices}


def _jobs() -> dict[str, list[str]]:
    """The commands of the jobs, by Swift's names for them; a conf follows."""
    scripts = (
        "account-replicator",
        "container-replicator",
        "account-reaper",
        "account-auditor",
        "container-auditor",
        "container-sync",
        "container-reconciler",
        "object-expirer",
    )
    program = find_object_server()
    return {
        **{name: [find_script(f"martlet-{name}")] for name in scripts},
        "object-replicator": [program, "replicate"],
        "object-auditor": [program, "audit"],
    }
