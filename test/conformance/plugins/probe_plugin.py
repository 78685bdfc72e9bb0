"""A plugin of pytest for OpenStack Swift's probe tests: they start and stop our servers and jobs.

The tests call swift.common.manager.Manager for each program, read Swift's rings and confs in
/etc/swift, and clear all devices by a command of their host. This module stands for these three.
It runs in the environment of Swift, which has none of our packages: the file that PROBE_CLUSTER
names describes the cluster (probes.py).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

CLUSTER: dict[str, Any] = json.loads(Path(os.environ["PROBE_CLUSTER"]).read_text())
_SERVERS = ("account-server", "container-server", "object-server", "proxy-server")
_START_SECONDS = 30.0
_PASS_SECONDS = 120.0
#: Our servers send rows and reports themselves; a pass of Swift's updaters is a wait for them.
_UPDATERS = ("container-updater", "object-updater")
_UPDATE_SECONDS = 8.0
_REPORT_SECONDS = 2

_running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
_time = (time.monotonic, time.sleep)  # tests replace those of the module


class Server:
    """One program on all nodes; nodes have numbers from 1."""

    def __init__(self, name: str, run_dir: str = "") -> None:
        self.server = name if "-" in name else f"{name}-server"
        self.programs: list[dict[str, Any]] = CLUSTER["programs"].get(self.server, [])

    def conf_files(self, number: int | None = None, **_options: object) -> list[str]:
        """The paths of the confs; the reconciler's is for a client in this process, Swift's own."""
        if self.server == "container-reconciler":
            return [CLUSTER["etc"] + "/internal-client.conf"]
        return [program["conf"] for _, program in self._chosen(number)]

    def launch(self, number: int | None = None) -> list[int]:
        """Start what does not run; return the numbers."""
        started = []
        for key, program in self._chosen(number):
            process = _running.get((self.server, key))
            if process is None or process.poll() is not None:
                _running[self.server, key] = _start(program["command"], f"{self.server}{key}")
                started.append(key)
        return started

    def await_ports(self, number: int | None = None) -> None:
        """Wait until all accept connections."""
        for key, program in self._chosen(number):
            if program["port"]:
                _await_port(program["port"], f"{self.server}{key}")

    def end(self, number: int | None = None) -> None:
        """Kill what runs, with its children."""
        for key, _ in self._chosen(number):
            process = _running.pop((self.server, key), None)
            if process is not None:
                _kill(process)

    def once(self, number: int | None = None) -> list[subprocess.Popen[bytes]]:
        """Start one pass on each node."""
        return [
            _start([*program["command"], "--once"], f"{self.server}{key}")
            for key, program in self._chosen(number)
        ]

    def _chosen(self, number: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, program in enumerate(self.programs, 1):
            if not number or number == key:
                yield key, program


class Manager:
    """Stands for swift.common.manager.Manager. All methods return the number of failures."""

    def __init__(self, names: Iterable[str], run_dir: str = "") -> None:
        wanted: list[str] = []
        for name in names:
            if name == "main":
                wanted += _SERVERS
            elif name in ("all", "rest"):
                wanted += [
                    each for each in CLUSTER["programs"] if name == "all" or each not in _SERVERS
                ]
            else:
                wanted.append(name)
        self.servers = [Server(name) for name in wanted]

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def start(self, number: int | None = None, **_options: object) -> int:
        """Start servers, and wait until they answer; start jobs for good."""
        for server in self.servers:
            server.launch(number)
        for server in self.servers:
            server.await_ports(number)
        return 0

    def stop(self, number: int | None = None, **_options: object) -> int:
        """Stop them at once."""
        for server in self.servers:
            server.end(number)
        return 0

    kill = stop

    def restart(self, number: int | None = None, **_options: object) -> int:
        """Stop and start them."""
        self.stop(number)
        return self.start(number)

    def once(self, number: int | None = None, **_options: object) -> int:
        """Run one pass of each job, one job after the other, as Swift's tests expect."""
        failures = 0
        for server in self.servers:
            if server.server in _UPDATERS:
                _await_updates(server.server)
            for process in server.once(number):
                failures += process.wait(_PASS_SECONDS) != 0
        return failures

    def status(self, number: int | None = None, **_options: object) -> int:
        """The number of servers that do not run."""
        keys = [(s.server, key) for s in self.servers for key, _ in s._chosen(number)]
        return sum(key not in _running or _running[key].poll() is not None for key in keys)


def reset() -> None:
    """End everything, and give all devices the content of a new cluster."""
    for process in _running.values():
        _kill(process)
    _running.clear()
    for path, pristine in CLUSTER["devices"].items():
        for left in (path, f"{path}X"):  # tests rename a device to take it away
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(pristine, path)


def _start(command: list[str], name: str) -> subprocess.Popen[bytes]:
    with open(f"{CLUSTER['logs']}/{name}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _await_port(port: int, name: str) -> None:
    clock, sleep = _time
    deadline = clock() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if clock() > deadline:
                raise RuntimeError(f"{name} does not answer") from None
            sleep(0.05)


def _await_updates(updater: str) -> None:
    """Wait until no row waits to be sent, and totals are reported; some may have no receiver."""
    clock, sleep = _time
    if updater == "container-updater":
        sleep(_REPORT_SECONDS)
        return
    deadline = clock() + _UPDATE_SECONDS
    while clock() < deadline and any(
        segment.stat().st_size
        for device in CLUSTER["devices"]
        for segment in Path(device).glob("async_pending*/*.pending")
    ):
        sleep(0.1)


def _map(path: Any) -> Any:
    """A path of our cluster for one of /etc/swift; the conf of a job has no proxy of Swift."""
    if isinstance(path, str) and path.startswith("/etc/swift"):
        return CLUSTER["etc"] + path.removeprefix("/etc/swift")
    if isinstance(path, str) and path.endswith("-server.conf"):
        return CLUSTER["etc"] + "/internal-client.conf"
    return path


def _connect(path: str, timeout: float = 25, logger: object = None, **_options: object) -> Any:
    """Open a database without a change of its journal, which Swift requires: ours is in use."""
    from swift.common import db

    connection = sqlite3.connect(
        path, timeout=timeout, factory=db.GreenDBConnection, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    connection.text_factory = str
    connection.create_function("chexor", 3, db.chexor)
    return connection


def _replace() -> None:
    from swift.common import db, internal_client, manager, storage_policy, utils
    from swift.common.ring import Ring
    from swift.common.utils import config

    for module in (storage_policy, utils, config):
        module.SWIFT_CONF_FILE = f"{CLUSTER['etc']}/swift.conf"
    utils.validate_hash_conf()
    storage_policy.reload_storage_policies()
    manager.Manager, manager.Server = Manager, Server
    db.get_db_connection = _connect
    for kind in (Ring, internal_client.InternalClient):
        kind.__init__ = _mapped(kind.__init__)
    common: Any = import_module("test.probe.common")
    common.resetswift, common.kill_orphans = reset, lambda: None


def _mapped(plain: Any) -> Any:
    def init(self: object, path: Any, *arguments: Any, **options: Any) -> None:
        plain(self, _map(path), *arguments, **options)

    return init


_replace()
