"""A real cluster for a test: `martlet up` in its own home, stopped after the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar
from weakref import WeakSet

from forked_up import ForkedUp
from prepared_child import prepare_child

from cluster.confs import usable_processors
from cluster.layout import Home
from cluster.ports import HOST, PortPicker
from cluster.status import service_reports

MARTLET = str(Path(sysconfig.get_path("scripts")) / "martlet")
START_SECONDS_MAX = 120.0


def await_true(condition: Callable[[], Any], what: str, seconds: float = 150.0) -> None:
    """Wait until the condition is true; check it again after short pauses.

    A report that a busy account server does not accept in time is repeated after a minute.
    The pauses grow with the wait: checks take processor time from the processes waited for.

    :raises AssertionError: it does not become true in time.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds:.0f} s: {what}"
        time.sleep(min(0.25, max(0.02, waited / 20)))


def free_port() -> int:
    """Return a port that is unused now."""
    return PortPicker(taken=0).keep_or_pick(0)


class RunningCluster:
    """`martlet up` in the foreground of its own process; its output is collected.

    Without ``background`` nothing heals: a missed write stays missed, and idle servers are quiet.
    """

    #: Whether `martlet up` is a fork of a process that has loaded it: it starts with a third of
    #: the processor time. Else the command is executed, as a user does it.
    is_forked: ClassVar[bool] = True
    #: All that some test or fixture still holds.
    made: ClassVar[WeakSet[RunningCluster]] = WeakSet()

    def __init__(
        self, home: Path, *arguments: str, port: int = 0, background: bool = False
    ) -> None:
        self.home = home
        self.port = port or free_port()
        self.arguments = arguments if background else (*arguments, "--no-background")
        self.program = MARTLET
        self.output: list[str] = []
        self.process: subprocess.Popen[str] | ForkedUp | None = None
        self.made.add(self)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def proxies(self) -> list[tuple[str, int]]:
        """The addresses of all proxies."""
        return [(HOST, self.port)]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "MARTLET_HOME": str(self.home), "MARTLET_PORT": str(self.port)}

    def launch(self) -> None:
        """Start the command without waiting for the cluster."""
        self.output = []
        if self.is_forked and self.program == MARTLET:
            started = ForkedUp([self.program, "up", *self.arguments], self.environment)
            self.process, output = started, started.output
        else:
            executed = self._execute()
            assert executed.stdout is not None
            self.process, output = executed, executed.stdout
        self._reader = threading.Thread(target=self._collect, args=(output,), daemon=True)
        self._reader.start()

    def _execute(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program, "up", *self.arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=prepare_child,
        )

    def start(self) -> RunningCluster:
        """Start the command and wait for its ready line."""
        self.launch()
        await_true(lambda: self.is_ready or not self.is_running, "a ready line", START_SECONDS_MAX)
        assert self.is_ready, "".join(self.output)
        return self

    def await_writes(self) -> RunningCluster:
        """Let writes wait longer for all replicas and rows: on a busy machine, too, reads see them.

        The wait is half of the proxy's time-out for an object server. With several nodes the proxy
        keeps its own: tests stop some of them, and each write would wait for those.
        """
        confs = [*(self.home / "etc").rglob("object-server.conf")]
        for conf in confs:
            options = "node_timeout = 5.0\ncontainer_update_timeout = 5.0\n"
            _replace(conf, "[DEFAULT]\n", f"[DEFAULT]\n{options}")
        names = [name for name in self.services() if name.startswith("object-server")]
        assert len(confs) == len(names)
        if len(confs) == 1:
            app = "[app:proxy-server]\n"
            conf = self.home / "etc" / "proxy-server.conf"
            _replace(conf, app, f"{app}post_quorum_timeout = 5.0\n")
            names.append("proxy-server")
        self.kill_and_await_restart(*names)
        await_true(
            lambda: len(descendants(self.pid_of("proxy-server"))) == usable_processors(),
            "all workers of the proxy",
        )
        return self

    @property
    def is_ready(self) -> bool:
        return any(line.startswith("ready ") for line in self.output)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it by a signal to the supervisor and return the exit status."""
        assert self.process is not None
        if self.is_running:
            self.process.send_signal(number)
        status = self.process.wait(120)
        self._reader.join(10)
        return status

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another `martlet` command on the same home."""
        return subprocess.run(
            [MARTLET, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def services(self) -> dict[str, dict[str, Any]]:
        """Return what `martlet status` says about each service, by name."""
        home = Home(self.home)
        layout = home.read_layout()
        found = [] if layout is None else service_reports(home, layout)
        return {entry["name"]: entry for entry in found}

    def pid_of(self, name: str) -> int:
        """Return the process id of a service, read from the home."""
        return int((self.home / "run" / f"{name}.pid").read_text())

    def kill_and_await_restart(self, *services: str) -> None:
        """Kill the services' processes and wait until the supervisor has restarted them."""
        before = {service: self.pid_of(service) for service in services}
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        await_true(
            lambda: all(self.pid_of(service) != pid for service, pid in before.items()),
            f"new processes for {services}",
        )
        await_true(lambda: self._answer(services), f"{services} answer again")

    def _answer(self, services: tuple[str, ...]) -> bool:
        found = self.services()
        return all(found[service]["state"] == "ok" for service in services)

    def storage_port(self, kind: str, node: int = 1) -> int:
        """Return the port of a node's account, container or object server."""
        layout = json.loads((self.home / "cluster.json").read_text())
        return int(layout["nodes"][node - 1]["ports"][kind])

    def all_pids(self) -> set[int]:
        """Return the supervisor's process and all its descendants."""
        assert self.process is not None
        return {self.process.pid, *descendants(self.process.pid)}

    def _collect(self, output: IO[str]) -> None:
        for line in output:
            self.output.append(line)
        output.close()


def _replace(conf: Path, old: str, new: str) -> None:
    text = conf.read_text()
    assert text.count(old) == 1, conf
    conf.write_text(text.replace(old, new))


def descendants(pid: int) -> set[int]:
    """Return the descendants of ``pid``, without processes that end meanwhile."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return set()
    children = {int(child) for child in text.split()}
    return children.union(*(descendants(child) for child in children))
