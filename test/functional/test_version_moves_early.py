"""A misplaced object, or its removal, is newer than a version whose row has not come yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from misplaced_versions import late_row, send_rows
from running_cluster import RunningCluster, await_true
from swift_api import Account
from two_policies import GOLD, SILVER, names_of, queue, reconcile, two_policies, write_misplaced

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


def write_both(
    split: RunningCluster, user: Account, container: str, method: str
) -> tuple[tuple[str, str, str], Timestamp]:
    """Write a version in its policy, without rows, and then the name in the other one."""
    headers = {"X-Storage-Policy": "gold", "X-Versions-Enabled": "true"}
    assert user.call("PUT", container, headers=headers).status == 201
    names = names_of(user, container, "o")
    now = Timestamp.now()
    one = Timestamp.from_ticks(now.ticks - 100_000)
    version = {"X-Backend-Version-Id": one.internal}
    write_misplaced(split, "PUT", names, GOLD, one, b"one", version, has_rows=False)
    write_misplaced(split, method, names, SILVER, now, b"two" if method == "PUT" else b"")
    await_true(lambda: container in queued(split, now), "queued")
    return names, one


def queued(split: RunningCluster, time: Timestamp) -> list[str]:
    return [entry.container for entry in queue(split, time)]


def test_a_misplaced_removal_hides_an_older_version(split: RunningCluster, user: Account) -> None:
    write_both(split, user, "removed", "DELETE")
    reconcile(split)
    assert user.call("GET", "removed", "o").status == 404


@pytest.mark.parametrize("is_late", [False, True])
def test_a_misplaced_object_is_listed_after_its_move(
    split: RunningCluster, user: Account, is_late: bool
) -> None:
    container = f"listed-{is_late}"
    names, one = write_both(split, user, container, "PUT")
    reconcile(split)
    if is_late:
        send_rows(split, names, [late_row(one, one.normal)])

    def is_listed() -> bool:
        reconcile(split)
        found = user.call("GET", container, format="json").json
        return [row["name"] for row in found] == ["o"]

    assert user.call("GET", container, "o").body == b"two"
    await_true(is_listed, "listed", 20)
