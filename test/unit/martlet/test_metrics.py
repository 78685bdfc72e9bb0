"""Metrics: counts of all workers in one table, and the page of a service."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from martlet.conf.options import ConfigError, load_options
from martlet.grid.plain_http import PlainHttp
from martlet.http.environ import TELL_POLICY, Environ, HeaderList, StartResponse, WSGIApp
from martlet.metrics.families import FAMILIES
from martlet.metrics.host import HostCollector, HostFolders
from martlet.metrics.page import MetricsPage
from martlet.metrics.requests import CountedPipeline, Requests, requests
from martlet.metrics.service import GAUGE_KIND, ServiceCollector, gauge_rows, worker_gauges
from martlet.metrics.shared import KEY_BYTES, OVERFLOW, SharedTable, private_region
from martlet.metrics.sums import Figures, WorkerSums
from martlet.metrics.xfs import XfsCollector
from martlet.recon.cache import update_figures
from martlet.recon.figures import Devices
from martlet.service.server import ServerOptions

Samples = dict[tuple[str, ...], float]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedTable]:
    monkeypatch.delenv("MARTLET_METRICS", raising=False)
    table = SharedTable.open()
    yield table
    monkeypatch.delenv("MARTLET_METRICS", raising=False)


@pytest.fixture
def own_region() -> Iterator[None]:
    requests.use(private_region())
    yield
    requests.use(private_region())


def samples(registry: CollectorRegistry) -> Samples:
    """Name and values of the labels -> value."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def collected(collector: object) -> Samples:
    registry = CollectorRegistry()
    registry.register(collector)  # type: ignore[arg-type]
    return samples(registry)


def ask(app: WSGIApp, method: str, path: str) -> tuple[str, bytes]:
    """Status and body of a request from 127.0.0.1."""
    told = []

    def start_response(status: str, headers: HeaderList, exc_info: Any = None) -> None:
        told.append(status)

    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": "127.0.0.1"}
    result = app(environ, start_response)
    body = b"".join(result)
    close = getattr(result, "close", None)
    if close is not None:
        close()
    return told[-1], body


def in_a_child(work: object) -> None:
    """Run a function in a forked process, as a worker does."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()  # type: ignore[operator]
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_each_worker_has_the_totals_of_all(table: SharedTable) -> None:
    def work() -> None:
        counts = Requests()
        counts.use(table.claim())
        for _ in range(1000):
            counts.add("GET", "1", 200, 0.004)
        counts.add("PUT", "1", 201, 100.0)

    in_a_child(work)
    in_a_child(work)  # continues the region of the one before
    own = Requests()
    own.use(table.claim())
    own.add("GET", "1", 200, 0.004)
    shown = collected(ServiceCollector("proxy", table))
    assert shown["martlet_requests_total", "GET", "1", "200"] == 2001
    assert shown["martlet_requests_total", "PUT", "1", "201"] == 2
    assert shown["martlet_request_duration_seconds_count", "GET", "1"] == 2001
    assert shown["martlet_request_duration_seconds_bucket", "0.0025", "GET", "1"] == 0
    assert shown["martlet_request_duration_seconds_bucket", "0.005", "GET", "1"] == 2001
    assert shown["martlet_request_duration_seconds_bucket", "10.0", "PUT", "1"] == 0
    assert shown["martlet_request_duration_seconds_bucket", "+Inf", "PUT", "1"] == 2
    assert shown["martlet_request_duration_seconds_sum", "PUT", "1"] == 200


class Counting:
    """An application with a count and a value of now."""

    def __init__(self) -> None:
        self.served = 0

    def figures(self) -> tuple[Figures, Figures]:
        return {"served": self.served}, {"open": 2}

    def use_sums(self, sums: Callable[[], Figures]) -> None:
        raise AssertionError


def test_counts_outlive_their_worker_and_values_of_now_do_not(table: SharedTable) -> None:
    def work() -> None:
        app = Counting()
        sums = WorkerSums(table, table.claim(), app)
        app.served = 10
        sums.show()

    in_a_child(work)
    in_a_child(work)
    app = Counting()
    own = table.claim()
    own.row("count of-another-release")[0] = 5
    sums = WorkerSums(table, own, app)
    assert sums.sums() == {"served": 20, "open": 2}
    app.served = 1

    def beside() -> None:
        other = Counting()
        of_other = WorkerSums(table, table.claim(), other)
        other.served = 100
        # This worker has not shown its last request.
        assert of_other.sums() == {"served": 120, "open": 4}

    in_a_child(beside)
    assert sums.sums() == {"served": 121, "open": 2}


def test_two_workers_at_the_same_time_have_regions_of_their_own(table: SharedTable) -> None:
    own = table.claim()
    own.row("request GET - 200")[1] = 1

    def work() -> None:
        table.claim().row("request GET - 200")[1] = 5

    in_a_child(work)
    assert own.row("request GET - 200")[1] == 1
    shown = collected(ServiceCollector("proxy", table))
    assert shown["martlet_requests_total", "GET", "", "200"] == 6


def test_gauges_of_a_worker_end_with_it(table: SharedTable) -> None:
    def work() -> None:
        gauges = {("martlet_workers",): 1.0, ("martlet_suppressed_devices", "a:1/d"): 1.0}
        table.claim().set_all(f"{GAUGE_KIND} ", gauge_rows(gauges))
        shown = collected(ServiceCollector("proxy", table))
        assert shown["martlet_suppressed_devices", "a:1/d"] == 1

    in_a_child(work)
    shown = collected(ServiceCollector("proxy", table))
    assert ("martlet_suppressed_devices", "a:1/d") not in shown
    assert shown.get(("martlet_workers",), 0) == 0


def test_a_device_that_works_again_is_no_longer_shown(table: SharedTable) -> None:
    region = table.claim()
    region.set_all("gauge ", gauge_rows({("martlet_suppressed_devices", "a:1/d"): 1.0}))
    assert ("martlet_suppressed_devices", "a:1/d") in collected(ServiceCollector("proxy", table))
    region.set_all("gauge ", gauge_rows({("martlet_hints_waiting",): 0.0}))
    shown = collected(ServiceCollector("proxy", table))
    assert ("martlet_suppressed_devices", "a:1/d") not in shown
    assert shown["martlet_hints_waiting",] == 0


def test_a_reload_keeps_the_counts(table: SharedTable) -> None:
    table.claim().row("request GET - 200")[1] = 7
    again = SharedTable.open()  # finds the descriptor in the environment
    assert collected(ServiceCollector("proxy", again))["martlet_requests_total", "GET", "", "200"]


def test_memory_of_another_layout_is_not_used(table: SharedTable) -> None:
    descriptor = int(os.environ["MARTLET_METRICS"].partition(":")[2])
    os.pwrite(descriptor, b"martlet metrics 0", 0)
    assert list(SharedTable.open().rows()) == []


def test_a_number_that_is_no_memory_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MARTLET_METRICS", f"{os.getpid()}:987")
    assert list(SharedTable.open().rows()) == []
    monkeypatch.delenv("MARTLET_METRICS")


def test_a_full_region_counts_the_rest_together() -> None:
    region = private_region()
    for number in range(2000):
        region.row(f"request GET {number} 200")[1] += 1
    assert region.row(OVERFLOW)[1] > 0
    assert region.row("request GET 3 200")[1] == 1


def test_a_long_key_loses_its_end(table: SharedTable) -> None:
    table.claim().row("gauge martlet_suppressed_devices " + "x" * 200)[0] = 1
    [(_, key, _)] = table.rows()
    assert len(key) == KEY_BYTES


@pytest.mark.usefixtures("own_region")
def test_unknown_methods_share_one_label(table: SharedTable) -> None:
    counts = Requests()
    counts.use(table.claim())
    for number in range(50):
        counts.add(f"M{number}", "", 405, 0.0)
    assert collected(ServiceCollector("proxy", table))["martlet_requests_total", "other", "", "405"]
    assert len(list(table.rows())) == 1


def test_the_pipeline_is_counted_with_policy_until_the_end_of_the_body(table: SharedTable) -> None:
    def app(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        environ[TELL_POLICY]("3")
        start_response("206 Partial Content", [])
        yield b"half"

    requests.use(table.claim())
    try:
        status, body = ask(CountedPipeline(app), "GET", "/v1/a/c/o")
    finally:
        requests.use(private_region())
    assert (status, body) == ("206 Partial Content", b"half")
    shown = collected(ServiceCollector("proxy", table))
    assert shown["martlet_requests_total", "GET", "3", "206"] == 1


def test_a_pipeline_that_raises_counts_as_500(table: SharedTable) -> None:
    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        raise RuntimeError("broken")

    requests.use(table.claim())
    try:
        with pytest.raises(RuntimeError):
            ask(CountedPipeline(app), "GET", "/")
    finally:
        requests.use(private_region())
    shown = collected(ServiceCollector("proxy", table))
    assert shown["martlet_requests_total", "GET", "", "500"] == 1


def page(readers: list[str]) -> MetricsPage:
    def app(environ: Environ, start_response: StartResponse) -> list[bytes]:
        start_response("404 Not Found", [])
        return [b"of the pipeline"]

    return MetricsPage(app, CollectorRegistry(), PlainHttp(readers))


def test_only_listed_addresses_read_the_page() -> None:
    listed = page(["127.0.0.0/8"])
    assert ask(listed, "GET", "/metrics")[0] == "200 OK"
    assert ask(listed, "POST", "/metrics")[0] == "405 Method Not Allowed"
    assert ask(listed, "GET", "/metrics/x")[0] == "404 Not Found"
    assert ask(page(["10.0.0.1"]), "GET", "/metrics")[0] == "404 Not Found"
    assert ask(page([]), "GET", "/metrics")[0] == "404 Not Found"


def test_the_option_names_itself_when_an_address_is_wrong() -> None:
    with pytest.raises(ConfigError, match="metrics_from: 'nonsense'"):
        load_options(ServerOptions, {"metrics_from": "nonsense"})


def test_gauges_come_from_all_layers() -> None:
    class Inner:
        def gauges(self) -> dict[tuple[str, ...], float]:
            return {("martlet_hints_waiting",): 4}

    class Outer:
        _app = Inner()

    assert worker_gauges(Outer()) == {("martlet_workers",): 1.0, ("martlet_hints_waiting",): 4}


def test_the_figures_of_a_host(tmp_path: Path) -> None:
    (tmp_path / "devices" / "d1").mkdir(parents=True)
    (tmp_path / "devices" / "d1" / "quarantined" / "containers" / "x").mkdir(parents=True)
    (tmp_path / "object.ring.gz").write_bytes(b"a ring")
    cache = str(tmp_path / "cache")
    stats = {"attempted": 9, "in_sync": 8, "failure": 1, "handoffs": "broken"}
    figures = {"replication_last": 12.5, "replication_time": 3, "replication_stats": stats}
    sizes = {"container_database_sizes": {"+Inf": 2}, "container_database_largest": 77}
    update_figures(cache, "container", {**figures, **sizes})
    folders = HostFolders("container", str(tmp_path), cache)
    shown = collected(HostCollector(folders, Devices(str(tmp_path / "devices"), False)))
    digest = hashlib.md5(b"a ring").hexdigest()
    [ring] = [key for key in shown if key[0] == "martlet_ring_info"]
    assert ring == ("martlet_ring_info", digest, "object")
    assert shown["martlet_device_usable", "d1"] == 1
    assert shown["martlet_device_inodes", "d1"] == os.statvfs(tmp_path).f_files
    assert shown["martlet_quarantined", "containers", ""] == 1
    job = "container-replicator"
    assert shown["martlet_pass_last_timestamp_seconds", job] == 12.5
    assert shown["martlet_pass_duration_seconds", job] == 3
    assert shown["martlet_pass_items", "attempted", job] == 9
    assert shown["martlet_pass_items", "failed", job] == 1
    assert ("martlet_pass_items", "handoffs", job) not in shown
    assert shown["martlet_container_databases", "+Inf"] == 2
    assert shown["martlet_container_database_largest_bytes",] == 77


def test_a_ring_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    ring = tmp_path / "account.ring.gz"
    ring.write_bytes(b"first")
    collector = HostCollector(HostFolders("proxy", str(tmp_path), ""), None)

    def digest() -> str:
        return next(key[1] for key in collected(collector) if key[0] == "martlet_ring_info")

    first = digest()
    ring.write_bytes(b"the second one")
    assert digest() != first


def test_quarantine_is_read_once_a_minute(tmp_path: Path) -> None:
    folder = tmp_path / "devices" / "d1" / "quarantined" / "accounts"
    folder.mkdir(parents=True)
    now = [1000.0]
    devices = Devices(str(tmp_path / "devices"), False)
    folders = HostFolders("account", str(tmp_path), "")
    collector = HostCollector(folders, devices, clock=lambda: now[0])
    key = ("martlet_quarantined", "accounts", "")
    assert collected(collector)[key] == 0
    (folder / "a database").mkdir()
    assert collected(collector)[key] == 0
    now[0] += 61
    assert collected(collector)[key] == 1


def test_the_inode_cache_of_xfs(tmp_path: Path) -> None:
    (tmp_path / "sdb").touch()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"{tmp_path}/sdb {tmp_path}/srv/d1 xfs rw 0 0\nproc /proc proc rw 0 0\n")
    stats = tmp_path / "sys" / "sdb" / "stats"
    stats.mkdir(parents=True)
    (stats / "stats").write_text("extent_alloc 1 2 3 4\nig 100 60 1 40 2 30 5\nlog 1\n")
    collector = XfsCollector(f"{tmp_path}/srv", mounts, tmp_path / "sys")
    found = {
        (s.labels["device"], s.labels["event"]): s.value
        for family in collector.collect(["d1", "d2"])
        for s in family.samples
    }
    assert found["d1", "missed"] == 40
    assert found["d1", "attempts"] == 100
    assert {device for device, _ in found} == {"d1"}
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert list(collector.collect(["d1"])) == []


def test_the_inode_cache_is_read_without_a_call_to_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call to a device that hangs would stop the worker."""
    mounts = tmp_path / "mounts"
    mounts.write_bytes(
        f"/dev/absent {tmp_path}/srv/d1 xfs rw 0 0\n".encode() + b"x /\xff ext4 rw\n"
    )
    called: list[str] = []
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **k: called.append(str(path)) or lstat(path, **k))
    list(XfsCollector(f"{tmp_path}/srv", mounts, tmp_path).collect(["d1"]))
    assert called
    assert not [path for path in called if path.endswith("/d1")]


def test_the_text_can_be_parsed_and_its_families_are_listed(
    table: SharedTable, tmp_path: Path
) -> None:
    from prometheus_client import generate_latest

    requests_of = Requests()
    requests_of.use(table.claim())
    requests_of.add("GET", "", 200, 0.1)
    registry = CollectorRegistry()
    registry.register(ServiceCollector("account", table))
    registry.register(
        HostCollector(HostFolders("account", str(tmp_path), ""), Devices(str(tmp_path), False))
    )
    text = generate_latest(registry).decode()
    names = {family.name for family in text_string_to_metric_families(text)}
    known = {name.removesuffix("_total") for name in FAMILIES}
    assert names
    assert names <= known
