"""Objects with versions in a wrong storage policy are moved to their container's policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from misplaced_versions import (
    await_rows,
    body_of,
    late_row,
    left_in,
    mover_of,
    rows_of,
    send_rows,
    set_policy,
)
from running_cluster import RunningCluster, await_true
from sharding_clusters import is_settled, run_pass, set_options
from swift_api import Account, Answer
from two_policies import (
    GOLD,
    SILVER,
    names_of,
    queue,
    reconcile,
    records,
    two_policies,
    write_misplaced,
)
from usage import used

from container.misplaced import Entry
from container.version_mover import Left
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
        # A pass leaves the entry to the next one if a server was slow to answer.
        await_true(lambda: not (queue(split, times[3]) and reconcile(split)), "off the queue")
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


def test_two_reconcilers_leave_a_copy_of_each_version(split: RunningCluster, user: Account) -> None:
    """Each believes that the other policy is the wrong one. Both have copied before they remove.

    The null version keeps its id, whatever offset its time gets. A client's removal of it lasts.
    """
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "two", headers=headers).status == 201
    names = names_of(user, "two", "o")
    times = write_versions(split, names, SILVER)
    await_rows(split, names, SILVER, 4)
    await_true(lambda: len(queue(split, times[3])) == 1, "queued")
    mover = mover_of(split)
    in_silver = Entry("", SILVER, *names, False, times[3], times[3])
    in_gold = Entry("", GOLD, *names, False, times[3], times[3])
    mover.copy(in_silver, GOLD)  # and this reconciler was killed
    to_gold, to_silver = mover.copy(in_silver, GOLD), mover.copy(in_gold, SILVER)
    assert mover.remove(in_silver, to_gold.held) == mover.remove(in_gold, to_silver.held)
    left = left_in(split, names, GOLD) + left_in(split, names, SILVER)
    assert {time.ticks for _, time in left} == {times[n].ticks for n in (0, 1, 3)}

    listed = [(times[n].normal, n == 3) for n in (3, 1, 0)]
    await_true(lambda: reconcile(split) and versions_of(user, "two") == listed, "all are moved")
    for number, body in ((3, b"three"), (1, b"one"), (0, b"null")):
        assert call_version(user, "GET", "two", times[number].normal).body == body
    suspended = {"X-Versions-Enabled": "false"}
    assert user.call("POST", "two", headers=suspended).status == 204
    assert user.call("PUT", "two", "o", body=b"new").status == 201
    listed = [("null", True), *((version, False) for version, _ in listed)]
    await_true(lambda: versions_of(user, "two") == listed, "the old one is kept under its id")
    assert call_version(user, "GET", "two", times[0].normal).body == b"null"
    assert call_version(user, "DELETE", "two", times[0].normal).status == 204
    reconcile(split)
    await_true(lambda: versions_of(user, "two") == listed[:-1], "removed")
    assert not left_in(split, names, SILVER)
    assert call_version(user, "GET", "two", times[0].normal).status == 404


def test_a_null_version_that_was_moved_is_removed_by_its_id(
    split: RunningCluster, user: Account
) -> None:
    """A reconciler that has read the policies before cannot bring it back."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", "stale", headers=headers).status == 201
    names = names_of(user, "stale", "o")
    times = write_versions(split, names, SILVER)
    await_rows(split, names, SILVER, 4)
    await_true(lambda: len(queue(split, times[3])) == 1, "queued")
    entry = Entry("", SILVER, *names, False, times[3], times[3])
    for _ in range(2):  # it gets a greater offset
        mover_of(split).copy(entry, GOLD)
    listed = [(times[n].normal, n == 3) for n in (3, 1, 0)]

    def are_moved() -> bool:
        reconcile(split)
        return versions_of(user, "stale") == listed and not left_in(split, names, SILVER)

    await_true(are_moved, "moved")
    assert call_version(user, "DELETE", "stale", times[0].normal).status == 204
    await_true(lambda: versions_of(user, "stale") == listed[:-1], "removed")
    write_misplaced(split, "PUT", names, SILVER, Timestamp(times[0], 8), b"null")  # of a replica
    mover_of(split).remove(entry, mover_of(split).copy(entry, GOLD).held)
    assert call_version(user, "GET", "stale", times[0].normal).status == 404
    assert not left_in(split, names, SILVER)


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_null_version_that_has_no_row_any_more_is_removed(
    split: RunningCluster, user: Account, is_removed: bool
) -> None:
    """It was replaced in the right policy, and that one removed, before its row came."""
    container = f"replaced-{is_removed}"
    assert user.call("PUT", container, headers={"X-Storage-Policy": "gold"}).status == 201
    names, time = names_of(user, container, "o"), Timestamp.now()
    write_misplaced(split, "PUT", names, SILVER, time, b"lost", has_rows=False)
    assert user.call("PUT", container, "o", body=b"null").status == 201
    enabled = {"X-Versions-Enabled": "true"}
    assert user.call("POST", container, headers=enabled).status == 204
    assert user.call("PUT", container, "o", body=b"version").status == 201
    await_true(lambda: len(versions_of(user, container)) == 2, "listed")
    (newest, _), (null, _) = listed = versions_of(user, container)
    if is_removed:
        assert call_version(user, "DELETE", container, null).status == 204
    left = [(newest, True)] if is_removed else listed
    await_true(lambda: versions_of(user, container) == left, "as it stays")
    send_rows(split, names, [late_row(time, "null", storage_policy_index=SILVER)])
    await_true(lambda: reconcile(split) and not left_in(split, names, SILVER), "not kept")
    assert versions_of(user, container) == left
    assert call_version(user, "GET", container, newest).body == b"version"


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


def write_both_policies(
    split: RunningCluster, user: Account, container: str, method: str, has_rows: bool = False
) -> tuple[tuple[str, str, str], Timestamp]:
    """Write a version in its policy, and then the name in the other one."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", container, headers=headers).status == 201
    names = names_of(user, container, "o")
    now = Timestamp.now()
    one = Timestamp.from_ticks(now.ticks - 100_000)
    version = {"X-Backend-Version-Id": one.internal}
    write_misplaced(split, "PUT", names, GOLD, one, b"one", version, has_rows=has_rows)
    write_misplaced(split, method, names, SILVER, now, b"two" if method == "PUT" else b"")
    await_true(lambda: container in queued(split, now), "queued")
    return names, one


def queued(split: RunningCluster, time: Timestamp) -> list[str]:
    return [entry.container for entry in queue(split, time)]


@pytest.mark.parametrize("is_known", [False, True])
def test_a_misplaced_removal_hides_an_older_version(
    split: RunningCluster, user: Account, is_known: bool
) -> None:
    """The container knows the version, or not."""
    container = f"removed-{is_known}"
    write_both_policies(split, user, container, "DELETE", has_rows=is_known)
    reconcile(split)
    assert user.call("GET", container, "o").status == 404
    listed = user.call("GET", container, format="json").json
    assert listed == []


@pytest.mark.parametrize("is_late", [False, True])
def test_a_misplaced_object_is_listed_after_its_move(
    split: RunningCluster, user: Account, is_late: bool
) -> None:
    container = f"listed-{is_late}"
    names, one = write_both_policies(split, user, container, "PUT")
    reconcile(split)
    if is_late:
        send_rows(split, names, [late_row(one, one.normal)])

    def is_listed() -> bool:
        reconcile(split)
        found = user.call("GET", container, format="json").json
        return [row["name"] for row in found] == ["o"]

    assert user.call("GET", container, "o").body == b"two"
    await_true(is_listed, "listed")
