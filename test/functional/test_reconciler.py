"""Objects in a wrong storage policy are found, queued and moved to their container's policy.

This happens after a network partition: an object server stores an object under another policy than
the container's, and reports it to the container.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from running_cluster import RunningCluster, await_true
from sharding_clusters import is_settled, run_pass, set_options
from source_tree import ROOT
from storage_connection import StorageConnection
from swift_api import Account, Answer
from swift_daemons import swift_daemon
from usage import used

from cluster.errors import ClusterError
from cluster.object_info import Question, object_info
from container.misplaced import QUEUE_ACCOUNT, Entry, parse_entry, queue_container
from container.version_mover import Left, VersionMover
from martlet.conf.cluster import ClusterConf
from martlet.grid.client import GridClient
from martlet.words.timestamp import Timestamp
from ring.ring import Node, RingSet, load_rings

GOLD, SILVER = 0, 1


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    home = tmp_path_factory.mktemp("reconciler")
    (home / "etc").mkdir()
    # Swift's own reconciler speaks to the storage servers without proof.
    (home / "etc" / "martlet.conf").write_text("[grid]\ngrid_plain_http = 127.0.0.1\n")
    running = RunningCluster(home, "--policy", "gold", "--policy", "silver").start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture
def user(split: RunningCluster) -> Iterator[Account]:
    opened = Account(split.port)
    yield opened
    opened.close()


def rings_of(running: RunningCluster) -> RingSet:
    return load_rings(running.home / "etc", policies=[GOLD, SILVER])


def write_misplaced(
    running: RunningCluster,
    method: str,
    names: tuple[str, str, str],
    policy: int,
    time: Timestamp,
    body: bytes = b"",
    extra: Mapping[str, str] | None = None,
    *,
    has_rows: bool = True,
    replicas: int = 3,
) -> None:
    """Send the requests that a proxy on the other side would send to the object servers.

    :param has_rows: container servers are told.
    :param replicas: the first of them get the requests.
    """
    rings = rings_of(running)
    container_partition, containers = rings.container.get_nodes(*names[:2])
    partition, nodes = rings.object_ring(policy).get_nodes(*names)
    for node, container in list(zip(nodes, containers, strict=True))[:replicas]:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        headers = {
            "X-Timestamp": time.internal,
            "X-Backend-Storage-Policy-Index": str(policy),
            "Content-Type": "text/x-lost",
            "Content-Length": str(len(body)),
            **(extra or {}),
        }
        if has_rows:
            headers |= {
                "X-Container-Partition": str(container_partition),
                "X-Container-Host": f"{container['ip']}:{container['port']}",
                "X-Container-Device": container["device"],
            }
        path = f"/{node['device']}/{partition}/{'/'.join(names)}"
        connection.request(method, path, body, headers)
        assert connection.getresponse().status in (201, 202, 204, 404)
        connection.close()


def queue(running: RunningCluster, time: Timestamp) -> list[Entry]:
    """Return the entries of an hour, once all replicas of the queue list the same."""
    container = queue_container(time)
    partition, nodes = rings_of(running).container.get_nodes(QUEUE_ACCOUNT, container)
    listings: list[list[Entry]] = []

    def agree() -> bool:
        listings[:] = [entries_of(running, node, partition, container) for node in nodes]
        return all(listing == listings[0] for listing in listings)

    await_true(agree, "equal replicas of the queue")
    return listings[0]


def entries_of(running: RunningCluster, node: Node, partition: int, container: str) -> list[Entry]:
    """Return the entries that one replica of a queue container lists."""
    connection = StorageConnection(running.home, node["ip"], node["port"])
    path = f"/{node['device']}/{partition}/{QUEUE_ACCOUNT}/{container}?format=json"
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return [parse_entry(row) for row in json.loads(body)] if answer.status == 200 else []


def reconcile(running: RunningCluster, conf: Path | None = None) -> str:
    """Run one pass of the daemon and return its log."""
    conf = conf or running.home / "etc" / "container-reconciler.conf"
    command = [sys.executable, "-m", "container.reconciler_daemon", str(conf), "once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def records(running: RunningCluster, names: tuple[str, str, str]) -> dict[str, dict[str, int]]:
    """Count the devices by kind of their record of an object, for the folder of each policy."""
    found: dict[str, Counter[str]] = {}
    for segment in sorted((running.home / "devices").rglob("*.bundle")):
        try:
            question = Question(segment, True, None, None, "/" + "/".join(names))
            report: Any = object_info(question)[0]
        except ClusterError:
            continue  # it does not hold it
        folder = segment.relative_to(running.home / "devices").parts[1]
        found.setdefault(folder, Counter())[report["kind"].split()[0]] += 1
    return {folder: dict(kinds) for folder, kinds in found.items()}


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


def names_of(user: Account, container: str, obj: str) -> tuple[str, str, str]:
    return user.path.removeprefix("/v1/"), container, obj


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


def call_version(user: Account, method: str, container: str, version_id: str) -> Answer:
    return user.send(method, f"{user.url(container, 'o')}?version-id={version_id}")


def versions_of(user: Account, container: str) -> list[tuple[str, bool]]:
    """Return the ids of the versions that a container lists, and which is the latest."""
    rows = user.call("GET", container, versions="", format="json").json
    return [(row["version_id"], row["is_latest"]) for row in rows]


def write_versions(
    running: RunningCluster, names: tuple[str, str, str], policy: int, has_rows: bool = True
) -> list[Timestamp]:
    """Write on the other side: a null version, then three versions. The second one is removed."""
    now = Timestamp.now()
    times = [Timestamp.from_ticks(now.ticks - 100_000 * back) for back in (5, 4, 3, 2, 1)]
    write_misplaced(running, "PUT", names, policy, times[0], b"null", has_rows=has_rows)
    for time, body in zip(times[1:4], (b"one", b"two", b"three"), strict=True):
        version = {"X-Backend-Version-Id": time.internal}
        write_misplaced(running, "PUT", names, policy, time, body, version, has_rows=has_rows)
    version = {"X-Backend-Version-Id": times[2].internal}
    write_misplaced(running, "DELETE", names, policy, times[4], b"", version, has_rows=has_rows)
    return times


def test_an_object_with_versions_comes_home(split: RunningCluster, user: Account) -> None:
    """All versions of both sides are there afterwards, in the order in which they were written."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "both", headers=headers).status == 201
    names = names_of(user, "both", "o")
    times = write_versions(split, names, SILVER)
    here = user.call("PUT", "both", "o", body=b"here")
    assert here.status == 201
    await_rows(split, names, SILVER, 4)
    await_true(lambda: len(queue(split, times[3])) == 1, "queued")
    assert len(versions_of(user, "both")) == 1  # the others are in the wrong policy

    assert "versions=1" in reconcile(split)
    await_true(lambda: not queue(split, times[3]), "off the queue")
    ids = [here.headers["x-object-version-id"], *(times[n].normal for n in (3, 1, 0))]
    listed = [(version, number == 0) for number, version in enumerate(ids)]
    await_true(lambda: versions_of(user, "both") == listed, "all versions are listed")
    for version, body in zip(ids, (b"here", b"three", b"one", b"null"), strict=True):
        answer = call_version(user, "GET", "both", version)
        assert (answer.status, answer.body) == (200, body)
    assert user.call("GET", "both", "o").body == b"here"
    await_true(lambda: used(user, "both") == (1, 16), "the counts are those of all versions")
    assert call_version(user, "GET", "both", times[2].normal).status == 404

    # Nothing of it is left over, and nothing comes back.
    reconcile(split)
    for version in ids:
        assert call_version(user, "DELETE", "both", version).status == 204
    assert user.call("DELETE", "both").status == 204


def test_rows_that_come_late_follow_their_versions(split: RunningCluster, user: Account) -> None:
    """Container servers hear of the newest version at once, and of the others after the move."""
    headers = {"X-Storage-Policy": "silver", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "late", headers=headers).status == 201
    names = names_of(user, "late", "o")
    times = write_versions(split, names, GOLD, has_rows=False)
    newest = Timestamp.from_ticks(times[4].ticks + 1)
    version = {"X-Backend-Version-Id": newest.internal}
    write_misplaced(split, "PUT", names, GOLD, newest, b"newest", version)
    await_rows(split, names, GOLD, 1)
    await_true(lambda: len(queue(split, newest)) == 1, "queued")
    assert "versions=1" in reconcile(split)
    await_true(lambda: versions_of(user, "late") == [(newest.normal, True)], "moved")
    for version_id, body in zip((times[3], times[1]), (b"three", b"one"), strict=True):
        answer = call_version(user, "GET", "late", version_id.normal)
        assert answer.body == body  # also that of which no row has come

    rows = [late_row(times[0], "null")] + [late_row(t, t.normal) for t in (times[1], times[3])]
    rows.append(late_row(times[4], times[2].normal, deleted=1, etag="noetag", size=0))
    send_rows(split, names, rows)
    await_true(lambda: len(queue(split, newest)) == 1, "queued again")
    assert "versions=1" in reconcile(split)
    ids = [newest, *(times[n] for n in (3, 1, 0))]
    listed = [(version.normal, number == 0) for number, version in enumerate(ids)]
    await_true(lambda: versions_of(user, "late") == listed, "all versions are listed")
    await_rows(split, names, GOLD, 0)


def test_replicas_that_differ_are_joined(split: RunningCluster, user: Account) -> None:
    """One replica alone has a large version; then the version before it was made current again."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "differ", headers=headers).status == 201
    names, now = names_of(user, "differ", "o"), Timestamp.now()
    small, large, restored = (Timestamp.from_ticks(now.ticks - 1000 * n) for n in (3, 2, 1))
    body = b"0123456789abcdef" * (1 << 17)
    version = {"X-Backend-Version-Id": small.internal}
    write_misplaced(split, "PUT", names, SILVER, small, b"small", version)
    version = {"X-Backend-Version-Id": large.internal}
    write_misplaced(split, "PUT", names, SILVER, large, body, version, replicas=1)
    version = {"X-Backend-Version-Restore": small.internal}
    write_misplaced(split, "PUT", names, SILVER, restored, b"", version)
    await_true(lambda: len(queue(split, now)) == 1, "queued")
    assert "versions=1" in reconcile(split)
    listed = [(large.normal, False), (small.normal, True)]
    await_true(lambda: versions_of(user, "differ") == listed, "listed")
    assert user.call("GET", "differ", "o").body == b"small"
    assert call_version(user, "GET", "differ", large.normal).body == body
    assert records(split, names)["bundles"] == {"PUT": 3}
    assert not left_in(split, names, SILVER)


def test_versions_of_a_sharded_container_come_home(split: RunningCluster, user: Account) -> None:
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "shards", headers=headers).status == 201
    for number in range(30):
        assert user.call("PUT", "shards", f"{number:02d}", body=b"x").status == 201
    names = names_of(user, "shards", "o")
    before = write_versions(split, (*names[:2], "15"), SILVER)  # its rows move with the others
    await_rows(split, (*names[:2], "15"), SILVER, 4)
    small = {"shard_container_threshold": 25, "rows_per_shard": 10, "minimum_shard_size": 2}
    set_options(split, **small)
    await_true(lambda: run_pass(split) and is_settled(split, names[:2]), "sharded")
    times = write_versions(split, names, SILVER)
    await_true(lambda: len(queue(split, times[3])) == 2, "queued")

    ids = {
        "o": [times[n].normal for n in (3, 1, 0)],
        "15": [before[n].normal for n in (3, 1, 0)],
    }

    def are_listed() -> bool:
        listed = user.call("GET", "shards", versions="", format="json").json
        found = {name: [r["version_id"] for r in listed if r["name"] == name] for name in ids}
        return all(found[name][-3:] == ids[name] for name in ids)

    await_true(lambda: "failed" not in reconcile(split) and are_listed(), "all are moved")
    assert user.call("GET", "shards", "o").body == b"three"
    await_true(lambda: used(user, "shards") == (31, 30 + 2 * 12), "the counts are right")


def test_versions_come_back(split: RunningCluster, user: Account) -> None:
    """The policy of a container changes to and fro. So do its versions, as often as it does.

    A client's removal lasts in each policy.
    """
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "again", headers=headers).status == 201
    names = names_of(user, "again", "o")
    times = write_versions(split, names, SILVER)  # the second one is removed
    await_rows(split, names, SILVER, 4)
    body = b"0123456789abcdef" * (1 << 17)
    large = Timestamp.from_ticks(times[4].ticks + 1)
    write_misplaced(
        split, "PUT", names, SILVER, large, body, {"X-Backend-Version-Id": large.internal}
    )
    bodies = {times[1]: b"one", times[3]: b"three", large: body}
    for number, policy in enumerate((GOLD, SILVER, GOLD, SILVER)):
        other = SILVER if policy == GOLD else GOLD
        set_policy(split, names, policy)
        time = Timestamp.from_ticks(large.ticks + 1 + number)
        bodies[time] = b"%d" % number
        write_misplaced(
            *(split, "PUT", names, other, time, bodies[time]),
            {"X-Backend-Version-Id": time.internal},
        )
        await_rows(split, names, other, 6 + number)
        await_true(lambda: queue(split, times[3]), "queued")
        await_true(lambda: "versions=1" in reconcile(split), "moved")
        await_true(lambda: not queue(split, times[3]), "off the queue")
        await_rows(split, names, other, 0)
        await_rows(split, names, policy, 6 + number)
        assert not left_in(split, names, other)
        there = left_in(split, names, policy)
        assert [(of, time.ticks) for of, time in there] == sorted(
            [("", times[0].ticks), *((time.internal, time.ticks) for time in bodies)]
        )
        for time, content in bodies.items():
            assert body_of(split, names, policy, time.internal) == content
        assert body_of(split, names, policy, "null") is None  # it is not current
        assert body_of(split, names, policy, there[0][1].internal) == b"null"
        assert body_of(split, names, policy, times[2].internal) is None


def test_a_client_removes_a_version_between_copy_and_removal(
    split: RunningCluster, user: Account
) -> None:
    """Its removal is not taken for that of a move, which would end all moves of the name."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "between", headers=headers).status == 201
    names = names_of(user, "between", "o")
    times = write_versions(split, names, SILVER)
    await_rows(split, names, SILVER, 4)
    in_silver = Entry("", SILVER, *names, False, times[3], times[3])
    mover_of(split).copy(in_silver, GOLD)  # and the reconciler was killed
    rows = [row | {"storage_policy_index": GOLD} for row in rows_of(split, names, SILVER)[0]]
    send_rows(split, names, rows)
    assert call_version(user, "DELETE", "between", times[0].normal).status == 204
    later = Timestamp.now()
    version = {"X-Backend-Version-Id": later.internal}
    write_misplaced(split, "PUT", names, SILVER, later, b"later", version)
    await_rows(split, names, SILVER, 1)
    wanted = [(later.normal, True), (times[3].normal, False), (times[1].normal, False)]

    def are_moved() -> bool:
        assert "blocked" not in reconcile(split)
        return versions_of(user, "between") == wanted

    await_true(are_moved, "all but the removed one are listed")
    assert user.call("GET", "between", "o").body == b"later"
    assert not left_in(split, names, SILVER)


def test_a_post_between_copy_and_removal_is_moved(split: RunningCluster, user: Account) -> None:
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "posted", headers=headers).status == 201
    names = names_of(user, "posted", "o")
    times = write_versions(split, names, SILVER)
    await_rows(split, names, SILVER, 4)
    mover, entry = mover_of(split), Entry("", SILVER, *names, False, times[3], times[3])
    copied = mover.copy(entry, GOLD)
    metadata = {"X-Object-Meta-Color": "blue"}
    write_misplaced(split, "POST", names, SILVER, Timestamp.now(), b"", metadata)  # of the current
    assert mover.remove(entry, copied.held) == Left(0, 1)
    assert left_in(split, names, SILVER) == [(times[3].internal, times[3])]

    def is_moved() -> bool:
        reconcile(split)
        return not any(rows_of(split, names, SILVER)) and not queue(split, times[3])

    await_true(is_moved, "moved, with the row of the POST, which may come late")
    answer = call_version(user, "GET", "posted", times[3].normal)
    assert (answer.body, answer.headers["x-object-meta-color"]) == (b"three", "blue")
    assert not left_in(split, names, SILVER)


def left_in(
    running: RunningCluster, names: tuple[str, str, str], policy: int
) -> list[tuple[str, Timestamp]]:
    """Return the ids and times of the versions of a name that a policy has."""
    now = Timestamp.now()
    holding = mover_of(running).holding(Entry("", policy, *names, False, now, now), policy)
    return sorted({(h.version, h.timestamp) for h in holding.heads() if h.is_version})


def set_policy(running: RunningCluster, names: tuple[str, str, str], policy: int) -> None:
    """Give all replicas of a container another policy, as the end of a conflict does it."""
    partition, nodes = rings_of(running).container.get_nodes(*names[:2])
    folders = [
        running.home / "devices" / node["device"] / "containers" / str(partition) for node in nodes
    ]
    for path in (path for folder in folders for path in folder.rglob("*.db")):
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            named = "SELECT account, container FROM container_info"
            if connection.execute(named).fetchone() != names[:2]:
                continue
            connection.execute(
                "UPDATE container_info SET storage_policy_index = ?, reconciler_sync_point = -1",
                (policy,),
            )
            connection.execute("DROP TABLE IF EXISTS version_queued")


def body_of(
    running: RunningCluster, names: tuple[str, str, str], policy: int, version_id: str
) -> bytes | None:
    """Return the bytes of a version in a policy, if two of its devices have the same; else None."""
    partition, nodes = rings_of(running).object_ring(policy).get_nodes(*names)
    found = Counter[bytes]()
    for node in nodes:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        headers = {
            "X-Backend-Storage-Policy-Index": str(policy),
            "X-Backend-Version-Id": version_id,
        }
        connection.request("GET", f"/{node['device']}/{partition}/{'/'.join(names)}", b"", headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 200:
            found[body] += 1
        connection.close()
    return next((body for body, count in found.items() if count > 1), None)


def mover_of(running: RunningCluster) -> VersionMover:
    secrets = ClusterConf.load(running.home / "etc").grid.secrets
    return VersionMover(rings_of(running), GridClient(secrets), 30)


def test_a_locked_version_stays_in_both_policies(split: RunningCluster, user: Account) -> None:
    """Nothing removes it before its lock ends. This test and the next run last: entries stay."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "locked", headers=headers).status == 201
    names, time = names_of(user, "locked", "o"), Timestamp.now()
    version = {
        "X-Backend-Version-Id": time.internal,
        "X-Backend-Lock-Mode": "COMPLIANCE",
        "X-Backend-Lock-Until": Timestamp(float(time) + 3600).internal,
    }
    write_misplaced(split, "PUT", names, SILVER, time, b"kept", version)
    await_true(lambda: len(queue(split, time)) == 1, "queued")
    for _ in range(2):
        assert "locked=1" in reconcile(split)
        await_true(lambda: versions_of(user, "locked") == [(time.normal, True)], "listed")
        assert user.call("GET", "locked", "o").body == b"kept"
        assert len(queue(split, time)) == 1
    assert call_version(user, "DELETE", "locked", time.normal).status == 403
    assert records(split, names) == {"bundles": {"PUT": 3}, "bundles-1": {"PUT": 3}}


def test_what_a_locked_null_version_keeps_away_is_not_removed(
    split: RunningCluster, user: Account
) -> None:
    """Gold takes no later null version. It stays in silver, as does its entry in the queue."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "refused", headers=headers).status == 201
    names, now = names_of(user, "refused", "o"), Timestamp.now()
    times = [Timestamp.from_ticks(now.ticks - 100_000 * back) for back in (3, 2, 1)]
    until = Timestamp(float(now) + 3600).internal
    lock = {"X-Backend-Lock-Mode": "COMPLIANCE", "X-Backend-Lock-Until": until}
    write_misplaced(split, "PUT", names, GOLD, times[0], b"locked", lock)
    version = {"X-Backend-Version-Id": times[1].internal}
    write_misplaced(split, "PUT", names, SILVER, times[1], b"version", version)
    write_misplaced(split, "PUT", names, SILVER, times[2], b"null")
    await_rows(split, names, SILVER, 2)

    def is_moved() -> bool:
        assert "versions=" not in reconcile(split)
        return len(versions_of(user, "refused")) == 1

    await_true(is_moved, "the version is moved")
    assert call_version(user, "GET", "refused", times[1].normal).body == b"version"
    assert call_version(user, "GET", "refused", times[0].normal).body == b"locked"
    assert left_in(split, names, SILVER) == [("", times[2])]


def late_row(time: Timestamp, version_id: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"name": "o", "created_at": time.internal, "version_id": version_id}
    row |= {"size": 4, "content_type": "text/x-lost", "etag": "late"}
    return row | {"storage_policy_index": GOLD} | values


def rows_of(
    running: RunningCluster, names: tuple[str, str, str], policy: int
) -> list[list[dict[str, Any]]]:
    """Return the rows of an object's versions in a policy, of each replica of the container."""
    headers = {"X-Backend-Record-Type": "version", "X-Backend-Storage-Policy-Index": str(policy)}
    found = call_containers(running, names, "GET", f"?name={names[2]}", headers)
    return [json.loads(body) or [] for _, body in found]


def await_rows(
    running: RunningCluster, names: tuple[str, str, str], policy: int, count: int
) -> None:
    def are_there() -> bool:
        return all(len(rows) == count for rows in rows_of(running, names, policy))

    await_true(are_there, f"{count} rows on all replicas")


def send_rows(
    running: RunningCluster, names: tuple[str, str, str], rows: list[dict[str, Any]]
) -> None:
    """Send rows to all replicas of a container, as object servers do."""
    headers = {"X-Timestamp": Timestamp.now().internal}
    body = json.dumps(rows).encode()
    found = call_containers(running, names, "UPDATE", "", headers, body)
    assert {status for status, _ in found} == {202}


def call_containers(
    running: RunningCluster,
    names: tuple[str, str, str],
    method: str,
    query: str,
    headers: dict[str, str],
    body: bytes = b"",
) -> list[tuple[int, bytes]]:
    """Send a request to all replicas of a container; return each status and body."""
    partition, nodes = rings_of(running).container.get_nodes(*names[:2])
    found = []
    for node in nodes:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        path = f"/{node['device']}/{partition}/{names[0]}/{names[1]}{query}"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found.append((answer.status, answer.read()))
        connection.close()
    return found
