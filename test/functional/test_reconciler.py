"""Objects in a wrong storage policy are found, queued and moved to their container's policy.

This happens after a network partition: an object server stores an object under another policy than
the container's, and reports it to the container.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_cluster import RunningCluster, await_true
from source_tree import ROOT
from storage_connection import StorageConnection
from swift_api import Account
from swift_daemons import swift_daemon
from two_policies import (
    GOLD,
    SILVER,
    names_of,
    queue,
    reconcile,
    records,
    rings_of,
    two_policies,
    write_misplaced,
)
from usage import used

from container.misplaced import queue_container
from martlet.words.timestamp import Timestamp


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with two_policies(tmp_path_factory.mktemp("policies")) as running:
        yield running


@pytest.fixture
def user(split: RunningCluster) -> Iterator[Account]:
    opened = Account(split.port)
    yield opened
    opened.close()


def await_records(
    running: RunningCluster, names: tuple[str, str, str], wanted: dict[str, dict[str, int]]
) -> None:
    """Wait until ``records`` are these: the daemon waits for a quorum of the replicas."""
    await_true(lambda: records(running, names) == wanted, f"{wanted} of {names}")


def await_body(user: Account, container: str, name: str, body: bytes | None) -> None:
    """Wait until an object is read with this body, or not at all for None."""

    def is_read() -> bool:
        answer = user.call("GET", container, name)
        return answer.status == 404 if body is None else answer.body == body

    await_true(is_read, f"the content of {container}/{name}")


def test_a_misplaced_object_comes_home(split: RunningCluster, user: Account) -> None:
    assert user.call("PUT", "home", headers={"X-Storage-Policy": "gold"}).status == 201
    assert user.call("PUT", "home", "right", body=b"1").status == 201
    names, time = names_of(user, "home", "lost"), Timestamp.now()
    metadata = {"X-Object-Meta-Color": "blue"}
    write_misplaced(split, "PUT", names, SILVER, time, b"found again", metadata)
    assert user.call("GET", "home", "lost").status == 404
    assert records(split, names) == {"bundles-1": {"PUT": 3}}
    await_true(lambda: queue(split, time), "queued")
    user.await_names(["right"], "home")
    await_true(lambda: used(user, "home") == (1, 1), "the misplaced object is not counted")
    assert [entry.name for entry in queue(split, time)] == [f"{SILVER}:/{'/'.join(names)}"]

    assert "copied=1" in reconcile(split)
    answer = user.call("GET", "home", "lost")
    assert (answer.status, answer.body) == (200, b"found again")
    assert answer.headers["content-type"] == "text/x-lost"
    assert answer.headers["x-object-meta-color"] == "blue"
    assert answer.headers["x-timestamp"] == time.normal
    await_true(lambda: user.call("GET", "home").lines == ["lost", "right"], "listed")
    await_records(split, names, {"bundles": {"PUT": 3}, "bundles-1": {"TOMBSTONE": 3}})
    await_true(lambda: not queue(split, time), "off the queue")

    assert user.call("PUT", "home", "lost", body=b"written later").status == 201
    assert "copied" not in reconcile(split)
    assert user.call("GET", "home", "lost").body == b"written later"


def test_what_is_newer_wins(split: RunningCluster, user: Account) -> None:
    """One pass moves a deletion, an older object, a newer one and a large one."""
    assert user.call("PUT", "sides", headers={"X-Storage-Policy": "silver"}).status == 201
    before = Timestamp.now()
    for name in ("deleted", "older", "newer"):
        assert user.call("PUT", "sides", name, body=b"here").status == 201
    after = Timestamp.now()
    large = b"0123456789abcdef" * (1 << 17)
    for method, name, time, body in (
        ("DELETE", "deleted", after, b""),
        ("PUT", "older", before, b"there"),
        ("PUT", "newer", after, b"there"),
        ("PUT", "large", after, large),
    ):
        names = names_of(user, "sides", name)
        write_misplaced(split, method, names, GOLD, time, body)
    hours = {queue_container(time): time for time in (before, after)}.values()
    await_true(lambda: sum(len(queue(split, hour)) for hour in hours) == 4, "queued")

    said = reconcile(split)
    assert "copied=2 deleted=1 found=1" in said
    bodies = {"deleted": None, "older": b"here", "newer": b"there", "large": large}
    for name, content in bodies.items():
        await_body(user, "sides", name, content)
    await_true(lambda: user.call("GET", "sides").lines == ["large", "newer", "older"], "listed")
    older = names_of(user, "sides", "older")
    await_records(split, older, {"bundles": {"TOMBSTONE": 3}, "bundles-1": {"PUT": 3}})
    await_true(lambda: not any(queue(split, hour) for hour in hours), "off the queue")


def test_replicas_that_disagree_about_the_policy(
    split: RunningCluster, user: Account, tmp_path: Path
) -> None:
    """The container was created here first with gold, and later on the other side with silver.

    The daemon runs with the sample of its conf.
    """
    conf = tmp_path / "container-reconciler.conf"
    text = (ROOT / "etc" / "container-reconciler.conf-sample").read_text()
    conf.write_text(text.replace("# swift_dir = /etc/martlet", f"swift_dir = {split.home}/etc"))
    assert user.call("PUT", "first").status == 201  # which makes the account
    account, container = names_of(user, "twice", "")[:2]
    ring = rings_of(split).container
    partition, nodes = ring.get_nodes(account, container)
    for number, node in enumerate(nodes):
        connection = StorageConnection(split.home, node["ip"], node["port"])
        time = Timestamp(float(Timestamp.now()) - 10 + number)
        policy = SILVER if number == 2 else GOLD
        headers = {
            "X-Timestamp": time.internal,
            "X-Backend-Storage-Policy-Index": str(policy),
            "Content-Length": "0",
        }
        connection.request(
            "PUT", f"/{node['device']}/{partition}/{account}/{container}", b"", headers
        )
        assert connection.getresponse().status == 201
        connection.close()
    gold, silver, time = (account, container, "g"), (account, container, "s"), Timestamp.now()
    write_misplaced(split, "PUT", gold, GOLD, time, b"in gold")
    write_misplaced(split, "PUT", silver, SILVER, time, b"in silver")
    await_true(lambda: len(queue(split, time)) == 2, "queued by the replicas that differ")
    assert "copied=1 in_place=1" in reconcile(split, conf)
    assert records(split, gold) == {"bundles": {"PUT": 3}}
    await_records(split, silver, {"bundles": {"PUT": 3}, "bundles-1": {"TOMBSTONE": 3}})
    # For the replica with the losing policy, the moved object is misplaced now.
    again = f"{GOLD}:/{'/'.join(silver)}"
    await_true(lambda: [e.name for e in queue(split, time)] == [again], "queued again")
    assert "in_place=1" in reconcile(split)
    await_true(lambda: not queue(split, time), "off the queue")


def test_openstack_swifts_own_reconciler_works_off_our_queue(
    split: RunningCluster, user: Account, tmp_path: Path
) -> None:
    assert user.call("PUT", "theirs").status == 201
    put, deleted, time = (*(names_of(user, "theirs", n) for n in ("put", "gone")), Timestamp.now())
    write_misplaced(split, "PUT", put, SILVER, time, b"found", {"X-Object-Meta-Color": "blue"})
    assert user.call("PUT", "theirs", "gone", body=b"x").status == 201
    later = Timestamp.now()
    write_misplaced(split, "DELETE", deleted, SILVER, later)
    hours = {queue_container(moment): moment for moment in (time, later)}.values()
    await_true(lambda: sum(len(queue(split, hour)) for hour in hours) == 2, "queued")

    command = swift_daemon(
        "swift.container.reconciler", "container-reconciler", split.home, tmp_path, "--once", "-v"
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = user.call("GET", "theirs", "put")
    assert (answer.status, answer.body) == (200, b"found"), done.stdout + done.stderr
    assert answer.headers["x-object-meta-color"] == "blue"
    await_body(user, "theirs", "gone", None)
    await_records(split, put, {"bundles": {"PUT": 3}, "bundles-1": {"TOMBSTONE": 3}})
    await_true(lambda: user.call("GET", "theirs").lines == ["put"], "listed")
    await_true(lambda: not any(queue(split, hour) for hour in hours), "off the queue")
