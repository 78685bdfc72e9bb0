"""A replica that misses an account or container makes it from the others, or says that it cannot
know; never does a deletion come undone.
"""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from replicas import PARTITION, Replicas
from storage_calls import stamp

from account.app import AccountServer
from container.app import ContainerServer
from storage.restorer import RESTORES_AT_ONCE

A = f"/d1/{PARTITION}/AUTH_test"
C = f"{A}/c"
KNOWN = {"X-Backend-Restore": "true"}
REPORT = {
    "X-Put-Timestamp": stamp(5),
    "X-Delete-Timestamp": "0",
    "X-Object-Count": "1",
    "X-Bytes-Used": "2",
}
ROW = {"name": "o", "created_at": stamp(5), "size": 2, "content_type": "a/b", "etag": "e"}


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(AccountServer, tmp_path)
    yield made
    made.close()


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(ContainerServer, tmp_path)
    yield made
    made.close()


def listing(accounts: Replicas, port: int) -> list[str]:
    return [e["name"] for e in accounts.call[port]("GET", f"{A}?format=json").json()]


def database_of(replicas: Replicas, port: int) -> Path:
    (found,) = Path(replicas.servers[port].devices).rglob("*.db")
    return found


def test_a_report_makes_the_account_that_is_missing(accounts: Replicas) -> None:
    """Made while the first was down; then the disk of the second was replaced."""
    meta = {"X-Account-Meta-Quota-Bytes": "5", "X-Account-Sysmeta-Acl": "x"}
    assert accounts.everywhere([3, 4], "PUT", A, 1, meta) == [201, 201]
    assert accounts.everywhere([3, 4], "PUT", f"{A}/old", 2, REPORT) == [201, 201]
    assert accounts.everywhere([1, 2, 3], "PUT", f"{A}/new", 5, REPORT) == [201] * 3
    for port in (1, 2, 3):
        assert listing(accounts, port) == ["new", "old"]
        head = accounts.call[port]("HEAD", A)
        assert head.headers["X-PUT-Timestamp"] == stamp(1)
        assert head.headers["X-Account-Meta-Quota-Bytes"] == "5"
        assert head.headers["X-Account-Sysmeta-Acl"] == "x"
        assert accounts.scratch(port) == []


def test_the_new_replica_has_a_name_of_its_own(accounts: Replicas) -> None:
    accounts.everywhere([3], "PUT", A, 1)
    accounts.everywhere([3], "PUT", f"{A}/old", 2, REPORT)
    accounts.everywhere([1], "PUT", f"{A}/new", 5, REPORT)
    with sqlite3.connect(database_of(accounts, 3)) as old:
        (old_id,) = old.execute("SELECT id FROM account_stat").fetchone()
    path = database_of(accounts, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(path) as new:
        (new_id,) = new.execute("SELECT id FROM account_stat").fetchone()
        assert new_id != old_id
        assert new_id.endswith("-d1")
        assert new.execute("SELECT remote_id, sync_point FROM incoming_sync").fetchall() == [
            (old_id, 1)
        ]
        assert new.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_rows_make_the_container_that_is_missing(containers: Replicas) -> None:
    acl = {"X-Container-Read": ".r:*"}
    assert containers.everywhere([3, 4], "PUT", C, 1, acl) == [201, 201]
    old = {**ROW, "name": "old", "created_at": stamp(2)}
    assert containers.everywhere([3, 4], "UPDATE", C, 2, {}, [old]) == [202, 202]
    assert containers.everywhere([1, 2, 3], "UPDATE", C, 5, {}, [ROW]) == [202] * 3
    for port in (1, 2, 3):
        answer = containers.call[port]("GET", f"{C}?format=json")
        assert [entry["name"] for entry in answer.json()] == ["o", "old"]
        assert answer.headers["X-Container-Read"] == ".r:*"
        assert answer.headers["X-PUT-Timestamp"] == stamp(1)


@pytest.mark.parametrize("silent", [2, 3])
def test_nothing_is_said_while_a_primary_is_silent(
    containers: Replicas, silent: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be the one that knows of the deletion."""
    containers.everywhere([2, 3], "PUT", C, 1)
    containers.wires.cut = {silent}
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            answer = containers.call[1]("UPDATE", C, 5, {}, [ROW])
            assert (answer.status, answer.headers["X-Backend-Doubt"]) == (503, "unknown")
    assert f"no answer from 127.0.0.1:{silent}/d1" in caplog.text
    assert caplog.text.count("replica_not_made") == 1
    containers.wires.cut = set()
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202


def test_a_silent_handoff_is_not_waited_for(containers: Replicas) -> None:
    containers.everywhere([2, 3], "PUT", C, 1)
    containers.wires.cut = {4, 5}
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202


def test_what_no_replica_has_is_404(containers: Replicas) -> None:
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 404
    asked = len(containers.wires.seen)
    assert asked == 5
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 404
    assert len(containers.wires.seen) == asked  # it is believed for a while
    containers.everywhere([2], "PUT", C, 6)
    containers.now += 6
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202


@pytest.mark.parametrize("knows", [[2, 3], [2], [4]])
def test_a_deleted_account_does_not_come_back(accounts: Replicas, knows: list[int]) -> None:
    """The third missed the deletion; any other that has it settles the matter."""
    accounts.everywhere([2, 3, 4], "PUT", A, 1)
    assert accounts.everywhere(knows, "DELETE", A, 3) == [204] * len(knows)
    report = {**REPORT, "X-Put-Timestamp": stamp(2)}
    assert accounts.call[1]("PUT", f"{A}/c", 4, report).status == 404
    gone = accounts.call[1]("HEAD", A)
    assert gone.status == 404
    assert gone.headers["X-Account-Status"] == "Deleted"
    assert gone.headers["X-Backend-DELETE-Timestamp"] == stamp(3)


def test_a_deleted_container_does_not_come_back(containers: Replicas) -> None:
    containers.everywhere([2, 3], "PUT", C, 1)
    assert containers.everywhere([2], "DELETE", C, 3) == [204]
    assert containers.call[1]("POST", C, 4, KNOWN).status == 404
    assert containers.call[1]("HEAD", C).status == 404
    assert containers.call[1]("HEAD", C).headers["X-Backend-DELETE-Timestamp"] == stamp(3)


def test_what_was_made_again_after_its_deletion_lives(containers: Replicas) -> None:
    containers.everywhere([2, 3], "PUT", C, 1)
    containers.everywhere([2, 3], "DELETE", C, 3)
    containers.everywhere([3], "PUT", C, 4)
    assert containers.call[1]("POST", C, 5, KNOWN).status == 204


def test_a_primary_goes_before_a_handoff_which_gets_no_rows(containers: Replicas) -> None:
    """A PUT that only the hand-off had, since the primaries were too slow: the client got 503."""
    containers.everywhere([2, 3], "PUT", C, 1)
    containers.everywhere([2, 3], "UPDATE", C, 5, {}, [{**ROW, "name": "old"}])
    containers.everywhere([4], "PUT", C, 9)
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202
    entries = containers.call[1]("GET", f"{C}?format=json").json()
    assert [entry["name"] for entry in entries] == ["o", "old"]


def test_a_primary_that_missed_a_deletion_does_not_go_before_a_handoff(
    containers: Replicas,
) -> None:
    containers.everywhere([3], "PUT", C, 1)
    containers.everywhere([3], "UPDATE", C, 5, {}, [ROW])
    containers.everywhere([2, 4], "PUT", C, 1)
    containers.everywhere([2, 4], "DELETE", C, 8)
    containers.everywhere([4], "PUT", C, 9)
    assert containers.call[1]("POST", C, 10, KNOWN).status == 204
    assert containers.call[1]("GET", f"{C}?format=json").json() == []


@pytest.mark.parametrize(("method", "status"), [("POST", 204), ("DELETE", 204), ("PUT", 202)])
def test_changes_of_what_the_proxy_knows(
    accounts: Replicas, containers: Replicas, method: str, status: int, tmp_path: Path
) -> None:
    for replicas, path in ((accounts, A), (containers, C)):
        replicas.everywhere([2, 3], "PUT", path, 1)
        assert replicas.call[1](method, path, 5, KNOWN).status == status


@pytest.mark.parametrize(("method", "status"), [("POST", 404), ("DELETE", 404), ("PUT", 201)])
def test_changes_of_an_unknown_database_ask_no_peer(
    containers: Replicas, method: str, status: int
) -> None:
    containers.everywhere([2, 3], "PUT", C, 1)
    assert containers.call[1](method, C, 5).status == status
    assert containers.wires.seen == []


def test_a_deletion_under_way_counts_where_it_arrives_by_way_of_another(
    accounts: Replicas, containers: Replicas
) -> None:
    for replicas, path in ((accounts, A), (containers, C)):
        replicas.everywhere([2, 3], "PUT", path, 1)
        assert replicas.everywhere([2, 3, 1], "DELETE", path, 5, KNOWN) == [204] * 3
        assert replicas.everywhere([2, 3, 1], "DELETE", path, 6, KNOWN) == [404] * 3


def test_a_container_with_objects_is_not_deleted_on_the_word_of_an_empty_disk(
    containers: Replicas,
) -> None:
    containers.everywhere([3], "PUT", C, 1)
    containers.everywhere([3], "UPDATE", C, 5, {}, [ROW])
    assert containers.everywhere([1, 2, 3], "DELETE", C, 6, KNOWN) == [409] * 3


@pytest.mark.parametrize("copy", [b"", b"SQLite format 3\0" + b"x" * 9000, b"<html>no</html>"])
def test_a_bad_copy_is_refused(
    containers: Replicas, copy: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    containers.everywhere([3], "PUT", C, 1)
    containers.wires.spoilt = {3: copy}
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 503
    assert "no copy from 127.0.0.1:3/d1" in caplog.text
    assert containers.scratch(1) == []
    assert not list(Path(containers.servers[1].devices).rglob("*.db"))


def test_a_database_with_a_damaged_schema_is_set_aside_and_made_again(
    containers: Replicas,
) -> None:
    containers.everywhere([1, 3], "PUT", C, 1)
    path = database_of(containers, 1)
    containers.servers[1].pool.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    whole = path.read_bytes()
    assert whole.count(b"CREATE TABLE object (") == 1
    path.write_bytes(whole.replace(b"CREATE TABLE object (", b"CREATE TABLE object \x96"))
    assert containers.call[1]("GET", C).status == 500
    assert not path.exists()
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 202


def test_a_put_makes_no_empty_database_where_there_is_one_to_copy(
    accounts: Replicas, containers: Replicas
) -> None:
    """An empty one would stay: what is there is never asked for again. The others take the PUT."""
    for replicas, path in ((accounts, A), (containers, C)):
        replicas.everywhere([3], "PUT", path, 1)
        replicas.wires.spoilt = {3: b"no copy now"}
        answer = replicas.call[1]("PUT", path, 5, KNOWN)
        assert (answer.status, answer.headers["X-Backend-Doubt"]) == (503, "unknown")
        assert not list(Path(replicas.servers[1].devices).rglob("*.db"))
        replicas.wires.spoilt = {}
        assert replicas.call[1]("PUT", path, 5, KNOWN).status == 202


def test_a_put_makes_no_empty_database_while_others_are_made(containers: Replicas) -> None:
    containers.everywhere([3], "PUT", C, 1)
    under_way = containers.servers[1].restorer._under_way
    under_way |= {f"/devices/d{number}/a/b/c/d/e/f.db" for number in range(RESTORES_AT_ONCE)}
    assert containers.call[1]("PUT", C, 5, KNOWN).status == 503
    under_way.clear()
    assert containers.call[1]("PUT", C, 5, KNOWN).status == 202


def test_a_put_does_not_wait_for_a_silent_primary(containers: Replicas) -> None:
    containers.everywhere([3], "PUT", C, 1)
    containers.wires.cut = {2}
    assert containers.call[1]("PUT", C, 5, KNOWN).status == 201


def test_a_copy_with_a_damaged_schema_is_refused(
    containers: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    """An error message of SQLite that is not UTF-8."""
    containers.everywhere([3], "PUT", C, 1)
    whole = containers.call[3]("SNAPSHOT", C).body
    assert whole.count(b"CREATE TABLE object (") == 1
    spoilt = whole.replace(b"CREATE TABLE object (", b"CREATE TABLE object \x96")
    containers.wires.spoilt = {3: spoilt}
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 503
    assert "no copy from 127.0.0.1:3/d1" in caplog.text
    assert containers.scratch(1) == []


def test_a_copy_of_another_container_is_refused(containers: Replicas) -> None:
    containers.everywhere([3], "PUT", C, 1)
    other = f"{A}/other"
    containers.everywhere([3], "PUT", other, 1)
    containers.wires.spoilt = {3: containers.call[3]("SNAPSHOT", other).body}
    assert containers.call[1]("UPDATE", C, 5, {}, [ROW]).status == 503


def test_a_snapshot_leaves_nothing_behind(containers: Replicas) -> None:
    assert containers.call[3]("SNAPSHOT", C).status == 404
    containers.everywhere([3], "PUT", C, 1)
    answer = containers.call[3]("SNAPSHOT", C)
    assert answer.status == 200
    assert answer.body.startswith(b"SQLite format 3\0")
    assert containers.scratch(3) == []
