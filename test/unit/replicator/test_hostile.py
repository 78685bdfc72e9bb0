"""REPLICATE with any body: a clear refusal, no error of the server, and nothing changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replicating import HASH_PATH, PARTITION, Replicas
from storage_calls import stamp

C = f"/d1/{PARTITION}/AUTH_test/c"
PATH = f"/d1/{PARTITION}/{HASH_PATH.hexdigest('AUTH_test', 'c')}"
SYNC = [5, "0" * 32, "id-1", stamp(1), stamp(1), "0", "", stamp(1), 0, 0]
ROW = {"name": "o", "created_at": stamp(2), "size": 2, "content_type": "a", "etag": "e", "ROWID": 1}
ACCOUNT_ROW = {
    "name": "c",
    "put_timestamp": stamp(1),
    "delete_timestamp": "0",
    "object_count": 1,
    "bytes_used": 2,
    "storage_policy_index": 0,
    "reported_at": stamp(3),
    "ROWID": 1,
}

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just(stamp(1))
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.fixture
def made(containers: Replicas) -> Replicas:
    assert containers.call[1]("PUT", C, 1).status == 201
    return containers


def replicate(replicas: Replicas, body: Any) -> int:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return replicas.call[1]("REPLICATE", PATH, None, {}, data).status


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operation=st.sampled_from(["sync", "merge_items", "merge_syncs", "get_shard_ranges", "x"]),
    arguments=st.lists(values, max_size=12),
)
def test_any_arguments(made: Replicas, operation: str, arguments: list[Any]) -> None:
    assert replicate(made, [operation, *arguments]) in (200, 202, 400)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 9), value=values)
def test_one_bad_argument_of_sync(made: Replicas, place: int, value: Any) -> None:
    arguments = [*SYNC]
    arguments[place] = value
    assert replicate(made, ["sync", *arguments]) in (200, 400)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(extra=st.one_of(values, st.fixed_dictionaries({"max_rows": values, "totals": values})))
def test_any_argument_that_only_martlet_sends(made: Replicas, extra: Any) -> None:
    assert replicate(made, ["sync", *SYNC, extra]) in (200, 400)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from([*ROW, "version_id", "deleted"]), value=values)
def test_one_bad_value_of_a_row(made: Replicas, name: str, value: Any) -> None:
    assert replicate(made, ["merge_items", [{**ROW, name: value}], "id-1"]) in (202, 400)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(ACCOUNT_ROW)), value=values)
def test_one_bad_value_of_an_accounts_row(accounts: Replicas, name: str, value: Any) -> None:
    accounts.call[1]("PUT", f"/d1/{PARTITION}/AUTH_test", 1)
    path = f"/d1/{PARTITION}/{HASH_PATH.hexdigest('AUTH_test')}"
    body = json.dumps(["merge_items", [{**ACCOUNT_ROW, name: value}], "id-1"]).encode()
    assert accounts.call[1]("REPLICATE", path, None, {}, body).status in (202, 400)


@pytest.mark.parametrize(
    "body", [b"", b"x", b"{}", b"[]", b"[[]]", b"[1]", b'["sync"', b'["__class__"]', b"\xff"]
)
def test_bodies_that_are_no_operation(made: Replicas, body: bytes) -> None:
    assert replicate(made, body) == 400


@pytest.mark.parametrize(
    "path", ["/d1/3/x", "/d1/3/" + "A" * 32, "/d1/x/" + "a" * 32, "/d1/3/../x"]
)
def test_paths_that_are_no_database(made: Replicas, path: str) -> None:
    assert made.call[1]("REPLICATE", path, None, {}, b'["sync"]').status == 400


def test_copies_that_are_no_database_of_this_name(made: Replicas) -> None:
    headers = {"Content-Type": "application/vnd.sqlite3"}
    database = made.database(1)
    assert database is not None
    good = made.call[1]("REPLICATE", PATH, None, {}, b'["get_copy"]').body
    assert good.startswith(b"SQLite format 3")
    send = made.call[2]
    assert send("REPLICATE", PATH, None, headers, b"no database").status == 400
    assert send("REPLICATE", PATH, None, headers, good[:5000]).status == 400
    other = f"/d1/{PARTITION}/{'a' * 32}"
    assert send("REPLICATE", other, None, headers, good).status == 400
    assert made.database(2) is None
    assert made.scratch(2) == []
    assert send("REPLICATE", PATH, None, headers, good).status == 201
    assert send("REPLICATE", PATH, None, headers, good).status == 409


@pytest.mark.parametrize(
    "body", [["missing", [["x", "a" * 32]]], ["missing", [[1, "x"]]], ["missing", [1]], ["sync"]]
)
def test_questions_for_databases_that_are_none(made: Replicas, body: Any) -> None:
    data = json.dumps(body).encode()
    assert made.call[1]("REPLICATE", "/d1", None, {}, data).status == 400
