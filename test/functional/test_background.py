"""A cluster heals by itself: the background jobs of `martlet up`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from frozen import frozen
from object_replicas import ObjectReplicas
from running_cluster import RunningCluster, await_true
from swift_api import Account

from martlet.service.child_process import is_alive

NewCluster = Callable[..., RunningCluster]
OBJECTS = 24
NODES = ("node1", "node2", "node3")
JOB = "object-replicator"


def job(cluster: RunningCluster, supervisor: str) -> dict[str, Any]:
    """Return the status of the object replicator of a supervisor."""
    (found,) = (row for row in cluster.services()[supervisor]["jobs"] if row["job"] == JOB)
    return dict(found)


def jobs(cluster: RunningCluster) -> dict[str, dict[str, Any]]:
    """Return the status of the object replicators of all nodes."""
    return {node: job(cluster, f"background-{node}") for node in NODES}


def await_answer_of_all(cluster: RunningCluster) -> None:
    def all_are_well() -> bool:
        return {entry["state"] for entry in cluster.services().values()} == {"ok"}

    await_true(all_are_well, "all services and jobs are well")


def test_a_server_that_was_away_gets_what_it_missed(new_cluster: NewCluster) -> None:
    """No command is given: missed writes and deletes arrive, hand-offs are given back.

    An object that expires is deleted.
    """
    cluster = new_cluster("--nodes", "3", background=True).start()
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    replicas = ObjectReplicas(cluster)
    names = [f"o{number}" for number in range(OBJECTS)]
    deleted, replaced, fresh = names[::3], names[1::3], names[2::3]
    assert account.call("PUT", "c").status == 201
    for name in (*deleted, *replaced):
        assert account.call("PUT", "c", name, body=b"before").status == 201
    soon = {"X-Delete-After": "2"}
    assert account.call("PUT", "c", "expires", headers=soon, body=b"x").status == 201

    away = cluster.pid_of("object-server-node1")
    with frozen(away):
        for name in deleted:
            assert account.call("DELETE", "c", name).status == 204
        for name in (*replaced, *fresh):
            assert account.call("PUT", "c", name, body=b"after").status == 201
    assert cluster.pid_of("object-server-node1") == away
    began = time.monotonic()

    def is_healed(name: str) -> bool:
        answers, handoffs = replicas.of(owner, "c", name)
        wanted = 404 if name in deleted else 200
        is_same = len(answers) == 1 and {answer.status for answer in answers} == {wanted}
        return is_same and set(handoffs) == {404}

    for name in names:
        await_true(partial(is_healed, name), f"equal replicas of {name}")
    print(f"all equal {time.monotonic() - began:.1f} s after the server went on")
    replicas.close()
    for name in replaced:
        assert account.call("GET", "c", name).body == b"after"
    left = sorted((*replaced, *fresh))
    await_true(lambda: account.call("GET", "c").lines == left, "an expired object is not listed")
    await_answer_of_all(cluster)
    assert cluster.stop() == 0


def test_a_killed_job_is_restarted_and_a_stop_leaves_no_process(new_cluster: NewCluster) -> None:
    cluster = new_cluster("--nodes", "3", background=True).start()
    before = {node: row["pid"] for node, row in jobs(cluster).items()}
    os.kill(before["node2"], signal.SIGKILL)
    await_true(lambda: jobs(cluster)["node2"]["restarts"] == 1, "a restart of the replicator")
    await_answer_of_all(cluster)
    after = {node: row["pid"] for node, row in jobs(cluster).items()}
    assert after["node2"] != before["node2"]
    assert (after["node1"], after["node3"]) == (before["node1"], before["node3"])

    supervisor = "background-node3"
    cluster.kill_and_await_restart(supervisor)
    await_true(lambda: not is_alive(before["node3"]), "the kernel has ended the job")
    assert is_alive(job(cluster, supervisor)["pid"])

    pids = cluster.all_pids()
    assert {row["pid"] for row in jobs(cluster).values()} <= pids
    assert cluster.command("down").returncode == 0
    # A slow one is killed, and a kill takes effect a bit later.
    await_true(lambda: not any(map(is_alive, pids)), "no process is left", 30.0)
    log = cluster.home / "logs" / "background-node2.log"
    assert "job died" in log.read_text()


def test_a_killed_cluster_takes_its_jobs_along(new_cluster: NewCluster) -> None:
    cluster = new_cluster(background=True).start()
    first = job(cluster, "background")
    assert is_alive(first["pid"])
    cluster.stop(signal.SIGKILL)
    cluster.start()
    assert not is_alive(first["pid"])
    second = job(cluster, "background")
    assert second["restarts"] == 0
    assert is_alive(second["pid"])


def test_without_background_there_is_no_job_until_the_next_start(new_cluster: NewCluster) -> None:
    """Also a cluster of an older release gets its jobs at its next start."""
    cluster = new_cluster().start()
    assert "background" not in cluster.services()
    # On a busy machine a service may need more than the two seconds that it gets.
    await_true(lambda: cluster.command("status").returncode == 0, "all services answer")
    cluster.stop()
    again = new_cluster(home=cluster.home, background=True).start()
    assert {row["state"] for row in again.services()["background"]["jobs"]} == {"running"}
    assert job(again, "background")["state"] == "running"
