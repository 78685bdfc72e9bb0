# SPDX-License-Identifier: Apache-2.0
"""``martlet status`` and ``martlet down``: commands for a running cluster."""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from cluster.layout import Home, Layout
from cluster.lock import running_supervisor
from cluster.ports import HOST
from cluster.processes import STOP_SECONDS
from cluster.readiness import answers, read_jobs, storage_tls
from cluster.recon.summary import as_line, replication_of
from cluster.services import Service, services_of
from cluster.swift_dir import ClusterFiles
from martlet.service.child_process import is_alive

#: Exit status of ``status`` when no cluster is running, as in the Linux Standard Base.
EXIT_NOT_RUNNING = 3
EXIT_DEGRADED = 1
_POLL_SECONDS = 0.05


def status(home: Home, as_json: bool) -> int:
    """Print the services; return 0 if all are well, 3 if no cluster is running, else 1.

    :raises ClusterError: the home cannot be read.
    """
    report = _report(home)
    if as_json:
        print(json.dumps(report, indent=2))
    elif not report["running"]:
        print(f"no cluster runs in {home.root}")
    else:
        print(f"{report['url']}  home {home.root}  supervisor {report['pid']}")
        for entry in report["services"]:
            _print_service(entry)
        if report["replication"]:
            print(f"  {as_line(report['replication'])}")
    if not report["running"]:
        return EXIT_NOT_RUNNING
    return 0 if all(e["state"] == "ok" for e in report["services"]) else EXIT_DEGRADED


def down(home: Home) -> int:
    """Stop the cluster of ``home`` and wait for its end.

    :raises ClusterError: it may not be stopped, or does not stop.
    """
    supervisor = running_supervisor(home.run)
    if supervisor is None:
        print(f"no cluster runs in {home.root}")
        return 0
    try:
        os.kill(supervisor, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended between the two calls
    except PermissionError:
        raise ClusterError(f"process {supervisor} belongs to another user") from None
    deadline = time.monotonic() + STOP_SECONDS + 5.0
    while is_alive(supervisor):
        if time.monotonic() > deadline:
            raise ClusterError(f"process {supervisor} does not stop")
        time.sleep(_POLL_SECONDS)
    print("stopped")
    return 0


def _print_service(entry: dict[str, Any]) -> None:
    jobs = entry.get("jobs")
    place = f"port {entry['port']}" if jobs is None else f"{len(jobs)} job{'s'[len(jobs) == 1 :]}"
    pid = f"  pid {entry['pid']}" if entry["pid"] else ""
    print(f"  {entry['name']:<24} {entry['state']:<12} {place:<10}{pid}".rstrip())
    for job in jobs or ():
        pid = f"  pid {job['pid']}" if job["pid"] else ""
        count = job["restarts"]
        restarts = f"  restarts {count}" if count else ""
        print(f"    {job['job']:<22} {job['state']:<12} {'':<10}{pid}{restarts}".rstrip())


def _report(home: Home) -> dict[str, Any]:
    layout = home.read_layout()
    supervisor = running_supervisor(home.run)
    if layout is None or supervisor is None:
        return {"running": False, "home": str(home.root)}
    return {
        "running": True,
        "home": str(home.root),
        "url": f"http://{HOST}:{layout.proxy_port}",
        "pid": supervisor,
        "services": service_reports(home, layout),
        "replication": _replication(home),
    }


def service_reports(home: Home, layout: Layout) -> list[dict[str, Any]]:
    """The state of each service of a cluster that runs."""
    tls = storage_tls(home)
    return [
        _service_report(home, service, tls)
        for service in services_of(home, layout)
        if not service.is_background or _pid_path(home, service).exists()
    ]


def _replication(home: Home) -> dict[str, Any]:
    try:
        return replication_of(ClusterFiles.load(home.etc))
    except ClusterError:  # the services say what is wrong with their files
        return {}


def _pid_path(home: Home, service: Service) -> Path:
    return home.run / f"{service.name}.pid"


def _service_report(
    home: Home, service: Service, tls: ssl.SSLContext | None = None
) -> dict[str, Any]:
    """The state of a service; that of background jobs is "ok" if all of them run."""
    try:
        pid = int(_pid_path(home, service).read_text())
    except (OSError, ValueError):
        pid = 0
    report: dict[str, Any] = {"name": service.name, "port": service.port}
    jobs = read_jobs(service, pid) or []
    more = {"jobs": jobs} if service.is_background else {}
    if not pid or not is_alive(pid):
        return {**report, "pid": None, "state": "not running", **more}
    state = "ok" if answers(service, pid, tls) else "no answer"
    if any(job["state"] != "running" for job in jobs):
        state = "job fails"
    return {**report, "pid": pid, "state": state, **more}
