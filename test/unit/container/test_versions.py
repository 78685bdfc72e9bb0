"""Rows of names with versions: what is current, counts, listings, in whatever order rows come."""

import hashlib
import itertools
import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_databases import container_in_memory
from storage_calls import Caller, stamp

from container.database import ContainerDatabase
from container.merge import merge_rows
from container.record import Record, parse_record
from container.replica_rows import find_tombstones
from container.version_rows import LAST_REMOVED, MARKER_TYPE, NEWEST_VERSION, NULL_MARKER_ETAG
from martlet.words.timestamp import Timestamp

C = "/d1/0/AUTH_test/c"


def item(name: str, time: float, version: str = "", size: int = 5, **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "created_at": stamp(time),
        "size": size,
        "content_type": f"text/{time:g}",
        "etag": f"etag{time:g}",
        "version_id": version or None,
    } | values


def version(name: str, time: float, **values: Any) -> dict[str, Any]:
    return item(name, time, stamp(time), **values)


def marker(name: str, time: float) -> dict[str, Any]:
    return version(name, time, size=0, content_type=MARKER_TYPE, etag="empty")


def null_marker(name: str, time: float) -> dict[str, Any]:
    return item(name, time, "null", size=0, content_type=MARKER_TYPE, etag=NULL_MARKER_ETAG)


def removed(name: str, time: float, version_id: str = "") -> dict[str, Any]:
    gone = {"size": 0, "content_type": "application/deleted", "etag": "noetag", "deleted": 1}
    return item(name, time, version_id, **gone)


def restored(name: str, time: float, target: str) -> dict[str, Any]:
    return item(name, time, "current", size=0, content_type="", etag=target)


def no_current(name: str, time: float) -> dict[str, Any]:
    return removed(name, time, "current")


@pytest.fixture
def container(call: Caller) -> str:
    assert call("PUT", C, 1).status == 201
    return C


def update(call: Caller, *rows: dict[str, Any]) -> None:
    assert call("UPDATE", C, 2, body=list(rows)).status == 202


def listed(call: Caller, query: str = "") -> list[str]:
    entries = call("GET", f"{C}?format=json&{query}").json()
    return [f"{e['name']} {e['bytes']} {e['hash']}" for e in entries]


def versions(call: Caller, query: str = "") -> list[str]:
    """Each version as ``name id``, with a star if it is the latest; groups as ``+name``."""
    wanted = query if query.startswith("versions") else f"versions&{query}"
    entries = call("GET", f"{C}?format=json&{wanted}").json()
    return [
        f"+{e['subdir']}"
        if "subdir" in e
        else f"{e['name']} {short(e['version_id'])}{'*' * e['is_latest']}"
        for e in entries
    ]


def short(version_id: str) -> str:
    """The seconds of a version id after the start."""
    return version_id.removeprefix("179522350").removesuffix(".00000")


def totals(call: Caller) -> tuple[str, str]:
    headers = call("HEAD", C).headers
    return headers["X-Container-Object-Count"], headers["X-Container-Bytes-Used"]


def test_the_newest_version_is_what_a_listing_shows(call: Caller, container: str) -> None:
    update(call, item("o", 1, size=3), item("plain", 1, size=100))
    update(call, version("o", 2, size=4))
    update(call, version("o", 4, size=7), version("o", 3, size=6))
    assert listed(call) == ["o 7 etag4", "plain 100 etag1"]
    assert versions(call) == [
        "o 4*",
        "o 3",
        "o 2",
        "o 1",  # the null version, by its time, once it is not current
        "plain null*",
    ]
    assert totals(call) == ("2", "120")
    plain, *_ = [e for e in call("GET", f"{C}?format=json").json() if e["name"] == "plain"]
    assert "symlink_path" not in plain
    entry = call("GET", f"{C}?format=json").json()[0]
    assert entry["symlink_path"] == f"/v1/AUTH_test/c/o?version-id={stamp(4)}"
    assert entry["version_symlink"] is True


def test_delete_markers(call: Caller, container: str) -> None:
    update(call, version("o", 2, size=4), marker("o", 3), marker("never", 3))
    assert listed(call) == []
    assert versions(call) == ["never 3*", "o 3*", "o 2"]
    assert totals(call) == ("0", "4")
    assert call("DELETE", C, 9).status == 409
    update(call, removed("o", 5, stamp(3)), no_current("o", 3))
    assert listed(call) == []
    assert versions(call) == ["never 3*", "o 2"]
    update(call, removed("o", 6, stamp(2)), removed("never", 6, stamp(3)))
    assert versions(call) == []
    assert totals(call) == ("0", "0")
    assert call("DELETE", C, 9).status == 204


def test_removal_of_the_current_version_and_restore(call: Caller, container: str) -> None:
    update(call, version("o", 2, size=4), version("o", 3, size=6))
    update(call, restored("o", 5, stamp(2)))
    assert versions(call) == ["o 3", "o 2*"]
    assert listed(call) == ["o 4 etag2"]
    assert totals(call) == ("1", "10")
    update(call, removed("o", 6, stamp(2)), no_current("o", 5))
    assert (versions(call), listed(call), totals(call)) == (["o 3"], [], ("0", "6"))
    update(call, version("o", 4, size=1))  # late
    assert (versions(call), listed(call)) == (["o 4", "o 3"], [])
    update(call, version("o", 7, size=1))
    assert versions(call) == ["o 7*", "o 4", "o 3"]


def test_suspended_versioning(call: Caller, container: str) -> None:
    update(call, version("o", 2, size=4), item("o", 3, size=6))
    assert versions(call) == ["o null*", "o 2"]
    update(call, item("o", 4, size=8))
    assert (versions(call), totals(call)) == (["o null*", "o 2"], ("1", "12"))
    update(call, removed("o", 5))
    assert (versions(call), listed(call), totals(call)) == (["o 2"], [], ("0", "4"))


def test_null_markers(call: Caller, container: str) -> None:
    update(call, item("o", 1, size=3), version("v", 1), null_marker("v", 2), null_marker("o", 3))
    assert (listed(call), versions(call)) == ([], ["o null*", "v null*", "v 1"])
    marker = call("GET", f"{C}?format=json&versions").json()[0]
    assert (marker["content_type"], marker["bytes"]) == (MARKER_TYPE, 0)
    assert marker["hash"] == hashlib.md5(b"").hexdigest()
    assert totals(call) == ("0", "5")
    assert call("DELETE", C, 9).status == 409
    assert versions(call, "marker=v&version_marker=null") == ["v 1"]
    # A POST of the object that was there may come late.
    late = item("o", 1, size=3, content_type="text/late", ctype_timestamp=stamp(4))
    update(call, late | {"meta_timestamp": stamp(4)})
    assert (listed(call), versions(call)) == ([], ["o null*", "v null*", "v 1"])
    assert call("GET", f"{C}?format=json&versions").json()[0]["content_type"] == MARKER_TYPE
    update(call, removed("o", 5), version("v", 6))
    assert versions(call) == ["v 6*", "v 2", "v 1"]
    # What is left is the latest again, though nothing is current.
    update(call, no_current("v", 6), removed("v", 7, stamp(6)))
    assert (listed(call), versions(call)) == ([], ["v null*", "v 1"])
    update(call, item("v", 8, size=7))
    assert (listed(call), versions(call)) == (["v 7 etag8"], ["v null*", "v 1"])


def test_the_null_version_may_be_named_whatever_is_current(call: Caller, container: str) -> None:
    update(call, item("o", 1, size=3), version("o", 2), null_marker("v", 1), version("v", 2))
    whole = ["o 2*", "o null", "v 2*", "v null"]
    assert versions(call) == ["o 2*", "o 1", "v 2*", "v 1"]
    assert versions(call, "versions=null") == whole
    assert versions(call, "versions=null&reverse=true") == whole[::-1]
    for query, left in (
        (f"marker=o&version_marker={stamp(2)}", 1),
        ("marker=o&version_marker=null", 2),
    ):
        assert versions(call, f"versions=null&{query}") == whole[left:]


def test_the_null_version_keeps_its_id_when_it_is_moved(call: Caller, container: str) -> None:
    """It has a greater offset afterwards. So has the removal by a client."""
    moved = item("o", 1, "null") | {"created_at": f"{stamp(1)}_0000000000000002"}
    update(call, item("o", 1), version("o", 2), moved)
    assert versions(call) == ["o 2*", "o 1"]
    assert versions(call, "reverse=true") == ["o 1", "o 2*"]
    assert versions(call, f"marker=o&version_marker={stamp(2)}") == ["o 1"]
    assert versions(call, f"marker=o&version_marker={stamp(1)}") == []
    query = f"reverse=true&marker=o&version_marker={stamp(1)}"
    assert versions(call, query) == ["o 2*"]
    gone = removed("o", 1, "null") | {"created_at": f"{stamp(1)}_0001000000000000"}
    update(call, gone, moved | {"created_at": f"{stamp(1)}_0000000000000004"})
    assert versions(call) == ["o 2*"]


def test_new_metadata_of_a_version(call: Caller, container: str) -> None:
    update(call, version("o", 2), version("o", 3))
    update(call, version("o", 3, ctype_timestamp=stamp(4), meta_timestamp=stamp(4), etag="etag3"))
    entry = call("GET", f"{C}?format=json").json()[0]
    assert entry["last_modified"] == Timestamp(stamp(4)).isoformat
    assert versions(call) == ["o 3*", "o 2"]


def test_pages(call: Caller, container: str) -> None:
    update(call, version("a", 2), version("b", 2), version("b", 3), version("b", 4), item("c", 2))
    whole = ["a 2*", "b 4*", "b 3", "b 2", "c null*"]
    assert versions(call) == whole
    assert versions(call, "reverse=true") == whole[::-1]
    assert versions(call, "limit=2") == whole[:2]
    assert versions(call, f"marker=b&version_marker={stamp(4)}") == whole[2:]
    assert versions(call, f"limit=1&marker=b&version_marker={stamp(4)}") == whole[2:3]
    assert versions(call, f"marker=b&version_marker={stamp(3)}&reverse=true") == whole[1::-1]
    assert versions(call, "marker=b") == whole[4:]
    assert versions(call, "marker=c&version_marker=null") == []
    assert versions(call, f"prefix=b&marker=b&version_marker={stamp(3)}") == ["b 2"]
    assert versions(call, f"prefix=c&marker=b&version_marker={stamp(3)}") == ["c null*"]
    assert (
        versions(call, "marker=b&version_marker=null")
        == [
            "b 4",  # as in Swift: behind a null version that is not there none is the latest
            *whole[2:],
        ]
    )
    assert call("GET", f"{C}?versions&marker=b&version_marker=x").status == 400


def test_delimiter_and_prefix(call: Caller, container: str) -> None:
    update(call, marker("del-x", 2), item("off-y", 2), version("t", 2), version("t", 3))
    update(call, version("t-1", 2), version("t-2", 2))
    rolled = ["+del-", "+off-", "t 3*", "t 2", "+t-"]
    assert versions(call, "delimiter=-") == rolled
    assert versions(call, "delimiter=-&reverse=true") == [
        "+t-",
        "t 2",
        "t 3*",
        "+off-",
        "+del-",
    ]
    assert versions(call, f"delimiter=-&marker=t-1&version_marker={stamp(2)}") == ["+t-"]
    assert versions(call, "prefix=t-&delimiter=-") == ["t-1 2*", "t-2 2*"]


def test_rows_one_by_one(call: Caller, container: str) -> None:
    """As an object server sends them to a server that refuses a batch, and the proxy itself."""
    put = {"X-Size": "5", "X-Content-Type": "text/plain", "X-Etag": "e"}
    assert call("PUT", f"{C}/o", 2, put | {"X-Backend-Version-Id": stamp(2)}).status == 201
    assert call("PUT", f"{C}/o", 3, put | {"X-Backend-Version-Id": stamp(3)}).status == 201
    assert versions(call) == ["o 3*", "o 2"]
    assert call("DELETE", f"{C}/o", 4, {"X-Backend-Version-Id": stamp(3)}).status == 204
    assert call("DELETE", f"{C}/o", 3, {"X-Backend-Version-Id": "current"}).status == 204
    assert (versions(call), listed(call)) == (["o 2"], [])
    for bad in ("x", "7.5", stamp(9)):
        assert call("PUT", f"{C}/o", 2, put | {"X-Backend-Version-Id": bad}).status == 400


def state_of(connection: sqlite3.Connection) -> dict[str, Any]:
    """All that is derived; the totals must be those of the rows."""
    objects = connection.execute(
        "SELECT name, created_at, size, content_type, etag, deleted FROM object ORDER BY name"
    ).fetchall()
    rows = connection.execute(
        "SELECT name, version_id, created_at, size, etag, deleted FROM version ORDER BY 1, 2"
    ).fetchall()
    live = [row for row in rows if not row[5] and row[1] != "current"]
    sizes = sum(row[3] for row in live) - sum(row[2] for row in objects)
    stat = connection.execute("SELECT version_count, extra_bytes FROM version_stat").fetchone()
    assert stat == (len(live), sizes)
    counted = connection.execute("SELECT sum(object_count), sum(bytes_used) FROM policy_stat")
    assert counted.fetchone() == (sum(1 - r[5] for r in objects), sum(r[2] for r in objects))
    current = connection.execute("SELECT name, current FROM version_name ORDER BY 1").fetchall()
    return {"objects": objects, "rows": rows, "current": current}


_times = st.integers(1, 6)
_rows = st.one_of(
    st.builds(lambda t: version("o", t, size=t), _times),
    st.builds(lambda t: marker("o", t), _times),
    st.builds(lambda t: item("o", t + 0.5, size=10 * t), _times),
    st.builds(lambda t: removed("o", t + 0.5), _times),
    st.builds(lambda t: null_marker("o", t + 0.5), _times),
    st.builds(lambda t: removed("o", t + 7, stamp(t)), _times),
    st.builds(lambda t: no_current("o", t), _times),
    st.builds(lambda t, to: restored("o", t + 0.25, stamp(to)), _times, _times),
)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(_rows, min_size=1, max_size=7), data=st.data())
def test_rows_may_come_in_any_order_and_again(rows: list[Any], data: st.DataObject) -> None:
    records = [parse_record(row) for row in [*rows, version("o", 9)]]
    one, two, three = (merged_in_any_order(records, data) for _ in range(3))
    assert one == two == three


def merged_in_any_order(records: list[Record], data: st.DataObject) -> tuple[Any, ...]:
    """All that is derived from the records, and their policies."""
    order: list[Record] = data.draw(st.permutations(records + records[:2]))
    size = data.draw(st.integers(1, len(order)))
    connection = container_in_memory()
    for start in range(0, len(order), size):
        merge_rows(connection, order[start : start + size])
    policies = "SELECT name, version_id, storage_policy_index FROM version ORDER BY 1, 2"
    return state_of(connection), connection.execute(policies).fetchall()


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(_rows, min_size=1, max_size=6), data=st.data())
def test_rows_of_moved_versions_may_come_in_any_order(rows: list[Any], data: st.DataObject) -> None:
    """Rows of other policies, and some of them again in the policy of the container."""
    records = []
    for row in [*rows, version("o", 9)]:
        policy = data.draw(st.integers(0, 2))
        records.append(parse_record(row)._replace(storage_policy_index=policy))
        if data.draw(st.booleans()):
            records.append(records[-1]._replace(storage_policy_index=0))
    one, two, three = (merged_in_any_order(records, data) for _ in range(3))
    assert one == two == three


def test_any_two_rows_in_both_orders() -> None:
    kinds = [
        version("o", 2),
        version("o", 3),
        marker("o", 2.5),
        item("o", 2.75),
        removed("o", 3.5),
        null_marker("o", 2.75),
        null_marker("o", 3.5),
        removed("o", 4, stamp(3)),
        no_current("o", 3),
        restored("o", 3.25, stamp(2)),
    ]
    for one, other in itertools.product(kinds, repeat=2):
        states = []
        for order in ([one, other], [other, one]):
            connection = container_in_memory()
            for row in [*order, version("o", 1)]:
                merge_rows(connection, [parse_record(row)])
            states.append(state_of(connection))
        assert states[0] == states[1], (one, other)


@pytest.mark.parametrize("query", [NEWEST_VERSION, LAST_REMOVED])
def test_a_look_up_does_not_depend_on_how_many_versions_there_are(query: str) -> None:
    connection = container_in_memory()
    merge_rows(connection, [parse_record(version("o", 2))])
    plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", ("o",)).fetchall()
    assert ["ix_version_listing" in step[-1] for step in plan] == [True]


def test_a_container_without_versions_has_no_table_of_them(tmp_path: Any) -> None:
    database = ContainerDatabase(str(tmp_path / "d1" / "containers" / "0" / "x" / "x" / "x.db"))
    database.create("a", "c", stamp(1), 0, {})
    database.merge([parse_record(item("o", 2))])
    query = "SELECT name FROM sqlite_master WHERE name LIKE '%version%'"
    assert database.read(lambda connection: connection.execute(query).fetchall()) == []
    database.close()


def test_tombstones_beyond_many_of_names_with_versions_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows of names that end in a delete marker are tombstones, too, and stay."""
    monkeypatch.setattr("container.replica_rows._FOUND_MAX", 3)
    connection = container_in_memory()
    kept = [parse_record(marker(f"kept{number}", 2)) for number in range(5)]
    merge_rows(connection, kept)
    merge_rows(connection, [parse_record(removed("plain", 2))])
    assert find_tombstones(connection, 100, stamp(9)) == [6]
