# SPDX-License-Identifier: Apache-2.0
"""``martlet up``: starts a cluster from a home directory, empty or used."""

from __future__ import annotations

import shutil
import ssl
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cluster.confs import CONSOLE_PATH, write_confs
from cluster.errors import ClusterError, Stopped
from cluster.layout import Home, Layout
from cluster.lock import lock_home
from cluster.policies import ClusterPolicies, WantedPolicy, read_cluster_policies
from cluster.ports import HOST, PortPicker, check_proxy_port
from cluster.processes import Child, Supervisor
from cluster.readiness import (
    AUTH_PATH,
    TRIAL_KEY,
    TRIAL_USER,
    answers,
    serves_requests,
    storage_tls,
)
from cluster.rings import write_rings
from cluster.services import Service, services_of
from martlet.conf.cluster import CONF_NAME, HashOptions
from martlet.conf.storage_policies import StoragePolicy
from martlet.service.process_lock import ProcessLock
from ring.device_marker import DeviceMarkers

READY_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.02
_LOG_LINE_CHARACTERS_MAX = 300


def up(
    home: Home,
    proxy_port: int,
    node_count: int | None,
    wanted: Sequence[WantedPolicy] = (),
    has_background: bool = True,
) -> int:
    """Run the cluster of ``home`` until a stop signal; return the exit status.

    ``node_count`` None means the nodes of the home, or one in a new home. ``wanted`` policies that
    do not exist are added. Without ``has_background`` no background job runs.

    :raises ClusterError: it cannot run; all started processes have ended.
    """
    _say(f"home {home.root}")
    lock = _lock(home)  # before the layout is read: a second start must not create another one
    layout = home.read_layout() or Layout.create(1 if node_count is None else node_count)
    if node_count is not None and node_count != len(layout.nodes):
        raise ClusterError(
            f"{home.root} holds a cluster of {_count(len(layout.nodes), 'node')}: omit --nodes, "
            f"or use another MARTLET_HOME"
        )
    policies = read_cluster_policies(home, wanted)
    check_proxy_port(proxy_port)
    layout = layout.with_secret().with_ports(proxy_port, PortPicker(taken=proxy_port))
    services = services_of(home, layout)
    if not has_background:
        services = _without_background(home, services)
    _prepare(home, layout, policies)
    say_refused_devices(home, layout)
    supervisor = Supervisor(services, home.logs, home.run, _say, (lock.descriptor,))
    try:
        _say(f"starting {len(services)} services, logs in {home.logs}")
        supervisor.start()
        _await_ready(supervisor, proxy_port, storage_tls(home))
        supervisor.start(is_background=True)  # servers answer, so the first pass finds its peers
        _await_background(supervisor)
        _print_ready(proxy_port)
        supervisor.watch()
    except Stopped as signal_name:
        _say(f"{signal_name}: stopping")
    finally:
        supervisor.stop()
    _say("stopped")
    return 0


def _without_background(home: Home, services: Sequence[Service]) -> list[Service]:
    """The other services. What a killed cluster left of the background jobs is removed."""
    for service in services:
        if service.is_background:
            (home.run / f"{service.name}.pid").unlink(missing_ok=True)
    return [service for service in services if not service.is_background]


def _lock(home: Home) -> ProcessLock:
    try:
        home.run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(f"cannot create {home.run}: {error.strerror}") from None
    return lock_home(home.run)


def _prepare(home: Home, layout: Layout, policies: ClusterPolicies) -> None:
    """Write the files of the services; the layout first, as parts of it must never change."""
    home.write_layout(layout)
    for directory in home.directories(layout):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot create {directory}: {error.strerror}") from None
    nodes, devices = _count(len(layout.nodes), "node"), _count(layout.device_count, "device")
    _say(f"rings and confs of {nodes} with {devices} in {home.etc}")
    if len(policies.policies) > 1:
        _say(f"storage policies {', '.join(map(_described, policies.policies))}")
    write_rings(home, layout, policies)
    write_confs(home, layout, policies)


def say_refused_devices(home: Home, layout: Layout) -> None:
    """Print the devices that the services will refuse: without them, requests may fail."""
    markers = DeviceMarkers(HashOptions.read(home.etc / CONF_NAME), mount_check=False)
    for node in layout.nodes:
        for device in node.devices:
            path = home.node_devices(layout, node) / device
            if problem := markers.problem(str(path)):
                _say(f"{path} cannot be used: {problem}")


def _described(policy: StoragePolicy) -> str:
    notes = " (default)" * policy.is_default + " (deprecated)" * policy.is_deprecated
    return f"{policy.name}{notes}"


def _await_ready(supervisor: Supervisor, proxy_port: int, tls: ssl.SSLContext | None) -> None:
    """Wait for every service, then for a complete request.

    :raises ClusterError: a service died, or the time is over.
    """
    deadline = time.monotonic() + READY_SECONDS_MAX
    for child in supervisor.children:
        if not child.service.is_background:
            _await_answer(child, supervisor, deadline, tls)
    what = f"the proxy serves no request (see {supervisor.logs}/proxy-server.log)"
    _await(partial(serves_requests, proxy_port), what, supervisor, deadline)


def _await_background(supervisor: Supervisor) -> None:
    """Wait until each node's background jobs have started.

    :raises ClusterError: a service died, or the time is over.
    """
    deadline = time.monotonic() + READY_SECONDS_MAX
    for child in supervisor.children:
        if child.service.is_background:
            _await_answer(child, supervisor, deadline)


def _await_answer(
    child: Child, supervisor: Supervisor, deadline: float, tls: ssl.SSLContext | None = None
) -> None:
    assert child.process is not None
    is_true = partial(answers, child.service, child.process.pid, tls)
    _await(is_true, f"{child.service.name} does not answer", supervisor, deadline)


def _await(
    is_true: Callable[[], bool], otherwise: str, supervisor: Supervisor, deadline: float
) -> None:
    while not is_true():
        for dead in supervisor.wait(_POLL_SECONDS):
            raise ClusterError(_words_of_death(dead))
        if time.monotonic() > deadline:
            raise ClusterError(f"not ready after {READY_SECONDS_MAX:.0f} s: {otherwise}")


def _words_of_death(child: Child) -> str:
    return (
        f"{child.service.name} {child.end} while starting: "
        f"{_last_line(child.log_path)} (whole log: {child.log_path})"
    )


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return "its log cannot be read"
    lines = [line for line in lines if line.strip()]
    return lines[-1][:_LOG_LINE_CHARACTERS_MAX] if lines else "its log is empty"


def _print_ready(proxy_port: int) -> None:
    url = f"http://{HOST}:{proxy_port}"
    login = f"{_swift_client()} -A {url}{AUTH_PATH} -U {TRIAL_USER} -K {TRIAL_KEY}"
    print(
        f"ready {url}\n"
        f"\n"
        f"  console   {url}{CONSOLE_PATH}\n"
        f"  auth URL  {url}{AUTH_PATH}\n"
        f"  user      {TRIAL_USER}\n"
        f"  key       {TRIAL_KEY}\n"
        f"\n"
        f"Try it from another terminal:\n"
        f"\n"
        f"  {login} upload photos README.md\n"
        f"  {login} list photos\n"
        f"\n"
        f"Or by the S3 API (doc/s3.md), with aws-cli:\n"
        f"\n"
        f"  export AWS_ACCESS_KEY_ID={TRIAL_USER} AWS_SECRET_ACCESS_KEY={TRIAL_KEY}\n"
        f"  export AWS_DEFAULT_REGION=us-east-1 AWS_ENDPOINT_URL={url}\n"
        f"  aws s3 mb s3://pictures && aws s3 cp README.md s3://pictures/\n"
        f"\n"
        f"WARNING: these users and keys are the same in every martlet: for trials only.\n"
        f"Ctrl-C stops the cluster; its data stay for the next start.",
        flush=True,
    )


def _swift_client() -> str:
    """The command of the client: with its path if only this environment has it."""
    beside = Path(sysconfig.get_path("scripts")) / "swift"
    if shutil.which("swift") or not beside.exists():
        return "swift"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _say(text: str) -> None:
    print(f"martlet: {text}", file=sys.stdout, flush=True)
