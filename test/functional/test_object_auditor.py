"""The object auditor of a real cluster: flipped bits are found, and come from a peer again."""

from __future__ import annotations

import configparser
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account

from cluster.ports import HOST
from martlet.service.programs import find_object_server
from ring.hashing import HashPath
from ring.ring import Node, Ring

NewCluster = Callable[..., RunningCluster]
SIZES = {"small": 3_000, "other": 20_000, "large": 3_000_000}


def body_of(name: str) -> bytes:
    return (f"{name} has its own bytes. ".encode() * (SIZES[name] // 10))[: SIZES[name]]


class Replica:
    """One replica of an object: the object server that has it, its conf and its device."""

    def __init__(self, cluster: RunningCluster, owner: str, name: str, number: int = 0) -> None:
        etc = cluster.home / "etc"
        ring = Ring(etc / "object.ring.gz", HashPath.from_conf(etc / "martlet.conf"))
        partition, nodes = ring.get_nodes(owner, "c", name)
        node: Node = nodes[number]
        self.cluster, self.name = cluster, name
        self.port, self.device = int(node["port"]), str(node["device"])
        self.path = f"/{self.device}/{partition}/{owner}/c/{name}"
        self.conf = next(path for path in etc.rglob("object-server.conf") if self._is_of(path))
        self.root = Path(_conf(self.conf)["DEFAULT"]["devices"]) / self.device

    def _is_of(self, path: Path) -> bool:
        return _conf(path)["DEFAULT"]["bind_port"] == str(self.port)

    def get(self) -> tuple[int, bytes]:
        """Ask this replica alone."""
        connection = StorageConnection(self.cluster.home, HOST, self.port)
        try:
            connection.request("GET", self.path)
            answer = connection.getresponse()
            try:
                return answer.status, answer.read()
            except OSError:  # the server ends the connection where the bytes are damaged
                return 0, b""
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def is_whole(self) -> bool:
        return self.get() == (200, body_of(self.name))

    def flip(self) -> None:
        """Flip a bit of the object's bytes on the disk."""
        some, flipped = body_of(self.name)[:200], 0
        for path in [path for path in (self.root / "bundles").rglob("*") if path.is_file()]:
            with path.open("r+b") as file:
                at = file.read().find(some)
                if at >= 0:
                    file.seek(at + 100)
                    (byte,) = file.read(1)
                    file.seek(at + 100)
                    file.write(bytes([byte ^ 4]))
                    flipped += 1
        assert flipped == 1

    def run(self, job: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Run one pass of a job of this host; return its exit status and figures."""
        command = [find_object_server(), job, str(self.conf), "--once", "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        print(done.stderr)
        return done.returncode, json.loads(done.stdout)


def _conf(path: Path) -> configparser.ConfigParser:
    conf = configparser.ConfigParser(interpolation=None)
    conf.read(path)
    return conf


def fill(cluster: RunningCluster) -> str:
    """Store the objects, wait until all replicas have them, and return the account."""
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "c").status == 201
    for name in SIZES:
        assert account.call("PUT", "c", name, body=body_of(name)).status == 201
    account.close()
    for name in SIZES:
        for number in range(3):
            await_true(Replica(cluster, owner, name, number).is_whole, f"replica {number}")
    return owner


@pytest.fixture
def quiet(new_cluster: NewCluster) -> tuple[RunningCluster, str]:
    """A cluster in which nothing is audited or repaired without a command."""
    cluster = new_cluster("--nodes", "4").start()
    return cluster, fill(cluster)


def test_flipped_bits_are_found_and_repaired(quiet: tuple[RunningCluster, str]) -> None:
    cluster, owner = quiet
    for name in SIZES:
        replica = Replica(cluster, owner, name)
        status, figures = replica.run("audit")
        assert (status, figures["damages"], figures["failures"]) == (0, 0, 0)
        assert figures["objects"] >= 1
        replica.flip()
        status, figures = replica.run("audit", "--fast")
        assert (status, figures["damages"]) == (0, 0), "a fast pass reads no bytes of objects"
        status, figures = replica.run("audit", "--device", replica.device)
        assert (status, figures["damages"], figures["refuted"]) == (1, 1, 0)
        assert not replica.is_whole()
        status, figures = replica.run("replicate", "--device", replica.device)
        assert (status, figures["damaged"], figures["fetched"]) == (0, 1, 1)
        assert replica.is_whole()
        status, figures = replica.run("audit")
        assert (status, figures["damages"], figures["failures"]) == (0, 0, 0)
        if name != "large":  # its damaged file was removed when the peer's took its place
            assert list((replica.root / "quarantined" / "objects").iterdir())


def test_a_killed_auditor_goes_on_where_it_was(quiet: tuple[RunningCluster, str]) -> None:
    cluster, owner = quiet
    account = Account(cluster.port)
    for number in range(60):
        assert account.call("PUT", "c", f"o{number}", body=b"x").status == 201
    account.close()
    replica = Replica(cluster, owner, "small")
    conf = replica.conf.with_name("slow-auditor.conf")
    conf.write_text(
        replica.conf.read_text().replace(
            "[object-auditor]\n", "[object-auditor]\nfiles_per_second = 4\n"
        )
    )
    cursor = replica.root / "auditor"

    def progress() -> dict[str, Any]:
        known = json.loads(cursor.read_text())["passes"][0] if cursor.exists() else {}
        return dict(known)

    def partitions() -> int:
        return int(progress().get("report", {}).get("partitions", 0))

    def is_further(seen: int) -> bool:
        """After the last partition, all that is left to note is the end."""
        return partitions() > seen or "ended" in progress()

    ends, before, began = 0, 0, ""
    while "ended" not in progress():
        auditor = subprocess.Popen([find_object_server(), "audit", str(conf)])
        try:
            await_true(partial(is_further, before), "progress")
        finally:
            os.kill(auditor.pid, signal.SIGKILL)
            auditor.wait()
        assert began in ("", progress()["began"]), "the pass began anew"
        ends, before, began = ends + 1, partitions(), progress()["began"]
    assert ends > 1
    here = [path for path in (replica.root / "bundles").iterdir() if path.name.isdigit()]
    assert progress()["report"]["partitions"] == len(here)
    assert progress()["report"]["damages"] == progress()["report"]["failures"] == 0


def test_a_running_cluster_repairs_what_is_read_or_audited(new_cluster: NewCluster) -> None:
    """Damage that a read or an audit meets is repaired without a command and before a pass."""
    cluster = new_cluster("--nodes", "4", background=True).start()
    make_passes_rare(cluster)
    owner = fill(cluster)
    read, audited = Replica(cluster, owner, "small"), Replica(cluster, owner, "other", 1)
    read.flip()
    assert not read.is_whole()
    await_true(read.is_whole, "a repair of what was read")
    audited.flip()
    audited.run("audit")
    await_true(audited.is_whole, "a repair of what was audited")
    account = Account(cluster.port)
    for name in SIZES:
        assert account.call("GET", "c", name).body == body_of(name)
    await_true(  # a busy server may miss the time-out of the question
        lambda: {entry["state"] for entry in cluster.services().values()} == {"ok"}, "all is well"
    )
    assert cluster.stop() == 0


def make_passes_rare(cluster: RunningCluster) -> None:
    """Leave an hour between two passes of the jobs that would find damage by themselves."""
    for conf in (cluster.home / "etc").rglob("object-server.conf"):
        often = r"(\[object-(?:auditor|replicator)\]\ninterval = )\d+"
        text, count = re.subn(often, r"\g<1>3600", conf.read_text())
        assert count == 2
        conf.write_text(text)
    services = [name for name in cluster.services() if name.startswith("background")]
    cluster.kill_and_await_restart(*services)


#: The first bytes of a record, and how records are aligned (doc/formats/bundle.md).
RECORD_MAGIC = b"mrRC"
UNIT = 64


def flip_header(replica: Replica) -> None:
    """Flip a bit in the header of the object's newest record, on the disk."""
    named, flipped = replica.path.split("/", 3)[3].encode(), 0
    for path in sorted((replica.root / "bundles").rglob("*.bundle")):
        content = path.read_bytes()
        at = content.rfind(named)
        if at < 0:
            continue
        start = next(
            unit
            for unit in range(at // UNIT * UNIT, -1, -UNIT)
            if content[unit : unit + len(RECORD_MAGIC)] == RECORD_MAGIC
        )
        with path.open("r+b") as file:
            file.seek(start + 9)  # in the record's number
            file.write(bytes([content[start + 9] ^ 16]))
        flipped += 1
    assert flipped == 1


def doubt_of(replica: Replica) -> tuple[int, str | None]:
    """Return the status of a replica's answer, and what it says to be in doubt."""
    connection = StorageConnection(replica.cluster.home, HOST, replica.port)
    try:
        connection.request("HEAD", replica.path)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers["X-Backend-Doubt"]
    except OSError as error:
        return 0, str(error)
    finally:
        connection.close()


def test_damaged_headers_are_repaired_and_what_was_deleted_stays_so(
    new_cluster: NewCluster,
) -> None:
    """Bits flip in record headers on one of three nodes: of an object and of a tombstone.

    The replicas are equal again without a command. A restart of the server changes nothing.
    """
    cluster = new_cluster("--nodes", "3", background=True).start()
    make_passes_rare(cluster)  # one of them may come between a flip and the reader
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "c").status == 201
    names = [f"o{number:02}" for number in range(40)]
    for name in names:
        assert account.call("PUT", "c", name, body=b"first").status == 201
    deleted, replaced = names[0], names[1]
    assert account.call("DELETE", "c", deleted).status == 204
    assert account.call("PUT", "c", replaced, body=b"second").status == 201
    replicas = {
        name: [Replica(cluster, owner, name, number) for number in range(3)] for name in names
    }
    server = next(
        f"object-server-node{node}"
        for node in (1, 2, 3)
        if cluster.storage_port("object", node) == replicas[deleted][0].port
    )

    def are_equal() -> bool:
        return all(
            doubt_of(replica) == (404 if name == deleted else 200, None)
            for name in names
            for replica in replicas[name]
        )

    await_true(are_equal, "equal replicas before anything is damaged")
    victims = [
        next(one for one in replicas[name] if one.port == replicas[deleted][0].port)
        for name in (deleted, replaced)
    ]
    for victim in victims:
        flip_header(victim)
        assert doubt_of(victim)[1] is not None, "a reader meets the damage"
    await_true(are_equal, "a repair of damaged headers")
    cluster.kill_and_await_restart(server)
    await_true(are_equal, "the same after a restart")
    assert account.call("GET", "c", deleted).status == 404
    assert account.call("GET", "c", replaced).body == b"second"
    for victim in victims:
        status, figures = victim.run("audit", "--device", victim.device)
        assert (status, figures["damages"], figures["failures"]) == (0, 0, 0)
    await_true(lambda: deleted not in account.call("GET", "c").lines, "no row of what is deleted")
    account.close()
    assert cluster.stop() == 0
