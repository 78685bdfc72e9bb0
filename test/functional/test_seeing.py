"""Views of a cluster for an operator: `martlet recon`, `status`, `get-nodes`, `dispersion`, audits.

The tests share a cluster of four nodes with background jobs. Each leaves it as it was.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_databases import device_path, ring_of
from frozen import frozen
from patience import patiently
from running_cluster import RunningCluster, await_true
from swift_api import Account

from cluster.ports import HOST
from ring.builder_file import load_builder
from ring.file_format import encode_ring
from ring.ring import Ring

OBJECTS = 12
BODY = b"a body of which one byte rots on a disk"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Four nodes with objects, of which each replica is there."""
    home = tmp_path_factory.mktemp("seen")
    running = RunningCluster(home, "--nodes", "4", background=True).start()
    account = Account(running.port)
    assert account.call("PUT", "c").status == 201
    for number in range(OBJECTS):
        assert account.call("PUT", "c", f"o{number}", body=BODY).status == 201
    account.close()
    await_true(lambda: audit(running)[0] == 0, "equal replicas everywhere")
    yield running
    assert running.stop() == 0, "".join(running.output)


def audit(cluster: RunningCluster, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the report of `martlet audit-account`."""
    done = cluster.command("audit-account", "--json", *arguments, "AUTH_test")
    return done.returncode, json.loads(done.stdout)


def recon(cluster: RunningCluster, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status and the answers of `martlet recon`."""
    done = cluster.command("recon", "--json", *arguments)
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def answers(report: dict[str, Any], kind: str, question: str) -> list[Any]:
    return [one["answers"][question] for one in report["servers"] if one["kind"] == kind]


def is_in_sync(cluster: RunningCluster) -> bool:
    """Whether each node has finished a pass that found all replicas equal."""
    _, report = recon(cluster, "object", "--replication")
    found = answers(report, "object", "replication")
    if None in found:  # a server is just starting
        return False
    stats = [one["replication_stats"] or {} for one in found]
    return all(one["object_replication_last"] for one in found) and all(
        one.get("partitions") and one["in_sync"] == one["partitions"] and not one["failure"]
        for one in stats
    )


@contextmanager
def without_object_server(cluster: RunningCluster, node: int) -> Iterator[None]:
    """Nothing listens on the port of a node's object server."""
    name = f"object-server-node{node}"
    assert cluster.process is not None
    address = HOST, cluster.storage_port("object", node)

    def is_refused() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(address) != 0

    with frozen(cluster.process.pid):  # the supervisor would start it again
        os.kill(cluster.pid_of(name), signal.SIGKILL)
        await_true(is_refused, f"the end of {name}")  # the kernel closes its port later
        yield
    await_true(lambda: cluster.services()[name]["state"] == "ok", f"{name} runs again")


def object_at(cluster: RunningCluster, node: int) -> str:
    return f"{HOST}:{cluster.storage_port('object', node)}"


def test_all_is_well(seen: RunningCluster) -> None:
    ring = ring_of(seen, "object")
    used = {ring.get_part("AUTH_test", "c", f"o{number}") for number in range(OBJECTS)}

    def have_all_been_compared() -> bool:
        found = answers(recon(seen, "object")[1], "object", "replication")
        stats = [one["replication_stats"] or {} for one in found if one]
        counted = sum(one.get("partitions", 0) for one in stats)
        return counted == 3 * len(used) and is_in_sync(seen)

    await_true(have_all_been_compared, "a pass of each replicator over all replicas")
    await_true(lambda: recon(seen)[0] == 0, "a pass of each replicator of databases")
    status, report = recon(seen)
    assert status == 0, report["problems"]
    assert len(report["servers"]) == 12
    assert report["no_answer"] == report["problems"] == []
    assert sum(found["async_pending"] for found in answers(report, "object", "async")) == 0
    text = seen.command("recon").stdout
    assert "12 of 12 servers answered; nothing is wrong" in text
    for node in range(1, 5):
        (line,) = [x for x in text.splitlines() if object_at(seen, node) in x]
        assert " ok " in line
        assert " ago " in line
        assert line.endswith(" same")


def test_all_questions_of_all_servers(seen: RunningCluster) -> None:
    status, report = recon(seen, "--all")
    assert status == 0, report["problems"]
    for server in report["servers"]:
        missing = [name for name, answer in server["answers"].items() if answer is None]
        assert missing == []
    text = seen.command("recon", "--all", "--diskusage", "--top", "2").stdout
    assert "12 servers  account.ring.gz" in text
    assert "disk usage: in use most" in text
    assert "4 servers  object-server" in text


def test_a_node_that_is_down_and_one_that_hangs(seen: RunningCluster) -> None:
    hanging, down = object_at(seen, 2), object_at(seen, 4)

    def ask_all(timeout: float) -> None:
        done = seen.command("recon", "-t", str(timeout))
        status, report = recon(seen, "object", "--replication", "--time", "-t", str(timeout))
        assert done.returncode == status == 3
        assert "10 of 12 servers answered; what is wrong:" in done.stdout
        assert f"object server {hanging} does not answer: no answer in {timeout} s" in done.stdout
        assert f"object server {down} does not answer: cannot connect" in done.stdout
        assert report["no_answer"] == sorted(f"object {one}" for one in (hanging, down))
        assert sum(one["answers"]["time"] is not None for one in report["servers"]) == 2

    with without_object_server(seen, 4), frozen(seen.pid_of("object-server-node2")):
        patiently(ask_all)


def test_status_shows_the_age_of_replication(seen: RunningCluster) -> None:
    await_true(lambda: is_in_sync(seen), "a pass of each replicator")
    text = seen.command("status").stdout
    (line,) = [line for line in text.splitlines() if line.startswith("  replication  ")]
    assert "objects " in line
    assert " ago, " in line
    found = json.loads(seen.command("status", "--json").stdout)["replication"]["object"]
    assert found["servers"] == found["answered"] == 4
    assert found["in_sync"] == found["attempted"] > 0
    assert found["last"] > 0


def test_a_ring_that_half_of_the_nodes_have(seen: RunningCluster, tmp_path: Path) -> None:
    etc = seen.home / "etc"
    confs = {node: etc / f"node{node}" / "object-server.conf" for node in (3, 4)}
    services = [f"object-server-node{node}" for node in confs]
    old = tmp_path / "old"
    old.mkdir()
    for path in (*etc.glob("*.ring.gz"), etc / "martlet.conf"):
        shutil.copy(path, old)
    before = {conf: conf.read_text() for conf in confs.values()}
    ring = etc / "container.ring.gz"
    first = ring.read_bytes()
    try:
        for conf, text in before.items():
            conf.write_text(text.replace(f"swift_dir = {etc}\n", f"swift_dir = {old}\n"))
        seen.kill_and_await_restart(*services)
        data = load_builder(etc / "container.builder").ring_data()
        ring.write_bytes(encode_ring(data, "container.ring.gz", 2))  # the same in another form
        assert ring.read_bytes() != first
        status, report = recon(seen, "--md5")
        text = seen.command("recon").stdout
    finally:
        ring.write_bytes(first)
        for conf, content in before.items():
            conf.write_text(content)
        seen.kill_and_await_restart(*services)
    assert status == 1
    assert len(report["problems"]) == 2
    assert all("its container.ring.gz is another one (md5 " in p for p in report["problems"])
    named = " ".join(report["problems"])
    assert all(object_at(seen, node) in named for node in confs)
    rows = [line for line in text.splitlines() if line.endswith(" DIFFER")]
    assert len(rows) == 2
    assert recon(seen, "--md5")[0] == 0


def test_a_quarantined_object_is_counted(seen: RunningCluster) -> None:
    account = Account(seen.port)
    assert account.call("PUT", "c", "rotten", body=BODY * 2).status == 201
    await_true(lambda: audit(seen)[0] == 0, "equal replicas everywhere")
    ring = ring_of(seen, "object")
    partition, nodes = ring.get_nodes("AUTH_test", "c", "rotten")
    segments = (device_path(seen, nodes[0]) / "bundles" / str(partition)).glob("*.bundle")
    (segment,) = [path for path in segments if BODY * 2 in path.read_bytes()]
    # Nothing may repair it before it was seen.
    jobs = seen.services()["background-node" + nodes[0]["device"].removeprefix("d")]["jobs"]
    mending = [job for job in jobs if job["job"] in ("object-replicator", "object-auditor")]
    assert len(mending) == 2
    with ExitStack() as stack:
        for job in mending:
            stack.enter_context(frozen(job["pid"]))
        with segment.open("r+b") as stream:
            stream.seek(segment.read_bytes().index(BODY * 2) + len(BODY))
            stream.write(b"X")
        done = seen.command("audit-account", "--deep", "AUTH_test/c/rotten")
        assert done.returncode == 1
        assert f"{nodes[0]['ip']}:{nodes[0]['port']}/{nodes[0]['device']}" in done.stdout
        _, report = recon(seen, "object", "--quarantined")
        counts = {
            one["address"]: one["answers"]["quarantined"]["objects"] for one in report["servers"]
        }
        assert counts.pop(f"{nodes[0]['ip']}:{nodes[0]['port']}") == 1
        assert set(counts.values()) == {0}
    await_true(lambda: audit(seen, "--deep")[0] == 0, "the replicator gets it from a peer")
    account.close()


def test_get_nodes(seen: RunningCluster) -> None:
    done = seen.command("get-nodes", "--json", "--ask", "-a", "AUTH_test", "c", "o1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ring: Ring = ring_of(seen, "object")
    partition, nodes = ring.get_nodes("AUTH_test", "c", "o1")
    assert found["partition"] == partition
    assert [n["id"] for n in found["nodes"][:3]] == [n["id"] for n in nodes]
    assert [n["answer"]["status"] for n in found["nodes"]] == [200, 200, 200, 404]
    for node in found["nodes"][:3]:
        assert (device_path(seen, node).parent / node["directory"]).is_dir()
    done = seen.command("get-nodes", "--json", "AUTH_test/c")
    for node in json.loads(done.stdout)["nodes"][:3]:
        assert list((device_path(seen, node).parent / node["directory"]).glob("*.db"))
    missing = seen.command("get-nodes", "--ask", "AUTH_test/c/none")
    assert missing.returncode == 1
    assert missing.stdout.count("  404  ") == 4


def test_dispersion(seen: RunningCluster) -> None:
    none = seen.command("dispersion", "report")
    assert none.returncode == 1
    assert "run `martlet dispersion populate`" in none.stderr
    made = seen.command("dispersion", "populate", "--coverage", "2")
    assert made.returncode == 0, made.stderr
    await_true(lambda: seen.command("dispersion", "report").returncode == 0, "all copies")
    with without_object_server(seen, 3):
        done = seen.command("dispersion", "report", "--json", "--retries", "0")
        shown = seen.command("dispersion", "report", "--object-only", "-p", "--retries", "0")
    assert done.returncode == shown.returncode == 1
    report = json.loads(done.stdout)
    assert report["container"]["pct_found"] == 100.0
    found = report["object"]
    ring, port = ring_of(seen, "object"), seen.storage_port("object", 3)
    lacking = sorted(map(int, found["incomplete"]))
    assert all(port in {n["port"] for n in ring.get_part_nodes(p)} for p in lacking)
    assert found["copies_expected"] == 3 * found["partitions"] == 60
    assert found["missing_one"] == len(lacking) == 60 - found["copies_found"] > 0
    assert f"partition {lacking[0]} lacks 1" in shown.stdout
    assert "cannot connect" in shown.stdout


def test_an_audit_names_what_differs(seen: RunningCluster, tmp_path: Path) -> None:
    assert audit(seen, "--deep")[0] == 0
    with without_object_server(seen, 1):
        status, report = audit(seen, "--errors", str(tmp_path / "paths"))
    assert status == 1
    ring = ring_of(seen, "object")
    port = seen.storage_port("object", 1)
    expected = {
        f"AUTH_test/c/o{number}"
        for number in range(OBJECTS)
        if port in {n["port"] for n in ring.get_nodes("AUTH_test", "c", f"o{number}")[1]}
    }
    found = {one["path"] for one in report["differences"]}
    assert expected <= found
    assert set((tmp_path / "paths").read_text().split()) == found
    assert all("cannot connect" in one["what"] for one in report["differences"])


# The tools of OpenStack Swift do not know the secret of the cluster: grid_plain_http lists the host
# on which they run.

_WITH_SWIFT_DIR = """
import importlib, sys
from swift.common.utils import set_swift_dir
set_swift_dir(sys.argv[1])
module = sys.argv[2]
del sys.argv[1:3]
sys.exit(importlib.import_module(module).main())
"""


@pytest.fixture(scope="module")
def swift_dir(seen: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for Swift's tools; the servers take requests of this host without a proof."""
    conf = seen.home / "etc" / "martlet.conf"
    conf.write_text(conf.read_text().replace("[grid]\n", f"[grid]\ngrid_plain_http = {HOST}\n"))
    services = [name for name in seen.services() if "-server-node" in name]
    for name in services:
        os.kill(seen.pid_of(name), signal.SIGHUP)

    def is_plain(port: int) -> bool:
        # 400: the request was let in, and names no device.
        connection = http.client.HTTPConnection(HOST, port, timeout=60)
        try:
            connection.request("HEAD", "/d0")
            return connection.getresponse().status != 403
        except (OSError, http.client.HTTPException):
            return False  # an old worker that is about to end
        finally:
            connection.close()

    ports = [entry["port"] for name, entry in seen.services().items() if name in services]
    await_true(lambda: all(is_plain(p) for p in ports for _ in range(8)), "all take requests")
    directory = tmp_path_factory.mktemp("swift")
    for ring in (seen.home / "etc").glob("*.ring.gz"):
        shutil.copy(ring, directory)
    shutil.copy(conf, directory / "swift.conf")
    (directory / "dispersion.conf").write_text(
        f"[dispersion]\nauth_url = {seen.url}/auth/v1.0\nauth_user = admin:admin\n"
        f"auth_key = admin\ndispersion_coverage = 2.0\nswift_dir = {directory}\n"
    )
    return directory


def swift(directory: Path, module: str, *arguments: str) -> str:
    """Run a tool of Swift with its files in a directory; return what it prints."""
    command = [sys.executable, "-c", _WITH_SWIFT_DIR, str(directory), module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "ERROR" not in done.stdout + done.stderr, done.stderr
    return done.stdout


def test_swifts_dispersion_tools(seen: RunningCluster, swift_dir: Path) -> None:
    conf = str(swift_dir / "dispersion.conf")
    made = swift(swift_dir, "swift.cli.dispersion_populate", conf)
    assert "Created 20 containers" in made
    assert "Created 20 objects" in made

    def report() -> Any:
        return json.loads(swift(swift_dir, "swift.cli.dispersion_report", "--dump-json", conf))

    await_true(lambda: all(kind["pct_found"] == 100.0 for kind in report().values()), "all copies")
    found = report()
    ours = json.loads(seen.command("dispersion", "report", "--json").stdout)
    for kind in ("container", "object"):
        for key in ("copies_expected", "copies_found", "pct_found", "overlapping"):
            assert found[kind][key] == ours[kind][key]


def test_swifts_get_nodes(seen: RunningCluster, swift_dir: Path) -> None:
    ring = str(swift_dir / "object.ring.gz")
    shown = swift(
        swift_dir,
        "swift.cli.get_nodes",
        *("-d", str(swift_dir), "-a", ring, "AUTH_test", "c", "o1"),
    )
    ours = json.loads(seen.command("get-nodes", "-a", "--json", "AUTH_test/c/o1").stdout)
    assert f"Partition\t{ours['partition']}" in shown
    assert ours["hash"] in shown
    places = [f"{n['ip']}:{n['port']} {n['device']}" for n in ours["nodes"]]
    found = [line for line in shown.splitlines() if line.startswith("Server:Port Device")]
    assert [line.split("\t")[1] for line in found] == places
    # The commands that it prints are answered.
    (command,) = [line for line in shown.splitlines() if line.startswith("curl")][:1]
    url = next(word for word in shlex.split(command) if word.startswith("http://"))
    request = urllib.request.Request(url, method="HEAD")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def test_swifts_account_audit(seen: RunningCluster, swift_dir: Path) -> None:
    shown = swift(swift_dir, "swift.cli.account_audit", "-r", str(swift_dir), "AUTH_test")
    assert "Objects checked: " in shown
    for word in ("mismatch", "Bad status", "Exception", "Failed", "missing", "Missing"):
        assert word not in shown, shown


def test_swift_recon_has_the_figures_of_replication(seen: RunningCluster, swift_dir: Path) -> None:
    await_true(lambda: is_in_sync(seen), "a pass of each replicator")
    shown = swift(
        swift_dir, "swift.cli.recon", "--swiftdir", str(swift_dir), "object", "--replication"
    )
    assert "[replication_failure] low: 0, high: 0, avg: 0.0, total: 0" in shown
    assert "reported: 4" in shown
    assert "Oldest completion was 2" in shown
    assert "NEVER" not in shown
