"""The container server through WSGI: each verb, each answer, bad input, damage."""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from storage_calls import Caller, stamp

from container.app import ContainerServer
from container.database import ContainerDatabase
from ring.device_marker import MARKER_NAME
from storage.errors import DatabaseDamaged

C = "/d1/0/AUTH_test/c"


def item(name: str, time: float, size: int = 5, **values: Any) -> dict[str, Any]:
    default = {
        "name": name,
        "created_at": stamp(time),
        "size": size,
        "content_type": "text/plain",
        "etag": "e",
        "deleted": 0,
        "storage_policy_index": 0,
        "ctype_timestamp": None,
        "meta_timestamp": None,
    }
    return default | values


@pytest.fixture
def container(call: Caller) -> str:
    assert call("PUT", C, 1).status == 201
    return C


def names(call: Caller, query: str = "", path: str = C) -> list[str]:
    answer = call("GET", f"{path}?format=json&{query}")
    assert answer.status == 200
    return [entry.get("name") or "+" + entry["subdir"] for entry in answer.json()]


# -- container verbs


def test_put_creates_and_repeats(call: Caller) -> None:
    created = call("PUT", C, 1)
    assert (created.status, created.headers["X-Backend-Storage-Policy-Index"]) == (201, "0")
    assert call("PUT", C, 1).status == 202
    assert call("PUT", C, 5).status == 202
    head = call("HEAD", C)
    assert head.status == 204
    assert head.headers["X-PUT-Timestamp"] == stamp(5)
    assert head.headers["X-Backend-PUT-Timestamp"] == stamp(5)
    assert head.headers["X-Backend-DELETE-Timestamp"] == "0000000000.00000"
    assert head.headers["X-Backend-Sharding-State"] == "unsharded"
    assert head.headers["X-Container-Object-Count"] == "0"
    assert head.headers["Content-Length"] == "0"
    assert call("PUT", C, 3).status == 202
    assert call("HEAD", C).headers["X-PUT-Timestamp"] == stamp(5)


def test_a_container_that_can_be_seen_has_its_metadata(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads between two steps of the PUT, and after a crash there."""
    seen = []
    link = os.link

    def link_and_look(source: str, path: str) -> None:
        link(source, path)
        seen.append(ContainerDatabase(path).info().metadata)

    monkeypatch.setattr(os, "link", link_and_look)
    versioned = {"X-Container-Sysmeta-Versions-Enabled": "true", "X-Container-Read": ".r:*"}
    assert call("PUT", C, 1, versioned).status == 201
    assert seen == [{name: (value, stamp(1)) for name, value in versioned.items()}]
    assert call("HEAD", C).headers["X-Container-Read"] == ".r:*"


def test_policies(call: Caller) -> None:
    silver = {"X-Backend-Storage-Policy-Index": "1"}
    assert call("PUT", C, 1, silver).headers["X-Backend-Storage-Policy-Index"] == "1"
    conflict = call("PUT", C, 2, {"X-Backend-Storage-Policy-Index": "0"})
    assert (conflict.status, conflict.headers["X-Backend-Storage-Policy-Index"]) == (409, "1")
    assert call("PUT", C, 2).status == 202
    for bad in ("7", "x", "-1", "", "\xb2", "9" * 5000):
        assert call("PUT", C, 3, {"X-Backend-Storage-Policy-Index": bad}).status == 400
        assert call("PUT", f"{C}2", 3, {"X-Backend-Storage-Policy-Default": bad}).status == 400
    default = {"X-Backend-Storage-Policy-Default": "1"}
    made = call("PUT", "/d1/0/AUTH_test/other", 1, default)
    assert made.headers["X-Backend-Storage-Policy-Index"] == "1"


def test_a_missing_container(call: Caller) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE"):
        answer = call(method, C, 1)
        assert answer.status == 404
    assert call("HEAD", C).headers["X-Backend-Timestamp"] == "0000000000.00000"
    assert call("HEAD", C).headers["X-Backend-Storage-Policy-Index"] == "0"
    assert "X-Container-Object-Count" not in call("HEAD", C).headers


def test_delete_and_put_again(call: Caller, container: str) -> None:
    assert call("DELETE", C, 3).status == 204
    gone = call("HEAD", C)
    assert gone.status == 404
    assert gone.headers["X-Backend-DELETE-Timestamp"] == stamp(3)
    assert gone.headers["X-Backend-Status-Changed-At"] == stamp(3)
    assert "X-PUT-Timestamp" not in gone.headers
    assert call("GET", C).status == call("POST", C, 4).status == 404
    assert call("DELETE", C, 4).status == 404
    assert call("PUT", C, 2).status == 409  # older than the deletion
    assert call("PUT", C, 4).status == 409  # the deletion was repeated at 4
    again = call("PUT", C, 5, {"X-Backend-Storage-Policy-Index": "1"})
    assert (again.status, again.headers["X-Backend-Storage-Policy-Index"]) == (201, "1")
    assert call("HEAD", C).headers["X-Backend-Status-Changed-At"] == stamp(5)


def test_delete_of_a_container_that_holds_something(call: Caller, container: str) -> None:
    call("UPDATE", C, 2, body=[item("o", 2)])
    assert call("DELETE", C, 3).status == 409
    call("UPDATE", C, 4, body=[item("o", 4, deleted=1, size=0)])
    assert call("DELETE", C, 5).status == 204


def test_delete_older_than_the_last_put(call: Caller, container: str) -> None:
    assert call("DELETE", C, 0.5).status == 409
    assert call("HEAD", C).status == 204


def test_an_object_that_comes_late_brings_the_container_back(call: Caller, container: str) -> None:
    """It was written while the container lived; the object may not be lost from sight."""
    call("DELETE", C, 3)
    assert call("UPDATE", C, 4, body=[item("late", 2)]).status == 202
    assert names(call) == ["late"]


def test_metadata(call: Caller, container: str) -> None:
    headers = {
        "X-Container-Meta-Color": "blue",
        "X-Container-Read": ".r:*",
        "X-Container-Sysmeta-A": "1",
        "X-Container-Meta-Snow": "\xe2\x98\x83",
        "X-Container-Sync-To": "http://127.0.0.1/v1/a/c",
    }
    assert call("POST", C, 2, headers).status == 204
    for answer in (call("HEAD", C), call("GET", C)):
        assert {k: v for k, v in answer.headers.items() if k in headers} == headers
    # An older value does not win, in whatever order they come.
    call("PUT", C, 1.5, {"X-Container-Meta-Color": "red"})
    assert call("HEAD", C).headers["X-Container-Meta-Color"] == "blue"
    call("POST", C, 3, {"X-Container-Meta-Color": "", "X-Remove-Container-Read": "x"})
    head = call("HEAD", C)
    assert "X-Container-Meta-Color" not in head.headers
    assert "X-Container-Read" not in head.headers
    assert head.headers["X-Container-Sysmeta-A"] == "1"
    assert head.headers["X-PUT-Timestamp"] == stamp(3)
    call("POST", C, 9, {"X-Backend-No-Timestamp-Update": "true"})
    assert call("HEAD", C).headers["X-PUT-Timestamp"] == stamp(3)


def test_metadata_limits(call: Caller, container: str) -> None:
    three = {f"X-Container-Meta-{n}": "v" for n in "ABC"}
    assert call("POST", C, 2, three).status == 204
    assert call("POST", C, 3, {"X-Container-Meta-D": "v"}).status == 400
    assert call("PUT", C, 3, {"X-Container-Meta-D": "v"}).status == 400
    assert call("PUT", "/d1/0/a/new", 3, {**three, "X-Container-Meta-D": "v"}).status == 400
    assert call("HEAD", "/d1/0/a/new").status == 404
    assert call("POST", C, 4, {"X-Container-Meta-D": "v", "X-Container-Meta-A": ""}).status == 204
    assert call("POST", C, 5, {"X-Container-Meta-A": "\xff"}).status == 400


def test_deletion_clears_metadata(call: Caller, container: str) -> None:
    call("POST", C, 2, {"X-Container-Meta-Color": "blue"})
    call("DELETE", C, 3)
    call("PUT", C, 4)
    assert "X-Container-Meta-Color" not in call("HEAD", C).headers


# -- rows


def test_single_rows(call: Caller, container: str) -> None:
    headers = {"X-Size": "5", "X-Content-Type": "text/plain", "X-Etag": "e"}
    assert call("PUT", f"{C}/dir/o%20%E2%98%83", 2, headers).status == 201
    (entry,) = call("GET", f"{C}?format=json").json()
    assert entry == {
        "bytes": 5,
        "hash": "e",
        "name": "dir/o ☃",
        "content_type": "text/plain",
        "last_modified": "2026-11-21T01:11:42.000000",
    }
    posted = {**headers, "X-Content-Type": "b/b", "X-Content-Type-Timestamp": stamp(4)}
    assert call("PUT", f"{C}/dir/o%20%E2%98%83", 2, posted).status == 201
    (entry,) = call("GET", f"{C}?format=json").json()
    assert (entry["content_type"], entry["last_modified"][-9:]) == ("b/b", "44.000000")
    assert call("DELETE", f"{C}/dir/o%20%E2%98%83", 5).status == 204
    assert call("HEAD", C).headers["X-Container-Object-Count"] == "0"


@pytest.mark.parametrize("missing", ["X-Size", "X-Content-Type", "X-Etag"])
def test_a_row_needs_its_headers(call: Caller, container: str, missing: str) -> None:
    headers = {"X-Size": "5", "X-Content-Type": "text/plain", "X-Etag": "e"}
    del headers[missing]
    assert call("PUT", f"{C}/o", 2, headers).status == 400
    assert call("PUT", f"{C}/o", 2, {**headers, "X-Size": "-1"}).status == 400
    assert names(call) == []


def test_update_takes_a_batch(call: Caller, container: str) -> None:
    assert call("UPDATE", C, 2, body=[item("b", 2), item("a", 2), item("c", 2, 7)]).status == 202
    assert call("UPDATE", C, 2, body=[]).status == 202
    assert names(call) == ["a", "b", "c"]
    head = call("HEAD", C)
    assert head.headers["X-Container-Object-Count"] == "3"
    assert head.headers["X-Container-Bytes-Used"] == "17"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"\xff",
        b"[1]",
        b'[{"name": "x"}]',
        b"[" * 100_000,
        [item("good", 2), item("", 2)],
        [item("good", 2), item("bad", 2, size=-1)],
        [item("good", 2), item("nul\x00", 2)],
        [item("good", 2), item("\ud800", 2)],
    ],
)
def test_a_bad_batch_is_refused_whole(call: Caller, container: str, body: Any) -> None:
    assert call("UPDATE", C, 2, body=body).status == 400
    assert names(call) == []
    assert call("UPDATE", C, 2, body=[item("next", 2)]).status == 202


def test_a_batch_that_ends_early_or_is_too_large(
    call: Caller, container: str, server: ContainerServer
) -> None:
    assert call("UPDATE", C, 2, {"Content-Length": "999"}, [item("a", 2)]).status == 400
    assert call("UPDATE", C, 2, {"Content-Length": "x"}, [item("a", 2)]).status == 400
    server._max_update_bytes = 500
    assert call("UPDATE", C, 2, body=[item("a", 2)] * 10).status == 413
    assert names(call) == []


def test_rows_of_a_missing_container(call: Caller) -> None:
    headers = {"X-Size": "5", "X-Content-Type": "text/plain", "X-Etag": "e"}
    assert call("UPDATE", C, 2, body=[item("a", 2)]).status == 404
    assert call("PUT", f"{C}/o", 2, headers).status == 404
    assert call("DELETE", f"{C}/o", 2).status == 404
    assert call("HEAD", C).status == 404


def test_some_containers_create_themselves(call: Caller) -> None:
    headers = {"X-Size": "5", "X-Content-Type": "text/plain", "X-Etag": "e"}
    silver = {"X-Backend-Storage-Policy-Index": "1"}
    path = "/d1/0/.expiring/c"
    assert call("UPDATE", path, 2, body=[item("a", 2)]).status == 400  # of which policy?
    assert call("UPDATE", path, 2, silver, [item("a", 2, storage_policy_index=1)]).status == 202
    assert names(call, path=path) == ["a"]
    assert call("PUT", "/d1/0/.expiring/c2/o", 2, headers).status == 201
    assert call("DELETE", "/d1/0/.expiring/c3/o", 2).status == 204
    assert call("PUT", "/d1/0/.shards_a/c/o", 2, headers).status == 404
    asked = {**headers, "X-Backend-Auto-Create": "true"}
    assert call("PUT", f"{C}/o", 2, asked).status == 201
    refused = {**headers, "X-Backend-Auto-Create": "false"}
    assert call("PUT", "/d1/0/.expiring/c4/o", 2, refused).status == 404


# -- listings


@pytest.fixture
def full(call: Caller, container: str) -> None:
    objects = ["a", "b/1", "b/2", "b/c/3", "d", "☃"]
    call("UPDATE", C, 2, body=[item(name, 2) for name in objects])
    call("UPDATE", C, 2, body=[item("other", 2, storage_policy_index=1)])


def test_listing_parameters(call: Caller, full: None) -> None:
    assert names(call) == ["a", "b/1", "b/2", "b/c/3", "d", "☃"]
    assert names(call, "delimiter=/") == ["a", "+b/", "d", "☃"]
    assert names(call, "delimiter=/c/") == ["a", "b/1", "b/2", "+b/c/", "d", "☃"]
    assert names(call, "prefix=b/&delimiter=/") == ["b/1", "b/2", "+b/c/"]
    assert names(call, "path=b") == ["b/1", "b/2"]
    assert names(call, "path=") == ["a", "d", "☃"]
    assert names(call, "marker=b/2&end_marker=%E2%98%83") == ["b/c/3", "d"]
    assert names(call, "reverse=true&marker=d&delimiter=/") == ["+b/", "a"]
    assert names(call, "limit=2") == ["a", "b/1"]
    assert names(call, "limit=0") == []
    assert names(call, "limit=x") == names(call)
    assert names(call, "limit=50") == names(call)
    for limit in ("51", "9" * 30):
        assert call("GET", f"{C}?limit={limit}").status == 412
    assert call("GET", f"{C}?prefix=%FF").status == 400
    record_type = call("GET", C).headers["X-Backend-Record-Type"]
    assert record_type == "object"


def test_listing_of_another_policy(call: Caller, full: None) -> None:
    answer = call("GET", C, None, {"X-Backend-Storage-Policy-Index": "1"})
    assert answer.body == b"other\n"
    assert answer.headers["X-Backend-Record-Storage-Policy-Index"] == "1"
    assert answer.headers["X-Backend-Storage-Policy-Index"] == "0"


def test_listing_formats(call: Caller, full: None) -> None:
    plain = call("GET", f"{C}?delimiter=/")
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert plain.body == "a\nb/\nd\n☃\n".encode()
    for query, accept in (("&format=xml", ""), ("", "application/xml"), ("", "text/xml, */*;q=.1")):
        xml = call("GET", f"{C}?delimiter=/{query}", None, {"Accept": accept})
        assert xml.headers["Content-Type"].endswith("/xml; charset=utf-8")
        root = ElementTree.fromstring(xml.body)
        assert (root.tag, root.get("name")) == ("container", "c")
        assert [node.tag for node in root] == ["object", "subdir", "object", "object"]
        assert [node.findtext("name") for node in root] == ["a", "b/", "d", "☃"]
        assert root[0].findtext("bytes") == "5"
    assert call("GET", C, None, {"Accept": "application/json"}).json()[0]["name"] == "a"
    assert call("GET", C, None, {"Accept": "image/png"}).status == 406
    assert call("GET", C, None, {"Accept": "bad"}).status == 400
    assert call("HEAD", f"{C}?format=json").headers["Content-Type"].startswith("application/json")


def test_an_empty_listing(call: Caller, container: str) -> None:
    assert call("GET", C).status == 204
    assert call("GET", f"{C}?format=json").body == b"[]"
    assert ElementTree.fromstring(call("GET", f"{C}?format=xml").body).tag == "container"


def test_swift_bytes_stand_for_the_size(call: Caller, container: str) -> None:
    call("UPDATE", C, 2, body=[item("slo", 2, content_type="a/b;charset=x;swift_bytes=999")])
    (entry,) = call("GET", f"{C}?format=json").json()
    assert (entry["bytes"], entry["content_type"]) == (999, "a/b;charset=x")
    assert call("HEAD", C).headers["X-Container-Bytes-Used"] == "5"


def test_swift_bytes_that_are_no_size_are_ignored(call: Caller, container: str) -> None:
    for number, value in enumerate(("9" * 5000, "x", "-1")):
        row = item(f"o{number}", 2, content_type=f"a/b;swift_bytes={value}")
        assert call("UPDATE", C, 2, body=[row]).status == 202
    assert [e["bytes"] for e in call("GET", f"{C}?format=json").json()] == [5, 5, 5]


def test_a_container_without_shards_has_no_shard_ranges(call: Caller, full: None) -> None:
    headers = {"X-Backend-Record-Type": "shard"}
    answer = call("GET", f"{C}?format=json", None, headers)
    assert answer.json() == []
    assert answer.headers["X-Backend-Record-Type"] == "shard"
    assert len(call("GET", f"{C}?format=json", None, {"X-Backend-Record-Type": "auto"}).json()) == 6


# -- bad input, bad devices


@pytest.mark.parametrize("path", ["/", "/d1", "/d1/0/a", "/d1/x/a/c", "/d1/../a/c", "/d1//a/c"])
def test_bad_paths(call: Caller, path: str) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "UPDATE"):
        assert call(method, path, 1).status == 400


@pytest.mark.parametrize(
    "path", ["/d1/0/a/%FF", "/d1/0/a/%00", "/d1/0/a/c/o%00", "/d1/0/a/%ED%A0%80"]
)
def test_names_that_are_no_text(call: Caller, path: str) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "UPDATE"):
        assert call(method, path, 1).status == 412


@pytest.mark.parametrize("time", [None, "", "x", "-1", "1795223541.00001_x", "99999999999"])
def test_bad_timestamps(call: Caller, container: str, time: str | None) -> None:
    headers = {} if time is None else {"X-Timestamp": time}
    for method in ("PUT", "POST", "DELETE", "UPDATE"):
        assert call(method, C, None, headers, [item("a", 2)]).status == 400
        assert call(method, "/d1/0/.x/c", None, headers, [item("a", 2)]).status == 400


def test_methods(call: Caller) -> None:
    for method in ("PATCH", "SSYNC", "put", "__CALL__", "SPLIT"):
        answer = call(method, C, 1)
        assert answer.status == 405
        assert "UPDATE" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("device", "status"),
    [("d9", 507), ("..", 400), (".", 400), ("d1%2F..", 400), ("%C3%A4", 400), (".sweep.lock", 400)],
)
def test_missing_devices(call: Caller, device: str, status: int) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "UPDATE", "SNAPSHOT"):
        assert call(method, f"/{device}/0/a/c", 1, body=[]).status == status


@pytest.mark.parametrize("partition", ["-1", "007", "4294967296", "9" * 5000, "1.0", "..", "²"])
def test_partitions_that_no_ring_has(call: Caller, swift_dir: Path, partition: str) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "UPDATE", "SNAPSHOT"):
        assert call(method, f"/d1/{partition}/a/c", 1, body=[]).status == 400
    assert not (swift_dir / "devices/d1/containers").exists()


def test_a_device_that_is_not_mounted(swift_dir: Path) -> None:
    conf = {"swift_dir": str(swift_dir), "devices": str(swift_dir / "devices")}
    call = Caller(ContainerServer.from_conf(conf, {}))
    assert call("PUT", C, 1).status == 507
    assert not os.listdir(swift_dir / "devices" / "d1")


def test_a_full_device(swift_dir: Path) -> None:
    conf = {"swift_dir": str(swift_dir), "devices": str(swift_dir / "devices")}
    options = {"fallocate_reserve": "100%"}
    call = Caller(ContainerServer.from_conf({**conf, "mount_check": "no"}, options))
    for method in ("PUT", "POST", "UPDATE"):
        assert call(method, C, 1, body=[item("a", 1)]).status == 507
    assert call("GET", C).status == 404


def test_a_damaged_database(
    call: Caller, container: str, server: ContainerServer, swift_dir: Path
) -> None:
    """An error once, then a container that is not there: replicas have it. Never an empty one."""
    server.pool.close()
    (database,) = (swift_dir / "devices").glob("**/*.db")
    database.write_bytes(b"\0" * 8192)
    assert call("UPDATE", C, 2, body=[item("a", 2)]).status == 500
    assert call("UPDATE", C, 2, body=[item("a", 2)]).status == 404
    assert call("GET", C).status == 404
    assert len(list((swift_dir / "devices" / "d1" / "quarantined" / "containers").iterdir())) == 1
    assert call("PUT", C, 3).status == 201


def test_a_database_that_another_process_holds(
    call: Caller, container: str, swift_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.database.BUSY_SECONDS", 0.05)
    (path,) = (swift_dir / "devices").glob("**/*.db")
    call("POST", C, 2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE container_info SET status = status")
    assert call("HEAD", C).status == 204
    other.execute("ROLLBACK")
    other.close()
    assert call("UPDATE", C, 2, body=[item("a", 2)]).status == 202


def test_requests_go_on_after_an_unforeseen_error(
    call: Caller, container: str, server: ContainerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(req: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setitem(server.handlers, "HEAD", broken)
    answer = call("HEAD", C)
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert names(call) == []


def test_a_device_that_was_replaced_by_its_mount_point(
    call: Caller,
    container: str,
    server: ContainerServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("storage.device_check.SEEN_SECONDS", -1.0)
    device = Path(server.devices) / "d1"
    assert call("HEAD", container).status == 204
    away = device.rename(device.with_name("away"))
    device.mkdir()
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        assert call(method, container, 9).status == 507, method
    assert list(device.iterdir()) == []
    assert caplog.text.count("device cannot be used device=d1") == 1
    assert "was in use and has no martlet-device" in caplog.text
    device.rmdir()
    away.rename(device)
    assert call("HEAD", container).status == 204
    assert "device can be used again device=d1" in caplog.text


def test_another_disk_of_the_same_device_number_is_not_taken_for_the_device(
    call: Caller, container: str, server: ContainerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.device_check.SEEN_SECONDS", -1.0)
    marker = Path(server.devices) / "d1" / MARKER_NAME
    assert call("HEAD", container).status == 204
    own = marker.read_bytes()
    marker.write_bytes(own.replace(b"d1", b"d2"))  # the root of a file system has the same inode
    assert call("HEAD", container).status == 507
    marker.write_bytes(own)
    assert call("HEAD", container).status == 204


def test_each_request_and_each_error_can_be_found_by_its_transaction(
    call: Caller,
    server: ContainerServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    assert call("PUT", C, 1, {"X-Trans-Id": "tx1"}).status == 201
    assert f"request method=PUT path={C} status=201" in caplog.text
    assert caplog.text.count("trans_id=tx1") == 1

    def fail(error: Exception) -> None:
        raise error

    errors = [(OSError(5, "x"), 507), (KeyError("x"), 500), (DatabaseDamaged("x", "y"), 500)]
    for number, (error, status) in enumerate(errors, 2):
        monkeypatch.setitem(server.handlers, "GET", lambda req, error=error: fail(error))
        assert call("GET", C, headers={"X-Trans-Id": f"tx{number}"}).status == status
        lines = [r.getMessage() for r in caplog.records if f"trans_id=tx{number}" in r.getMessage()]
        assert len(lines) == 2
        assert lines[0].startswith(("device failed", "request failed", "database error"))
        assert lines[1].startswith("request method=GET")
    monkeypatch.setattr(server, "_requests_of_device_max", 0)
    assert call("HEAD", C, headers={"X-Trans-Id": "tx9"}).status == 529
    assert "status=529 seconds=0.0000 trans_id=tx9" in caplog.text


def test_a_device_without_room_is_one_line(
    call: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a file is to be moved to quarantine, say."""

    def info(self: ContainerDatabase) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ContainerDatabase, "info", info)
    assert call("HEAD", C, headers={"X-Trans-Id": "tx1"}).status == 507
    (record,) = [r for r in caplog.records if r.levelname != "INFO"]
    assert "No space left" in record.message
    assert "trans_id=tx1" in record.message
    assert record.exc_info is None
