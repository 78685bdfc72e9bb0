"""A write that is stored, whose object server dies before it has told any container server."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException

import pytest
from cluster_databases import listed, ring_of
from object_replicas import ObjectReplicas, replicate_objects
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account

from cluster.ports import HOST
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp

#: The test kills the server long before it would give up the container server.
_PATIENCE = "conn_timeout = 600\nnode_timeout = 600\ncontainer_update_timeout = 600\n"
NAME = "o"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_replication_brings_the_row_of_a_write_that_one_server_took(
    method: str, new_cluster: Callable[..., RunningCluster]
) -> None:
    cluster = patient(new_cluster("--nodes", "3").start())
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "c").status == 201
    if method == "DELETE":
        assert account.call("PUT", "c", NAME, body=b"old").status == 201
    container_ring = ring_of(cluster, "container")
    rows = [[]] if method == "PUT" else [[NAME]]
    await_true(lambda: listed(cluster, container_ring, owner, "c") == rows * 3, "listings before")
    write_and_kill(cluster, method, (owner, "c", NAME))
    replicas = ObjectReplicas(cluster)
    found, _ = replicas.of(owner, "c", NAME)
    assert {one.status for one in found} == {200, 404}  # the others have missed the write
    replicate_objects(cluster)
    found, _ = replicas.of(owner, "c", NAME)
    replicas.close()
    assert [one.status for one in found] == [200 if method == "PUT" else 404]
    rows = [[NAME]] if method == "PUT" else [[]]
    await_true(lambda: listed(cluster, container_ring, owner, "c") == rows * 3, "listings after")


def patient(cluster: RunningCluster) -> RunningCluster:
    """Let the object servers wait for container servers without end."""
    for conf in (cluster.home / "etc").rglob("object-server.conf"):
        conf.write_text(conf.read_text().replace("[DEFAULT]\n", f"[DEFAULT]\n{_PATIENCE}", 1))
    names = [name for name in cluster.services() if name.startswith("object-server")]
    cluster.kill_and_await_restart(*names)
    return cluster


def write_and_kill(cluster: RunningCluster, method: str, names: tuple[str, str, str]) -> None:
    """Send a write to one primary; kill its server once it is stored, before its row has left."""
    partition, (node, *_) = ring_of(cluster, "object").get_nodes(*names)
    path = f"/{node['device']}/{partition}{quote_path('/' + '/'.join(names))}"
    wanted = 200 if method == "PUT" else 404
    server = next(
        name
        for number, name in enumerate(sorted(n for n in cluster.services() if "object-s" in n), 1)
        if cluster.storage_port("object", number) == node["port"]
    )
    with silent_server() as container_host:
        headers = {
            "X-Timestamp": Timestamp.now().internal,
            "Content-Type": "text/plain",
            "X-Container-Host": container_host,
            "X-Container-Partition": "0",
            "X-Container-Device": "d1",
        }

        def write() -> None:
            connection = StorageConnection(cluster.home, HOST, node["port"])
            with suppress(OSError, HTTPException):
                connection.request(method, path, b"new" if method == "PUT" else b"", headers)
                connection.getresponse()
            connection.close()

        def is_stored() -> bool:
            connection = StorageConnection(cluster.home, HOST, node["port"])
            connection.request("HEAD", path)
            status = connection.getresponse().status
            connection.close()
            return status == wanted

        writer = threading.Thread(target=write)
        writer.start()
        await_true(is_stored, "the write is stored")
        assert writer.is_alive()  # it waits for the container server
        killed = cluster.pid_of(server)
        os.kill(killed, signal.SIGKILL)
        writer.join(60)
    await_true(lambda: cluster.pid_of(server) != killed, "a new process")
    await_true(lambda: cluster.services()[server]["state"] == "ok", "it answers")


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and never answers; yields its address."""
    with socket.create_server((HOST, 0)) as listener:
        yield f"{HOST}:{listener.getsockname()[1]}"
