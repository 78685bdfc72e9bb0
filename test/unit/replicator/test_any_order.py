"""Any writes on any replicas, replicated in any order: all replicas end with the same rows.

The rows are those that one replica would have that got all writes, so no deletion is undone.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from replicating import PARTITION, Replicas
from storage_calls import stamp

from account.app import AccountServer
from container.app import ContainerServer
from martlet.words.timestamp import Timestamp

A = f"/d1/{PARTITION}/AUTH_test"
C = f"{A}/c"
PRIMARIES = (1, 2, 3)

some_replicas = st.lists(st.sampled_from(PRIMARIES), min_size=1, max_size=3, unique=True)
times = st.integers(2, 9)
passes = st.tuples(st.just("replicate"), st.sampled_from(PRIMARIES))


@contextmanager
def replicas(kind: type[AccountServer] | type[ContainerServer]) -> Iterator[Replicas]:
    with tempfile.TemporaryDirectory() as directory:
        made = Replicas(kind, Path(directory), per_diff=2)
        yield made
        made.close()


def object_row(name: str, second: int, kind: str) -> dict[str, Any]:
    """A row; rows of one name and time have the same values, since the hash is of these two."""
    time = second + {"deleted": 0.5, "type": 0.7, "removed": 0.3}.get(kind, 0.0)
    row = {
        "name": name,
        "created_at": stamp(time),
        "size": second,
        "content_type": "a/b",
        "etag": f"{name}{second}",
        "deleted": 0,
    }
    if kind == "deleted":
        row |= {"size": 0, "content_type": "application/deleted", "etag": "noetag", "deleted": 1}
    elif kind == "type":
        row |= {"created_at": stamp(2), "size": 2, "etag": f"{name}2", "content_type": f"t/{time}"}
        row |= {"ctype_timestamp": stamp(time), "meta_timestamp": stamp(time)}
    elif kind == "version":
        row["version_id"] = stamp(time)
    elif kind == "removed":
        row |= {"size": 0, "etag": "noetag", "deleted": 1, "version_id": stamp(max(2, second - 1))}
    return row


rows = st.builds(
    object_row,
    st.sampled_from("xyz"),
    times,
    st.sampled_from(["put", "put", "deleted", "type", "version", "removed"]),
)
container_steps = st.one_of(
    st.tuples(st.just("UPDATE"), some_replicas, st.lists(rows, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["PUT", "DELETE"]), some_replicas, times),
    st.tuples(st.just("POST"), some_replicas, times, st.sampled_from(["red", "blue", ""])),
    passes,
)


def do_container_step(replicas: Replicas, step: tuple[Any, ...]) -> None:
    if step[0] == "replicate":
        assert not replicas.replicate(step[1]).failures
    elif step[0] == "UPDATE":
        replicas.everywhere(step[1], "UPDATE", C, 9, {}, step[2])
        replicas.call[4]("UPDATE", C, 9, {}, step[2])
    elif step[0] == "POST":
        replicas.everywhere(step[1], "POST", C, step[2], {"X-Container-Meta-Color": step[3]})
    else:
        replicas.everywhere(step[1], step[0], C, step[2])


def table(replicas: Replicas, number: int, query: str) -> list[Any]:
    has = replicas.query(number, "SELECT name FROM sqlite_master WHERE name = 'version'")
    return replicas.query(number, query) if has or " version" not in query else []


OBJECTS = (
    "SELECT name, created_at, size, content_type, etag, deleted, storage_policy_index"
    " FROM object ORDER BY name"
)
VERSIONS = (
    "SELECT name, version_id, created_at, size, content_type, etag, deleted, since"
    " FROM version ORDER BY name, version_id"
)
NAMES = "SELECT name, current FROM version_name AS version ORDER BY name"
STAT = "SELECT hash, put_timestamp, delete_timestamp, metadata FROM container_info"


@settings(max_examples=60)
@given(st.lists(container_steps, max_size=14))
def test_containers(steps: list[tuple[Any, ...]]) -> None:
    with replicas(ContainerServer) as made:
        made.everywhere([1, 2, 3, 4], "PUT", C, 1)
        made.ring.primaries = (1, 2, 3)
        for step in steps:
            do_container_step(made, step)
        made.settle(*PRIMARIES)
        for query in (OBJECTS, VERSIONS, NAMES):
            found = [table(made, number, query) for number in PRIMARIES]
            assert found[0] == found[1] == found[2]
            assert found[0] == table(made, 4, query)  # it got every row
        stats = []
        for number in PRIMARIES:
            ((hashed, put, delete, metadata),) = made.query(number, STAT)
            stats.append((hashed, Timestamp(put), Timestamp(delete), json.loads(metadata)))
        assert stats[0] == stats[1] == stats[2]
        answers = [made.call[n]("GET", f"{C}?versions&format=json") for n in PRIMARIES]
        listings = [sorted(map(str, a.json())) if a.status == 200 else a.status for a in answers]
        assert listings[0] == listings[1] == listings[2]


account_steps = st.one_of(
    st.tuples(
        st.just("report"),
        some_replicas,
        st.sampled_from("xyz"),
        st.integers(0, 5),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
    st.tuples(st.just("POST"), some_replicas, times, st.sampled_from(["red", "blue", ""])),
    st.tuples(st.just("DELETE"), some_replicas, st.integers(20, 22)),
    passes,
)
CONTAINERS = (
    "SELECT name, put_timestamp, delete_timestamp, object_count, bytes_used, deleted"
    " FROM container ORDER BY name"
)
ACCOUNT = "SELECT hash, put_timestamp, delete_timestamp, status, metadata FROM account_stat"


@settings(max_examples=60)
@given(st.lists(account_steps, max_size=14))
def test_accounts(steps: list[tuple[Any, ...]]) -> None:
    clock = itertools.count(1_800_000_000, 100)
    last: dict[str, tuple[int, int]] = {}
    with (
        replicas(AccountServer) as made,
        patch.object(Timestamp, "now", lambda: Timestamp(next(clock))),
    ):
        made.everywhere([1, 2, 3], "PUT", A, 1)
        for step in steps:
            if step[0] == "replicate":
                assert not made.replicate(step[1]).failures
            elif step[0] == "report":
                _, numbers, name, put, delete, count = step
                report = {
                    "X-Put-Timestamp": stamp(put),
                    "X-Delete-Timestamp": stamp(delete),
                    "X-Object-Count": str(count),
                    "X-Bytes-Used": str(7 * count),
                    "X-Account-Override-Deleted": "yes",
                }
                made.everywhere(numbers, "PUT", f"{A}/{name}", 1, report)
                last[name] = count, 7 * count
            elif step[0] == "POST":
                made.everywhere(step[1], "POST", A, step[2], {"X-Account-Meta-Color": step[3]})
            else:
                made.everywhere(step[1], "DELETE", A, step[2])
        made.settle(*PRIMARIES)
        found = [made.query(number, CONTAINERS) for number in PRIMARIES]
        assert found[0] == found[1] == found[2]
        assert {row[0]: row[3:5] for row in found[0]} == last
        stats = []
        for number in PRIMARIES:
            ((hashed, put, delete, status, metadata),) = made.query(number, ACCOUNT)
            facts = hashed, Timestamp(put), Timestamp(delete), status, json.loads(metadata)
            stats.append(facts)
        assert stats[0] == stats[1] == stats[2]
