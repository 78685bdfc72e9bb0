# SPDX-License-Identifier: Apache-2.0
"""``GET /metrics`` of each service: right totals from each worker, also after a reload."""

from __future__ import annotations

import http.client
import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families
from running_cluster import RunningCluster, await_true
from swift_api import Account

OBJECTS = 40
#: CPU of a scrape, seconds. The requirement is 0.01; the machine of a test may be busy.
CPU_SECONDS_MAX = 0.05
SCRAPES = 20

Samples = dict[tuple[str, ...], float]


def scrape(port: int) -> Samples:
    """Name and labels -> value."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    assert response.status == 200, text
    return {
        (sample.name, *sorted(f"{k}={v}" for k, v in sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def puts(port: int) -> float:
    key = ("martlet_requests_total", "method=PUT", "policy=0", "status=201")
    return scrape(port).get(key, 0.0)


def test_each_service_shows_what_it_did(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    before = puts(cluster.port)
    assert account.call("PUT", "metrics").status == 201
    for number in range(OBJECTS):
        assert account.call("PUT", f"metrics/o{number}", body=b"x" * 100).status == 201
    # Whichever worker answers, it has the totals of all.
    for _ in range(10):
        assert puts(cluster.port) == before + OBJECTS
    assert ("martlet_hints_waiting",) in scrape(cluster.port)  # of the app, behind all filters
    objects = scrape(cluster.storage_port("object"))
    written = [v for k, v in objects.items() if k[0] == "martlet_bundle_operations_total"]
    assert sum(written) >= OBJECTS
    assert objects["martlet_grid_connections",] > 0
    for kind in ("account", "container"):
        found = scrape(cluster.storage_port(kind))
        counted = [v for k, v in found.items() if k[0] == "martlet_requests_total"]
        assert sum(counted) > 0, kind
        assert any(k[0] == "martlet_device_inodes" for k in found), kind


def test_a_reload_keeps_the_counts(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "reloaded").status in (201, 202)
    assert account.call("PUT", "reloaded/o", body=b"x").status == 201
    before = puts(cluster.port)
    assert before > 0
    log = cluster.home / "logs" / "proxy-server.log"
    reloads = log.read_text().count(" listening ip=")
    os.kill(cluster.pid_of("proxy-server"), signal.SIGHUP)

    def is_reloaded() -> bool:
        return log.read_text().count(" listening ip=") > reloads

    await_true(is_reloaded, "the proxy reloads")
    await_true(lambda: puts(cluster.port) == before, "the counts are those of before")


@pytest.mark.parametrize("kind", ["proxy", "account", "container", "object"])
def test_a_scrape_is_cheap(cluster: RunningCluster, kind: str) -> None:
    port = cluster.port if kind == "proxy" else cluster.storage_port(kind)
    names = [name for name in cluster.services() if name.startswith(f"{kind}-server")]
    pids = [pid for name in names for pid in family_of(cluster.pid_of(name))]
    scrape(port)
    before = sum(map(cpu_seconds, pids))
    for _ in range(SCRAPES):
        scrape(port)
    assert (sum(map(cpu_seconds, pids)) - before) / SCRAPES < CPU_SECONDS_MAX


def family_of(pid: int) -> list[int]:
    """A process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [pid, *map(int, children.read().split())]


def cpu_seconds(pid: int) -> float:
    """The time that a process has used; 0 for one that has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
