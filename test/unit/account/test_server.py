"""The account server through WSGI: each verb, each answer, bad input, damage."""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from storage_calls import Answer, Caller, stamp

from account.app import UPDATE_BYTES_MAX, AccountServer
from account.database import AccountDatabase
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.service.disk_calls import DiskStuck, ProcessStuck

A = "/d1/0/AUTH_test"


@pytest.fixture
def account(call: Caller) -> str:
    assert call("PUT", A, 1).status == 201
    return A


def put_container(
    call: Caller,
    name: str,
    put: float = 2,
    delete: float | None = None,
    totals: tuple[int, int] = (0, 0),
    **headers: str,
) -> Answer:
    sent = {
        "X-Put-Timestamp": stamp(put),
        "X-Delete-Timestamp": "0" if delete is None else stamp(delete),
        "X-Object-Count": str(totals[0]),
        "X-Bytes-Used": str(totals[1]),
    } | {key.replace("_", "-"): value for key, value in headers.items()}
    return call("PUT", f"{A}/{name}", 2, sent)


def names(call: Caller, query: str = "") -> list[str]:
    answer = call("GET", f"{A}?format=json&{query}")
    assert answer.status == 200
    return [entry.get("name") or "+" + entry["subdir"] for entry in answer.json()]


def test_a_database_is_not_made_once_it_waited_too_long(
    call: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("storage.database.CREATION_WAIT_SECONDS_MAX", -1.0)
    assert call("PUT", A, 1).status == 529
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    monkeypatch.undo()
    assert call("GET", A).status == 404
    assert call("PUT", A, 2).status == 201


def test_put_creates_and_repeats(call: Caller) -> None:
    assert call("PUT", A, 2).status == 201
    assert call("PUT", A, 3).status == 202
    assert call("PUT", A, 1).status == 202
    head = call("HEAD", A)
    assert head.status == 204
    assert head.headers["X-PUT-Timestamp"] == stamp(3)
    assert head.headers["Content-Length"] == "0"
    for count in ("Container-Count", "Object-Count", "Bytes-Used"):
        assert head.headers[f"X-Account-{count}"] == "0"


def test_an_account_that_can_be_seen_has_its_metadata(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    link = os.link

    def link_and_look(source: str, path: str) -> None:
        link(source, path)
        seen.append(AccountDatabase(path).info().metadata)

    monkeypatch.setattr(os, "link", link_and_look)
    assert call("PUT", A, 1, {"X-Account-Meta-Color": "blue"}).status == 201
    assert seen == [{"X-Account-Meta-Color": ("blue", stamp(1))}]


def test_a_missing_account(call: Caller) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE"):
        answer = call(method, A, 1)
        assert answer.status == 404
        assert "X-Account-Status" not in answer.headers
    assert put_container(call, "c").status == 404


def test_a_deleted_account(call: Caller, account: str) -> None:
    call("POST", A, 2, {"X-Account-Meta-Color": "blue"})
    put_container(call, "c")
    deleted = call("DELETE", A, 3)  # whatever it holds: the reaper empties it
    assert (deleted.status, deleted.headers["X-Account-Status"]) == (204, "Deleted")
    for method in ("GET", "HEAD", "POST", "DELETE"):
        answer = call(method, A, 4)
        assert (answer.status, answer.headers["X-Account-Status"]) == (404, "Deleted")
    again = call("PUT", A, 5)
    assert (again.status, again.headers["X-Account-Status"]) == (403, "Deleted")
    assert b"Recently deleted" in again.body
    assert put_container(call, "c2").status == 404
    assert put_container(call, "c2", X_Account_Override_Deleted="yes").status == 201


def test_a_deletion_older_than_the_last_put(call: Caller, account: str) -> None:
    """The status is set all the same, as in Swift: a DELETE that reached this server counts."""
    call("PUT", A, 5)
    assert call("DELETE", A, 3).status == 204
    assert call("HEAD", A).status == 404


def test_metadata(call: Caller, account: str) -> None:
    headers = {"X-Account-Meta-Color": "blue", "X-Account-Sysmeta-Acl": "{}"}
    assert call("POST", A, 3, headers).status == 204
    assert call("PUT", A, 2, {"X-Account-Meta-Color": "red"}).status == 202
    for answer in (call("HEAD", A), call("GET", A)):
        assert {k: v for k, v in answer.headers.items() if k in headers} == headers
    call("POST", A, 4, {"X-Account-Meta-Color": "", "X-Remove-Account-Sysmeta-Acl": "x"})
    assert not set(headers) & set(call("HEAD", A).headers)
    assert call("POST", A, 5, {f"X-Account-Meta-{n}": "v" for n in "ABCD"}).status == 400
    assert call("POST", A, 5, {"X-Account-Meta-A": "\xff"}).status == 400


def test_containers_are_counted_per_policy(call: Caller, account: str) -> None:
    assert put_container(call, "a", totals=(2, 20)).status == 201
    assert (
        put_container(call, "b", totals=(3, 30), X_Backend_Storage_Policy_Index="1").status == 201
    )
    headers = call("HEAD", A).headers
    counts = {name[10:]: value for name, value in headers.items() if name.startswith("X-Account-")}
    assert counts == {
        "Container-Count": "2",
        "Object-Count": "5",
        "Bytes-Used": "50",
        "Storage-Policy-gold-Container-Count": "1",
        "Storage-Policy-gold-Object-Count": "2",
        "Storage-Policy-gold-Bytes-Used": "20",
        "Storage-Policy-silver-Container-Count": "1",
        "Storage-Policy-silver-Object-Count": "3",
        "Storage-Policy-silver-Bytes-Used": "30",
    }
    assert put_container(call, "c", X_Backend_Storage_Policy_Index="7").status == 400


def test_reports_replace_each_other(call: Caller, account: str) -> None:
    put_container(call, "a", totals=(2, 20))
    put_container(call, "a", totals=(5, 50))
    assert call("HEAD", A).headers["X-Account-Object-Count"] == "5"
    assert put_container(call, "a", put=1, delete=3, totals=(0, 0)).status == 204
    assert names(call) == []
    put_container(call, "a", put=2, totals=(0, 0))  # late: the deletion stays
    assert names(call) == []
    assert put_container(call, "a", put=4, totals=(1, 10)).status == 201
    assert names(call) == ["a"]
    headers = call("HEAD", A).headers
    assert (headers["X-Account-Container-Count"], headers["X-Account-Bytes-Used"]) == ("1", "10")


def test_a_deleted_container_that_holds_objects_is_listed(call: Caller, account: str) -> None:
    put_container(call, "a", put=1, delete=3, totals=(1, 10))
    assert names(call) == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        {"X_Object_Count": "x"},
        {"X_Object_Count": "-1"},
        {"X_Bytes_Used": "9" * 30},
        {"X_Put_Timestamp": "x"},
        {"X_Delete_Timestamp": ""},
    ],
)
def test_bad_reports(call: Caller, account: str, change: dict[str, str]) -> None:
    assert put_container(call, "a", **change).status == 400
    assert call("PUT", f"{A}/a", 2, {"X-Put-Timestamp": stamp(1)}).status == 400
    assert names(call) == []


def test_some_accounts_create_themselves(call: Caller) -> None:
    headers = {
        "X-Put-Timestamp": stamp(1),
        "X-Delete-Timestamp": "0",
        "X-Object-Count": "0",
        "X-Bytes-Used": "0",
    }
    assert call("PUT", "/d1/0/.system/c", 1, headers).status == 201
    assert call("PUT", "/d1/0/.system2/c", None, headers).status == 201
    assert call("GET", "/d1/0/.system").body == b"c\n"


def test_listing_parameters(call: Caller, account: str) -> None:
    for name in ("a", "b-1", "b-2", "c", "%E2%98%83"):
        put_container(call, name)
    assert names(call) == ["a", "b-1", "b-2", "c", "☃"]
    assert names(call, "delimiter=-") == ["a", "+b-", "c", "☃"]
    assert names(call, "prefix=b") == ["b-1", "b-2"]
    assert names(call, "marker=b-1&end_marker=c") == ["b-2"]
    assert names(call, "reverse=1&limit=2") == ["☃", "c"]
    assert call("GET", f"{A}?limit=51").status == 412
    assert call("GET", f"{A}?marker=%FF").status == 400


def test_listing_formats(call: Caller, account: str) -> None:
    assert call("GET", A).status == 204
    assert call("GET", f"{A}?format=json").body == b"[]"
    put_container(call, "a-b", totals=(2, 20))
    put_container(call, "c")
    assert call("GET", A).body == b"a-b\nc\n"
    assert call("GET", f"{A}?format=json").json()[0] == {
        "name": "a-b",
        "count": 2,
        "bytes": 20,
        "last_modified": "2026-11-21T01:11:42.000000",
        "storage_policy": "gold",
    }
    root = ElementTree.fromstring(call("GET", f"{A}?format=xml&delimiter=-").body)
    assert (root.tag, root.get("name")) == ("account", "AUTH_test")
    assert [(node.tag, node.get("name") or node.findtext("name")) for node in root] == [
        ("subdir", "a-"),
        ("container", "c"),
    ]
    assert root[1].findtext("storage_policy") == "gold"
    assert call("GET", A, None, {"Accept": "image/png"}).status == 406


@pytest.mark.parametrize("path", ["/", "/d1", "/d1/0", "/d1/x/a", "/d1/../a", "/d1//a"])
def test_bad_paths(call: Caller, path: str) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        assert call(method, path, 1).status == 400


def test_bad_input(call: Caller, account: str) -> None:
    assert call("PUT", "/d1/0/%FF", 1).status == 412
    for method in ("PUT", "POST", "DELETE"):
        assert call(method, A).status == 400
        assert call(method, A, None, {"X-Timestamp": "x"}).status == 400
    assert call("MERGE", A, 1).status == 405
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        assert call(method, "/d9/0/a", 1).status == 507
    assert call("HEAD", A).status == 204


def test_a_damaged_database(
    call: Caller, account: str, server: AccountServer, swift_dir: Path
) -> None:
    server.pool.close()
    (database,) = (swift_dir / "devices").glob("**/*.db")
    database.write_bytes(b"\0" * 8192)
    assert call("GET", A).status == 500
    assert call("GET", A).status == 404
    assert len(list((swift_dir / "devices" / "d1" / "quarantined" / "accounts").iterdir())) == 1


def test_a_device_may_have_half_of_the_places(server: AccountServer, call: Caller) -> None:
    """The others are for other devices, should this one hang."""
    seen: list[int] = []

    def ask_meanwhile(_req: Request) -> Response:
        if len(seen) == 0:
            seen.append(0)
            seen.extend(call("HEAD", path).status for path in (A, "/d2/0/AUTH_test"))
        return Response(204)

    server._requests_of_device_max = 1
    server.handlers["GET"] = ask_meanwhile
    assert call("GET", A).status == 204
    assert seen == [0, 529, 404]
    assert call("HEAD", A).status == 404


@pytest.mark.parametrize(("error", "status"), [(DiskStuck, 507), (ProcessStuck, 503)])
def test_a_device_that_hangs(
    call: Caller, account: str, monkeypatch: pytest.MonkeyPatch, error: type[DiskStuck], status: int
) -> None:
    def refuse(disk: str, *_arguments: Any) -> None:
        raise error(disk)

    monkeypatch.setattr("storage.database.on_disk", refuse)
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        assert call(method, account, 2).status == status, method
    monkeypatch.setattr("storage.device_check.on_disk", refuse)
    monkeypatch.setattr("storage.device_check.SEEN_SECONDS", -1.0)
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        assert call(method, account, 3).status == status, method


def listing(call: Caller) -> list[dict[str, Any]]:
    body = call("GET", f"{A}?format=json").body
    return json.loads(body) if body else []


def reports(*names: str, **changes: Any) -> list[dict[str, Any]]:
    """The rows of an UPDATE."""
    row = {
        "put_timestamp": stamp(1),
        "delete_timestamp": "0",
        "object_count": 2,
        "bytes_used": 20,
        "storage_policy_index": 1,
    }
    return [{"name": name, **row, **changes} for name in names]


def test_an_update_merges_many_containers(call: Caller, account: str) -> None:
    put_container(call, "a", totals=(5, 50))
    assert call("UPDATE", A, 1, {}, reports("a", "b-ü")).status == 202
    assert [(e["name"], e["count"], e["bytes"]) for e in listing(call)] == [
        ("a", 2, 20),
        ("b-ü", 2, 20),
    ]
    gone = reports("a", object_count=0, bytes_used=0, delete_timestamp=stamp(3))
    assert call("UPDATE", A, 1, {}, gone).status == 202
    assert [e["name"] for e in listing(call)] == ["b-ü"]
    assert call("UPDATE", A, 1, {}, []).status == 202


def test_a_report_that_is_late_is_told_the_time_of_later_totals(call: Caller, account: str) -> None:
    later = reports("a", reported_at=stamp(7)) + reports("b", reported_at=stamp(8))
    assert "X-Backend-Reported-At" not in call("UPDATE", A, 1, {}, later).headers
    late = reports("a", "b", "c", object_count=9, reported_at=stamp(5))
    answer = call("UPDATE", A, 1, {}, late)
    assert (answer.status, answer.headers["X-Backend-Reported-At"]) == (202, stamp(8))
    headers = {
        "X-Put-Timestamp": stamp(1),
        "X-Delete-Timestamp": "0",
        "X-Object-Count": "9",
        "X-Bytes-Used": "1",
        "X-Backend-Reported-At": stamp(6),
    }
    answer = call("PUT", f"{A}/a", 1, headers)
    assert (answer.status, answer.headers["X-Backend-Reported-At"]) == (201, stamp(7))
    headers["X-Backend-Reported-At"] = stamp(7.1)
    assert "X-Backend-Reported-At" not in call("PUT", f"{A}/a", 1, headers).headers
    assert [(e["name"], e["count"]) for e in listing(call)] == [("a", 9), ("b", 2), ("c", 9)]


def test_an_update_of_a_deleted_account(call: Caller, account: str) -> None:
    assert call("UPDATE", "/d1/0/AUTH_none", 1, {}, reports("a")).status == 404
    put_container(call, "c")
    assert call("DELETE", A, 5).status == 204
    assert call("UPDATE", A, 1, {}, reports("a")).status == 404
    override = {"X-Account-Override-Deleted": "yes"}
    assert call("UPDATE", A, 1, override, reports("a")).status == 202


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "a"}',
        ["a"],
        reports(""),
        reports("a", object_count=-1),
        reports("a", bytes_used="1"),
        reports("a", put_timestamp="x"),
        reports("a", storage_policy_index=7),
        reports("good") + reports("a", delete_timestamp=None),
    ],
)
def test_a_bad_update_changes_nothing(call: Caller, account: str, body: Any) -> None:
    assert call("UPDATE", A, 1, {}, body).status == 400
    assert listing(call) == []


def test_an_update_that_is_too_large(call: Caller, account: str) -> None:
    assert call("UPDATE", A, 1, {}, reports("a" * UPDATE_BYTES_MAX)).status == 413
