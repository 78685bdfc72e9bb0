# SPDX-License-Identifier: Apache-2.0
"""A whole OpenStack Swift on this machine: four devices, three replicas, as martlet's cluster."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

from load import HOST
from own_cluster import KEY, USER, free_port
from pypi_swift import swift_command

from cluster.confs import PIPELINE, TRIAL_USERS, render
from cluster.rings import PART_POWER
from compare.running import NotStarted, await_listening, ended

DEVICES = ("d1", "d2", "d3", "d4")
#: Access key and secret of the S3 API: those of tempauth.
S3_USERS = (USER, KEY)
#: On a busy machine Swift's own timeouts of 0.3 s and more make errors, also false 401s.
_PATIENT_SECONDS = 30
#: Filters and the app whose entry point has another name.
_ENTRIES = {"cache": "memcache", "proxy-server": "proxy"}
_SERVERS = {
    "account": "swift.account.server",
    "container": "swift.container.server",
    "object": "swift.obj.server",
    "proxy": "swift.proxy.server",
}


@contextmanager
def start_swift(home: Path) -> Iterator[tuple[int, list[int]]]:
    """Run memcached and a server of each kind; yield the proxy's port and the process ids.

    :raises NotStarted: a server does not listen.
    """
    tool = shutil.which("memcached")
    if tool is None:
        raise NotStarted("memcached is needed: apt-get install memcached")
    ports = {kind: free_port() for kind in (*_SERVERS, "memcached")}
    # Swift's log lines go to this socket, as to a syslog, and are dropped when it is full.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syslog:
        syslog.bind((HOST, 0))
        _write(home, ports, syslog.getsockname()[1])
        commands = {"memcached": _memcached(tool, ports["memcached"])}
        for kind, module in _SERVERS.items():
            commands[kind] = swift_command(module, str(home), str(home / f"{kind}-server.conf"))
        processes: list[subprocess.Popen[bytes]] = []
        with ended(processes):
            for kind, command in commands.items():
                with (home / f"{kind}.log").open("wb") as log:
                    processes.append(subprocess.Popen(command, stdout=log, stderr=log))
            for kind, process in zip(commands, processes, strict=True):
                await_listening(process, ports[kind], home / f"{kind}.log")
            yield ports["proxy"], [process.pid for process in processes]


def _memcached(tool: str, port: int) -> list[str]:
    user = ["-u", "root"] if os.getuid() == 0 else []
    return [tool, "-l", HOST, "-p", str(port), *user]


def _write(home: Path, ports: dict[str, int], log_port: int) -> None:
    (home / "swift.conf").write_text(render({"swift-hash": {"swift_hash_path_suffix": "compare"}}))
    (home / "container-sync-realms.conf").write_text("")
    for device in DEVICES:
        (home / "devices" / device).mkdir(parents=True)
    for kind in _SERVERS:
        common = {
            "bind_ip": HOST,
            "bind_port": ports[kind],
            "workers": "auto",
            "swift_dir": home,
            "user": getpass.getuser(),
            "log_udp_host": HOST,
            "log_udp_port": log_port,
        }
        if kind == "proxy":
            conf = {"DEFAULT": common, **_proxy_sections(ports["memcached"])}
        else:
            _write_ring(home, kind, ports[kind])
            conf = {
                "DEFAULT": {**common, "devices": home / "devices", "mount_check": "false"},
                "pipeline:main": {"pipeline": f"{kind}-server"},
                f"app:{kind}-server": {"use": f"egg:swift#{kind}"},
            }
        (home / f"{kind}-server.conf").write_text(render(conf))


def _proxy_sections(memcached_port: int) -> dict[str, dict[str, object]]:
    """The filters are those of martlet's cluster that Swift has, in the same order."""
    users = {f"user_{name.replace(':', '_')}": value for name, value in TRIAL_USERS.items()}
    own: dict[str, dict[str, object]] = {
        "cache": {
            "memcache_servers": f"{HOST}:{memcached_port}",
            "memcache_max_connections": 32,
            **{f"{kind}_timeout": _PATIENT_SECONDS for kind in ("connect", "pool", "io")},
        },
        "versioned_writes": {"allow_versioned_writes": "true", "allow_object_versioning": "true"},
        "tempauth": {"reseller_prefix": "AUTH", **users},
    }
    entries = {name: _ENTRIES.get(name, name.replace("-", "_")) for name in PIPELINE.split()}
    known = {
        entry.name
        for entry in distribution("swift").entry_points
        if entry.group.startswith("paste.")
    }
    pipeline = [name for name in PIPELINE.split() if entries[name] in known]
    filters = {name for name in pipeline if name != "proxy-server"}
    return {
        "pipeline:main": {"pipeline": " ".join(pipeline)},
        "app:proxy-server": {
            "use": "egg:swift#proxy",
            "account_autocreate": "true",
            **{f"{kind}_timeout": _PATIENT_SECONDS for kind in ("conn", "node")},
        },
        **{
            f"filter:{name}": {"use": f"egg:swift#{entries[name]}", **own.get(name, {})}
            for name in filters
        },
    }


def _write_ring(home: Path, kind: str, port: int) -> None:
    builder = home / f"{kind}.builder"
    run = swift_command("swift.cli.ringbuilder", str(home), str(builder))
    places = [f"r1z{zone}-{HOST}:{port}/{device}" for zone, device in enumerate(DEVICES, 1)]
    for arguments in (
        ["create", str(PART_POWER), "3", "0"],
        *(["add", place, "1"] for place in places),
        ["rebalance"],
    ):
        done = subprocess.run([*run, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotStarted(f"ring of {kind}: {done.stdout[-300:]}{done.stderr[-300:]}")
