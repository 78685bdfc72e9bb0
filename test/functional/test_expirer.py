"""Objects whose X-Delete-At has passed are deleted: bytes, rows and counts follow.

The expirer runs as a command here, in the moment that a test needs it. test_background.py has the
one of `martlet up`.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked_passes import Pass, total_figures
from frozen import frozen
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from stored_records import stored_kinds
from swift_api import Account
from swift_daemons import swift_daemon
from usage import await_usage, settled

from cluster.ports import HOST
from martlet.words.expiring import EXPIRER_ACCOUNT, task_container, task_name
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.ring import RingSet, load_rings

Names = tuple[str, str, str]
NODES = 3
MANY = 120
#: The most deletions of Swift's expirer whose rows are not in the listing yet, and more.
IN_FLIGHT = 10
#: So far away that no other test of this file expires it.
LATER = 5000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    home = tmp_path_factory.mktemp("expirer")
    (home / "etc").mkdir()
    # Swift's own expirer speaks to the storage servers without proof.
    (home / "etc" / "martlet.conf").write_text("[grid]\ngrid_plain_http = 127.0.0.1\n")
    policies = ("--policy", "gold", "--policy", "silver")
    cluster = RunningCluster(home, "--nodes", str(NODES), *policies).start().await_writes()
    yield cluster
    assert cluster.stop() == 0, "".join(cluster.output)


@pytest.fixture
def user(running: RunningCluster) -> Iterator[Account]:
    opened = Account(running.port)
    yield opened
    opened.close()


def command_of(running: RunningCluster, *arguments: str) -> list[str]:
    """Return the command of an expirer that does all of the work."""
    conf = running.home / "etc" / "node1" / "object-server.conf"
    everything = ("--processes", "0", "--process", "0")
    module = "replicator.expirer.command"
    return [sys.executable, "-m", module, str(conf), *everything, *arguments]


def expire(running: RunningCluster) -> dict[str, Any]:
    """Run one pass and return its figures that are not zero."""
    found = total_figures([Pass(*command_of(running, "--once", "--json")[2:])])
    return {name: value for name, value in found.items() if value}


def expire_all(running: RunningCluster, count: int) -> None:
    """Run passes until all objects of a number are deleted.

    A task's row may come late to the replica of the queue that a pass reads.
    """
    done = 0

    def has_deleted() -> bool:
        nonlocal done
        done += int(expire(running).get("deleted", 0))
        return done >= count

    await_true(has_deleted, f"{count} objects are deleted")
    assert done == count


def await_no_task(running: RunningCluster) -> None:
    """Run passes until one finds an empty queue: rows of deletions may come late, too."""
    await_true(lambda: "tasks" not in expire(running), "an empty queue")


def rings_of(running: RunningCluster) -> RingSet:
    return load_rings(running.home / "etc", policies=[0, 1])


def names_of(user: Account, container: str, obj: str) -> Names:
    return user.path.removeprefix("/v1/"), container, obj


def delete_at(user: Account, container: str, obj: str) -> int:
    """Return the time from the newest replica. On a busy machine it may have passed already."""
    opened = {"X-Open-Expired": "true", "X-Newest": "true"}
    return int(user.call("HEAD", container, obj, headers=opened).headers["x-delete-at"])


def await_time(moment: float) -> None:
    """Wait until a time has come, with its whole second."""
    time.sleep(max(0.0, int(moment) + 1 - time.time()))


def put_expiring(user: Account, container: str, *objects: str, seconds: int = 1) -> int:
    """Put objects that expire soon; return the time when all have."""
    last = 0
    for obj in objects:
        headers = {"X-Delete-After": str(seconds)}
        assert user.call("PUT", container, obj, headers=headers, body=b"x" * 10).status == 201
        last = int(time.time()) + seconds + 1
    return last


def queue_of(running: RunningCluster, names: Names, at: int) -> list[bool]:
    """Return for each replica of the queue whether it has the task of an object."""
    rings = rings_of(running)
    container = task_container(rings.hash_path.digest(*names), at)
    partition, nodes = rings.container.get_nodes(EXPIRER_ACCOUNT, container)
    found = []
    for node in nodes:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        path = f"/{node['device']}/{partition}/{EXPIRER_ACCOUNT}/{container}?format=json"
        connection.request("GET", path)
        answer = connection.getresponse()
        rows = json.loads(answer.read()) if answer.status == 200 else []
        connection.close()
        found.append(task_name(at, *names) in [row["name"] for row in rows])
    return found


def await_queue(running: RunningCluster, names: Names, at: int, wanted: bool) -> None:
    await_true(
        lambda: queue_of(running, names, at) == [wanted] * 3, f"task of {names} there: {wanted}"
    )


def kinds(running: RunningCluster, names: Names) -> list[str]:
    """Return the kind of record of an object on each device that has one."""
    return [kind for _, kind in stored_kinds(running, names)]


def await_gone(running: RunningCluster, user: Account, container: str, *objects: str) -> None:
    """Wait until only tombstones are on the devices, and no row is listed."""

    def is_deleted(names: Names) -> bool:
        return kinds(running, names) == ["TOMBSTONE"] * 3

    for obj in objects:
        names = names_of(user, container, obj)
        await_true(partial(is_deleted, names), f"bytes of {names}")
    await_true(
        lambda: not set(objects) & set(user.call("GET", container).lines), f"rows in {container}"
    )


@contextmanager
def stopped(running: RunningCluster, *services: str) -> Iterator[None]:
    """Let servers answer nothing."""
    with frozen(*(running.pid_of(service) for service in services)):
        yield


def test_an_expired_object_vanishes(running: RunningCluster, user: Account) -> None:
    """Its bytes, its row, the counts of its container and of its account, and its task."""
    for container, policy in (("plain", "gold"), ("other", "silver")):
        assert user.call("PUT", container, headers={"X-Storage-Policy": policy}).status == 201
        assert user.call("PUT", container, "stays", body=b"1").status == 201
        put_expiring(user, container, "goes", seconds=2)
    tasks = [
        (names_of(user, container, "goes"), delete_at(user, container, "goes"))
        for container in ("plain", "other")
    ]
    await_usage(running, user, "plain", (2, 11))
    for names, at in tasks:
        await_queue(running, names, at, True)
        await_time(at)
    assert user.call("GET", "plain", "goes").status == 404
    user.await_names(["goes", "stays"], "plain")  # not yet

    assert expire(running)["deleted"] == 2
    connection = StorageConnection(running.home, HOST, running.storage_port("container"))
    connection.request("GET", "/recon/expirer/object")
    assert json.loads(connection.getresponse().read())["expired_last_pass"] == 2
    connection.close()
    for container in ("plain", "other"):
        await_gone(running, user, container, "goes")
        await_usage(running, user, container, (1, 1))
    for names, at in tasks:
        await_queue(running, names, at, False)
    assert user.call("GET", "plain", "stays").body == b"1"
    assert settled(user, running.home) == (2, 2)
    assert "tasks" not in expire(running)


def test_changed_times_win(running: RunningCluster, user: Account) -> None:
    """A later PUT, a POST with another time, and a POST without one keep the object."""
    assert user.call("PUT", "changed").status == 201
    objects = ("put", "put later", "post", "post later")
    # On a busy machine the changes below take seconds; they must come before the time.
    end = put_expiring(user, "changed", *objects, seconds=12)
    first = {name: delete_at(user, "changed", name) for name in ("put", "post")}
    later = {"X-Delete-After": str(LATER)}
    assert user.call("PUT", "changed", "put", body=b"new").status == 201
    assert user.call("PUT", "changed", "put later", headers=later, body=b"new").status == 201
    assert user.call("POST", "changed", "post").status == 202
    assert user.call("POST", "changed", "post later", headers=later).status == 202
    for name, at in first.items():
        await_queue(running, names_of(user, "changed", name), at, False)  # the object servers' work
    await_time(end)
    assert "deleted" not in expire(running)
    for name in objects:
        assert user.call("GET", "changed", name).status == 200, name
    assert "x-delete-at" not in user.call("HEAD", "changed", "post").headers
    assert delete_at(user, "changed", "post later") > time.time() + LATER - 200


def test_a_task_with_another_time_stays_and_harms_nothing(
    running: RunningCluster, user: Account
) -> None:
    """The queue may have a task that the object servers could not remove."""
    assert user.call("PUT", "stale").status == 201
    assert user.call("PUT", "stale", "o", body=b"kept").status == 201
    names, at = names_of(user, "stale", "o"), int(time.time()) + 1
    add_task(running, names, at)
    await_time(at)
    assert expire(running)["waiting"] >= 1
    assert user.call("GET", "stale", "o").body == b"kept"
    assert queue_of(running, names, at) == [True] * 3
    remove_task(running, names, at)


def add_task(running: RunningCluster, names: Names, at: int, kind: str = "text/plain") -> None:
    headers = {"X-Size": "0", "X-Content-Type": kind, "X-Etag": "d41d8cd98f00b204e9800998ecf8427e"}
    _ask_queue(running, "PUT", names, at, headers)


def remove_task(running: RunningCluster, names: Names, at: int) -> None:
    _ask_queue(running, "DELETE", names, at, {})


def _ask_queue(
    running: RunningCluster, method: str, names: Names, at: int, headers: dict[str, str]
) -> None:
    rings = rings_of(running)
    container = task_container(rings.hash_path.digest(*names), at)
    partition, nodes = rings.container.get_nodes(EXPIRER_ACCOUNT, container)
    row = quote_path(f"{EXPIRER_ACCOUNT}/{container}/{task_name(at, *names)}")
    for node in nodes:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        sent = {"X-Timestamp": Timestamp.now().internal, "Content-Length": "0", **headers}
        connection.request(method, f"/{node['device']}/{partition}/{row}", b"", sent)
        assert connection.getresponse().status in (201, 204)
        connection.close()


def test_large_objects_versions_and_links(running: RunningCluster, user: Account) -> None:
    """The manifest of a large object goes, its segments stay. A version stays, but not current."""
    for container in ("segments", "large"):
        assert user.call("PUT", container).status == 201
    versions = {"X-Versions-Enabled": "true"}
    assert user.call("PUT", "kept", headers=versions).status == 201
    assert user.call("PUT", "segments", "1", body=b"part").status == 201
    manifest = json.dumps([{"path": "segments/1"}]).encode()
    headers = {"X-Delete-After": "2"}
    query = {"multipart-manifest": "put"}
    assert user.call("PUT", "large", "o", headers=headers, body=manifest, **query).status == 201
    link = {**headers, "X-Symlink-Target": "segments/1"}
    assert user.call("PUT", "large", "link", headers=link, body=b"").status == 201
    assert user.call("PUT", "kept", "o", body=b"first").status == 201
    await_time(put_expiring(user, "kept", "o", seconds=2))
    assert user.call("GET", "kept", "o").status == 404

    expire_all(running, 3)
    await_gone(running, user, "large", "o", "link")
    assert user.call("GET", "segments", "1").body == b"part"
    await_true(lambda: user.call("GET", "kept").lines == [], "no current version is listed")
    assert user.call("GET", "kept", "o").status == 404

    def versions_of() -> list[Any]:
        listed: list[Any] = user.call("GET", "kept", versions="true", format="json").json
        return listed

    await_true(lambda: [row["bytes"] for row in versions_of()] == [10, 5], "both versions")
    first = versions_of()[1]["version_id"]
    assert user.call("GET", "kept", "o", **{"version-id": first}).body == b"first"
    await_no_task(running)


def test_an_asynchronous_deletion_is_done(running: RunningCluster, user: Account) -> None:
    """Such tasks are of a proxy of OpenStack Swift, for the segments of a large object."""
    assert user.call("PUT", "async").status == 201
    assert user.call("PUT", "async", "segment", body=b"part").status == 201
    assert user.call("PUT", "async", "other", body=b"part").status == 201
    at = int(time.time()) + 1
    for name in ("segment", "absent"):
        add_task(running, names_of(user, "async", name), at, "application/async-deleted")
    await_time(at)
    found = expire(running)
    assert (found["deleted"], found["gone"]) == (1, 1)
    await_gone(running, user, "async", "segment")
    assert user.call("GET", "async", "other").body == b"part"


def test_a_killed_expirer_leaves_nothing_undone(running: RunningCluster, user: Account) -> None:
    assert user.call("PUT", "killed").status == 201
    names = [f"o{number}" for number in range(MANY)]
    end = put_expiring(user, "killed", *names)
    await_usage(running, user, "killed", (MANY, MANY * 10))
    await_time(end)
    conf = Path(command_of(running)[3])
    slow = conf.with_name("slow-expirer.conf")
    # Without this it may be done before the test looks again.
    pace = f"[object-expirer]\ntasks_per_second = {MANY // 20}\n"
    slow.write_text(conf.read_text().replace("[object-expirer]\n", pace))
    command = [str(slow) if word == str(conf) else word for word in command_of(running)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def is_begun() -> bool:
        return len(user.call("GET", "killed").lines) < MANY - 10

    await_true(is_begun, "some objects are deleted")
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert user.call("GET", "killed").lines, "the expirer was faster than the test"
    found = expire(running)
    assert found["deleted"] > 0
    assert "failed" not in found
    await_true(lambda: user.call("GET", "killed").lines == [], "nothing is listed")
    await_usage(running, user, "killed", (0, 0))
    await_gone(running, user, "killed", *names[:: MANY // 5])
    await_no_task(running)


def test_ours_and_swifts_own_at_once(
    running: RunningCluster, user: Account, tmp_path: Path
) -> None:
    """Both work off the same queue at the same time: nothing is left, and nothing else goes."""
    assert user.call("PUT", "both").status == 201
    assert user.call("PUT", "both", "stays", body=b"1").status == 201
    names = [f"o{number}" for number in range(MANY)]
    end = put_expiring(user, "both", *names)
    # A listing without a late row would look as if Swift's had begun.
    await_usage(running, user, "both", (MANY + 1, MANY * 10 + 1))
    await_time(end)
    theirs = swift_daemon(
        *("swift.obj.expirer", "object-expirer", running.home, tmp_path, "--once", "-v"),
        options=f"recon_cache_path = {tmp_path}\ntasks_per_second = {MANY // 10}",
    )
    swift = subprocess.Popen(theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    await_true(lambda: len(user.call("GET", "both").lines) <= MANY, "Swift's has begun")
    with ThreadPoolExecutor(1) as pool:
        with frozen(swift.pid):  # on a busy machine it would be done before ours begins
            left = len(user.call("GET", "both").lines) - IN_FLIGHT
            pass_of_ours = pool.submit(expire, running)
            await_true(lambda: len(user.call("GET", "both").lines) < left, "ours has begun")
        ours = pass_of_ours.result()
    said = swift.communicate(timeout=300)[0]
    assert swift.returncode == 0, said
    print(ours, said)
    done = re.search(r"Pass completed in \d+s; (\d+) objects expired", said)
    assert done is not None, said
    assert int(done[1]) > 0
    assert ours["deleted"] > 0
    assert ours.get("failed", 0) == ours.get("unread", 0) == 0
    await_true(lambda: user.call("GET", "both").lines == ["stays"], "only one is listed")
    await_gone(running, user, "both", *names[:: MANY // 5])
    await_no_task(running)


def test_swifts_own_expirer_works_off_our_queue(
    running: RunningCluster, user: Account, tmp_path: Path
) -> None:
    assert user.call("PUT", "theirs").status == 201
    assert user.call("PUT", "theirs", "stays", body=b"1").status == 201
    put_expiring(user, "theirs", "goes", "also", seconds=2)
    tasks = [(names_of(user, "theirs", o), delete_at(user, "theirs", o)) for o in ("goes", "also")]
    for names, at in tasks:
        await_queue(running, names, at, True)
        await_time(at)
    theirs = swift_daemon(
        *("swift.obj.expirer", "object-expirer", running.home, tmp_path, "--once", "-v"),
        options=f"recon_cache_path = {tmp_path}",
    )
    done = subprocess.run(theirs, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 objects expired" in done.stderr + done.stdout
    await_gone(running, user, "theirs", "goes", "also")
    for names, at in tasks:
        await_queue(running, names, at, False)
    user.await_names(["stays"], "theirs")


def test_a_put_while_servers_are_away_has_its_task(running: RunningCluster, user: Account) -> None:
    """The rows for a container server that does not answer wait on the devices."""
    assert user.call("PUT", "away").status == 201
    names = [f"o{number}" for number in range(6)]
    with stopped(running, "object-server-node1", "container-server-node2"):
        end = put_expiring(user, "away", *names, seconds=3)
    await_time(end)

    def is_empty() -> bool:
        """Whether all are deleted: a replica of the listing may lack the rows of the PUTs."""
        expire(running)
        return user.call("GET", "away").lines == [] and not any(
            "PUT" in kinds(running, names_of(user, "away", name)) for name in names
        )

    await_true(is_empty, "all are deleted")
