"""Requests about shards: ranges, redirects, and the state of a container that has shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grid_calls import GridCaller
from storage_calls import Caller, stamp

from container.app import ContainerServer
from container.database import PolicyConflict
from container.shard_giving import begin_giving, finish_giving, read_changes
from container.shard_range import ACTIVE, CREATED, ShardRange
from martlet.words.timestamp import Timestamp

ROOT = "/d1/0/a/c"
SHARD = ".shards_a/c-1"
AS_SHARD = {"X-Backend-Record-Type": "shard"}
FOLLOWS = {"X-Backend-Accept-Redirect": "true"}


def range_of(name: str, lower: str, upper: str, **values: Any) -> dict[str, Any]:
    now = Timestamp(stamp(2)).normal
    item = ShardRange(name, now, lower, upper, meta_timestamp=now, state_timestamp=now, **values)
    return item.as_dict()


def row(name: str, time: float = 3) -> dict[str, Any]:
    return {
        "name": name,
        "created_at": stamp(time),
        "size": 4,
        "content_type": "a/b",
        "etag": "e",
        "deleted": 0,
        "storage_policy_index": 0,
    }


def names_in(call: Caller, query: str = "", headers: dict[str, str] | None = None) -> list[str]:
    return [e["name"] for e in call("GET", f"{ROOT}?format=json{query}", headers=headers).json()]


def give(server: ContainerServer, lower: str, upper: str, is_finished: bool) -> None:
    path = server.database_path(f"{server.devices}/d1", "0", "a", "c")
    with server.pool.use(path) as database:
        points = begin_giving(database, lower, upper)
        if is_finished:
            _, points, _ = read_changes(database, (lower, upper), points, 10)
            finish_giving(database, lower, points, (2, 9), Timestamp(stamp(4)).normal)


@pytest.fixture
def root(call: Caller) -> Caller:
    """A container with the rows b, d and f, and a shard for the names above c and up to e."""
    assert call("PUT", ROOT, 1).status == 201
    assert call("UPDATE", ROOT, 3, body=[row("b"), row("d"), row("f")]).status == 202
    body = [range_of(SHARD, "c", "e", state=CREATED)]
    assert call("PUT", ROOT, 2, AS_SHARD, body).status == 202
    return call


def test_a_shard_is_created_by_its_range(call: Caller) -> None:
    path = f"/d1/0/{SHARD}"
    body = [range_of(SHARD, "c", "e", state=CREATED)]
    assert call("PUT", path, 2, AS_SHARD, body).status == 404
    headers = {
        **AS_SHARD,
        "X-Backend-Auto-Create": "true",
        "X-Container-Sysmeta-Shard-Quoted-Root": "a/c",
    }
    assert call("PUT", path, 2, headers, body).status == 201
    assert call("PUT", path, 2, headers, body).status == 202
    answer = call("HEAD", path)
    assert answer.headers["X-Container-Sysmeta-Shard-Quoted-Root"] == "a/c"
    (own,) = call("GET", f"{path}?states=auditing", headers=AS_SHARD).json()
    assert own["name"] == SHARD
    assert call("PUT", path, 3, AS_SHARD, b"{").status == 400
    assert call("PUT", path, 3, AS_SHARD, [{"name": "x"}]).status == 400


def test_ranges_are_chosen(root: Caller, server: ContainerServer) -> None:
    give(server, "c", "e", is_finished=True)

    def found(query: str, headers: dict[str, str] = AS_SHARD) -> list[tuple[str, str, str]]:
        entries = root("GET", f"{ROOT}?{query}", headers=headers).json()
        return [(e["name"].rpartition("/")[2], e["lower"], e["upper"]) for e in entries]

    whole = [("c", "", "c"), ("c-1", "c", "e"), ("c", "e", "")]
    assert found("states=listing") == whole
    assert found("", {"X-Backend-Record-Type": "auto"}) == whole
    assert found("states=listing&reverse=on") == whole[::-1]
    assert found("states=listing&marker=d") == whole[1:]
    assert found("states=listing&end_marker=c") == whole[:1]
    assert found("states=listing&includes=d") == whole[1:2]
    assert found("states=updating&includes=d") == [("c", "c", "e")]
    assert found("states=given") == [("c", "c", "e")]
    assert found("") == [("c-1", "c", "e")]
    assert found("states=active") == []
    active = [range_of(SHARD, "c", "e", state=ACTIVE)]
    assert root("PUT", ROOT, 4, AS_SHARD, active).status == 202
    assert found("states=updating&includes=d") == [("c-1", "c", "e")]


def test_a_container_without_shards_answers_with_objects(call: Caller) -> None:
    assert call("PUT", ROOT, 1).status == 201
    answer = call("GET", f"{ROOT}?format=json", headers={"X-Backend-Record-Type": "auto"})
    assert answer.headers["X-Backend-Record-Type"] == "object"
    assert answer.headers["X-Backend-Sharding-State"] == "unsharded"
    assert call("GET", ROOT, headers=AS_SHARD).json() == []


def test_rows_are_stored_and_redirected_while_their_range_is_given(
    root: Caller, server: ContainerServer
) -> None:
    give(server, "c", "e", is_finished=False)
    answer = root("UPDATE", ROOT, 5, FOLLOWS, [row("a", 5), row("d1", 5), row("z", 5)])
    assert answer.status == 301
    redirect = {"account": ".shards_a", "container": "c-1", "rows": [1]}
    assert answer.json() == {"redirects": [redirect]}
    assert names_in(root) == ["a", "b", "d", "d1", "f", "z"]
    assert root("UPDATE", ROOT, 5, FOLLOWS, [row("a", 6)]).status == 202


def test_rows_of_a_given_range_go_to_the_shard_alone(root: Caller, server: ContainerServer) -> None:
    give(server, "c", "e", is_finished=True)
    assert root("UPDATE", ROOT, 5, FOLLOWS, [row("a", 5), row("d1", 5)]).status == 301
    headers = {**FOLLOWS, "X-Size": "4", "X-Content-Type": "a/b", "X-Etag": "e"}
    answer = root("PUT", f"{ROOT}/d2 ö", 5, headers)
    assert (answer.status, answer.headers["Location"]) == (301, "/.shards_a/c-1/d2 Ã¶")
    quoted = {**headers, "X-Backend-Accept-Quoted-Location": "true"}
    answer = root("DELETE", f"{ROOT}/d2 ö", 6, quoted)
    assert (answer.status, answer.headers["Location"]) == (301, "/.shards_a/c-1/d2%20%C3%B6")
    assert answer.headers["X-Backend-Redirect-Timestamp"] == stamp(2)
    assert names_in(root) == ["a", "b", "d", "f"]  # what is left of d was given away
    assert root("UPDATE", ROOT, 5, body=[row("d3", 5)]).status == 202  # waits to be moved
    assert "d3" in names_in(root)
    assert root("HEAD", ROOT).headers["X-Container-Object-Count"] == "5"  # a, b, f; 2 in the shard


def test_the_grid_redirects_as_http_does(root: Caller, server: ContainerServer) -> None:
    import msgpack  # type: ignore[import-untyped]

    give(server, "c", "e", is_finished=True)
    grid = GridCaller("container", server.grid_handlers())

    def update(*more: bool) -> tuple[int, Any]:
        rows = [["d4", stamp(5), 1, "a/b", "e", 0]]
        payload = ["d1", 0, "a", "c", 0, stamp(5), rows, *more]
        status, _, body = msgpack.unpackb(grid.handle("update", msgpack.packb(payload)))
        return status, body

    status, body = update(True)
    assert status == 301
    assert json.loads(body)["redirects"][0]["rows"] == [0]
    assert update()[0] == update(False)[0] == 202


def test_names_that_were_given_away_are_not_listed_as_own(
    root: Caller, server: ContainerServer
) -> None:
    give(server, "c", "e", is_finished=True)
    assert names_in(root, headers={"X-Backend-Own-Names": "e,"}) == ["b", "d", "f"]
    for bounds in ("c,e", ",", "d,", ",d", "%63,d"):
        answer = root("GET", ROOT, headers={"X-Backend-Own-Names": bounds})
        assert answer.status == 409, bounds
    assert root("GET", ROOT, headers={"X-Backend-Own-Names": "c"}).status == 400


def test_reports_change_the_statistics_of_known_ranges_alone(
    root: Caller, server: ContainerServer
) -> None:
    give(server, "c", "e", is_finished=True)
    assert root("HEAD", ROOT).headers["X-Container-Bytes-Used"] == str(4 + 4 + 9)
    headers = {**AS_SHARD, "X-Backend-Shard-Stats": "true"}

    def report(name: str, time: float, count: int) -> str | None:
        item = ShardRange(name, stamp(time)).with_stats(count, 7, stamp(time))
        answer = root("PUT", ROOT, time, headers, [item.as_dict()])
        assert answer.status == 202
        return answer.headers.get("X-Backend-Reported-At")

    assert report(SHARD, 8, 5) is None
    assert report(SHARD, 6, 99) == stamp(8)  # is late
    assert report(SHARD, 6, 5) is None
    assert report(".shards_a/c-2", 8, 1000) is None
    assert root("HEAD", ROOT).headers["X-Container-Object-Count"] == "7"
    (item,) = root("GET", ROOT, headers=AS_SHARD).json()
    assert (item["lower"], item["object_count"]) == ("c", 5)


def test_a_container_with_shards_is_deleted_if_they_are_empty(
    root: Caller, server: ContainerServer
) -> None:
    give(server, "c", "e", is_finished=True)
    for name in "bf":
        assert root("DELETE", f"{ROOT}/{name}", 6).status == 204
    unknown = {"X-Backend-Shards-Empty": "unknown"}
    answer = root("DELETE", ROOT, 7, unknown)
    assert (answer.status, answer.headers["X-Backend-Sharding-State"]) == (409, "sharding")
    assert root("DELETE", ROOT, 7).status == 409  # as the shards have reported
    assert root("DELETE", ROOT, 7, {"X-Backend-Shards-Empty": "true"}).status == 204
    assert root("GET", ROOT).status == 404
    assert root("GET", ROOT, headers=AS_SHARD).status == 404
    # The sharder goes on with what it has begun.
    body = [range_of(SHARD, "c", "g", state=CREATED) | {"timestamp": stamp(7)}]
    assert root("PUT", ROOT, 7, AS_SHARD, body).status == 202
    despite = {**AS_SHARD, "X-Backend-Override-Deleted": "true"}
    found = root("GET", f"{ROOT}?states=auditing", headers=despite).json()
    assert [item["upper"] for item in found] == ["g"]
    assert root("GET", ROOT).status == 404
    path = server.database_path(f"{server.devices}/d1", "0", "a", "c")
    again = Timestamp(stamp(8))
    with server.pool.use(path) as database:
        with pytest.raises(PolicyConflict):  # the shards keep theirs
            database.put(again, 1, 1, {}, lambda metadata: None)
        was_created, info = database.put(again, None, 1, {}, lambda metadata: None)
    assert was_created
    assert info.storage_policy_index == 0


def test_a_shard_shows_the_names_of_its_root(call: Caller, tmp_path: Path) -> None:
    path = f"/d1/0/{SHARD}"
    headers = {
        **AS_SHARD,
        "X-Backend-Auto-Create": "true",
        "X-Container-Sysmeta-Shard-Quoted-Root": "a/c%20c",
    }
    assert call("PUT", path, 2, headers, [range_of(SHARD, "", "")]).status == 201
    assert call("UPDATE", path, 3, body=[row("o") | {"version_id": stamp(3)}]).status == 202
    (entry,) = call("GET", f"{path}?format=json").json()
    assert entry["symlink_path"].startswith("/v1/a/c%20c/o?version-id=")
