# SPDX-License-Identifier: Apache-2.0
"""``martlet status`` and ``martlet down``: commands for a running cluster."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.lock import is_alive, running_supervisor
from cluster.ports import HOST
from cluster.processes import STOP_SECONDS
from cluster.readiness import answers
from cluster.services import Service, services_of

#: Exit status of ``status`` when no cluster is running, as in the Linux Standard Base.
EXIT_NOT_RUNNING = 3
EXIT_DEGRADED = 1
_POLL_SECONDS = 0.05


def status(home: Home, as_json: bool) -> int:
    """Print the services; return 0 if all answer, 3 if no cluster is running, else 1.

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
            print(f"  {entry['name']:<24} {entry['state']:<12} port {entry['port']}", end="")
            print(f"  pid {entry['pid']}" if entry["pid"] else "")
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
        "services": [_service_report(home, service) for service in services_of(home, layout)],
    }


def _service_report(home: Home, service: Service) -> dict[str, Any]:
    try:
        pid = int((home.run / f"{service.name}.pid").read_text())
    except (OSError, ValueError):
        pid = 0
    if not pid or not is_alive(pid):
        return {"name": service.name, "port": service.port, "pid": None, "state": "not running"}
    state = "ok" if answers(service) else "no answer"
    return {"name": service.name, "port": service.port, "pid": pid, "state": state}
