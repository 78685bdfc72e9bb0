"""The container server over the grid: the requests of the backend protocol, and rows."""

from __future__ import annotations

import logging
import re
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from grid_calls import GridCaller
from storage_calls import Caller, stamp

from container.app import ContainerServer
from martlet.grid.errors import Code
from martlet.grid.handlers import HandlerError
from martlet.http.request import Request
from martlet.http.response import Response

PATH = "/AUTH_test/c"
C = f"/d1/0{PATH}"
NOT_ON_THE_GRID = {"content-length", "date", "connection"}


@pytest.fixture
def grid(server: ContainerServer) -> GridCaller:
    return GridCaller("container", server.grid_handlers())


@pytest.fixture
def container(call: Caller) -> str:
    assert call("PUT", C, 1).status == 201
    return C


def row(name: Any, time: float, *more: Any) -> list[Any]:
    return [name, stamp(time), 5, "text/plain", "e", 0, *more]


def update(rows: Any, **values: Any) -> list[Any]:
    """A payload; ``values`` replace its elements by their position in the name ``e3``."""
    payload = ["d1", 0, "AUTH_test", "c", 0, stamp(2), rows]
    for name, value in values.items():
        payload[int(name[1:])] = value
    return payload


def listing(call: Caller, path: str = C) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call("GET", f"{path}?format=json").json()
    return found


# -- requests of the backend protocol


def test_the_limits_of_filters_hold_for_the_grid(server: ContainerServer, container: str) -> None:
    left = {"GET": 1, "UPDATE": 1}

    def admits(device: str, method: str) -> bool:
        assert device == "d1"
        left[method] -= 1
        return left[method] >= 0

    grid = GridCaller("container", server.grid_handlers(admits))
    assert [grid("get", PATH, 3).status for _ in range(2)] == [204, 529]
    payload = update([row("o", 2)])
    assert [grid.send("update", payload).status for _ in range(2)] == [202, 529]


def test_each_method_answers_as_over_http(call: Caller, grid: GridCaller) -> None:
    meta = {"X-Container-Meta-Colour": "gr\u00c3\u00bcn"}  # the bytes of UTF-8
    steps: list[tuple[str, str, float | None, dict[str, str]]] = [
        ("PUT", "", 1, meta),
        ("PUT", "", 2, {}),
        ("POST", "", 3, {"X-Container-Meta-Size": "big"}),
        ("HEAD", "", None, {}),
        ("GET", "?format=json", None, {}),
        ("GET", "?limit=99", None, {}),
        ("GET", "", None, {}),
        ("DELETE", "", 4, {}),
        ("HEAD", "", None, {}),
        ("GET", "", None, {}),
        ("POST", "", 5, {}),
        ("POST", "", None, {}),
        ("PUT", "/o", 6, {}),
        ("PUT", "%2f", 6, {}),
    ]
    for method, rest, time, headers in steps:
        plain = call(method, f"/d1/0/AUTH_test/plain{rest}", time, headers)
        ours = grid(method.lower(), f"/AUTH_test/plain2{rest}", time, headers)
        assert ours.status == plain.status, (method, rest)
        expected = {k.lower(): v for k, v in plain.headers.items() if "timestamp" not in k.lower()}
        assert ours.body.replace(b"plain2", b"plain") == plain.body
        if method == "HEAD":
            assert ours.headers["content-length"] == plain.headers["Content-Length"]
        seen = {k: v for k, v in ours.headers.items() if "timestamp" not in k}
        for name in NOT_ON_THE_GRID:
            expected.pop(name, None)
            if method != "HEAD":
                assert name not in seen
        seen.pop("content-length", None)
        assert seen == expected, (method, rest)


def test_quoted_paths_and_bodies(call: Caller, grid: GridCaller, container: str) -> None:
    headers = {"X-Size": "5", "X-Content-Type": "a/b", "X-Etag": "e"}
    assert grid("put", f"{PATH}/%C3%A4%20%2fb?x=y", 2, headers).status == 201
    assert [entry["name"] for entry in listing(call)] == ["ä /b"]


def test_a_request_over_the_grid_has_a_body(server: ContainerServer, grid: GridCaller) -> None:
    seen: list[Any] = []

    def post(req: Request) -> Response:
        seen.extend((req.body_file.read(), req.content_length, req.environ["REMOTE_ADDR"]))
        return Response(200, body="é")

    server.handlers["POST"] = post
    assert grid("post", PATH, 1, body=b"some").body == "é".encode()
    assert seen == [b"some", 4, "10.0.0.7"]


GOOD = ["d1", 0, PATH, {"X-Timestamp": stamp(1)}, b""]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x95\x01",
        {},
        GOOD[:4],
        ["", *GOOD[1:]],
        ["d1/0", *GOOD[1:]],
        [b"d1", *GOOD[1:]],
        ["d1", -1, *GOOD[2:]],
        ["d1", 2**32, *GOOD[2:]],
        ["d1", "0", *GOOD[2:]],
        ["d1", True, *GOOD[2:]],
        ["d1", 0, "AUTH_test/c", {}, b""],
        ["d1", 0, "/AUTH_test/c d", {}, b""],
        ["d1", 0, "/AUTH_test/ä", {}, b""],
        ["d1", 0, "/AUTH_test/c\n", {}, b""],
        ["d1", 0, PATH, [], b""],
        ["d1", 0, PATH, [["X-A", "b"]], b""],
        ["d1", 0, PATH, {1: "b"}, b""],
        ["d1", 0, PATH, {"": "b"}, b""],
        ["d1", 0, PATH, {"X A": "b"}, b""],
        ["d1", 0, PATH, {"X:A": "b"}, b""],
        ["d1", 0, PATH, {"X-Ā": "b"}, b""],
        ["d1", 0, PATH, {"X_A": "b"}, b""],
        ["d1", 0, PATH, {"X-A": "a", "x-a": "b"}, b""],
        ["d1", 0, PATH, {"Content-Length": "0"}, b""],
        ["d1", 0, PATH, {"host": "b"}, b""],
        ["d1", 0, PATH, {"X-A": "b\n"}, b""],
        ["d1", 0, PATH, {"X-A": "b\x7f"}, b""],
        ["d1", 0, PATH, {"X-A": "Ā"}, b""],
        ["d1", 0, PATH, {"X-A": " b"}, b""],
        ["d1", 0, PATH, {"X-A": "b\t"}, b""],
        ["d1", 0, PATH, {"X-A": 1}, b""],
        ["d1", 0, PATH, {"X-A": "b"}, "text"],
        ["d1", 0, PATH, {"X-A": "b"}, None],
    ],
    ids=repr,
)
def test_a_wrong_payload_is_refused(call: Caller, grid: GridCaller, payload: Any) -> None:
    with pytest.raises(HandlerError) as caught:
        grid.send("put", payload)
    assert caught.value.code == Code.BAD_PAYLOAD
    assert call("HEAD", C).status == 404


def test_a_header_that_is_twice_in_the_map_is_refused(grid: GridCaller) -> None:
    payload = msgpack.packb(GOOD).replace(b"\x81\xabX-Timestamp", b"\x82\xa1a\xa1b\xabX-Timestamp")
    assert grid.send("put", payload).status == 201
    twice = payload.replace(b"\x82\xa1a\xa1b", b"\x82\xabX-Timestamp\xa1b")
    with pytest.raises(HandlerError, match="twice"):
        grid.send("put", twice)


def test_added_elements_and_names_in_utf_8_are_taken(call: Caller, grid: GridCaller) -> None:
    name = "X-Container-Meta-Gr\u00c3\u00b6\u00c3\u009fe"  # the bytes of UTF-8
    headers = {"X-Timestamp": stamp(1), name: "\u00c3\u00a4\t ~"}
    assert grid.send("put", ["d1", 0, PATH, headers, b"", None, {"more": []}]).status == 201
    assert call("HEAD", C).headers[name] == "\u00c3\u00a4\t ~"


def test_an_answer_too_large_for_the_peer(grid: GridCaller, container: str) -> None:
    whole = len(grid.handle("get", msgpack.packb(["d1", 0, PATH, {}, b""])))
    grid.max_payload = whole
    assert grid("get", PATH).status == 204
    grid.max_payload = whole - 1
    with pytest.raises(HandlerError) as caught:
        grid("get", PATH)
    assert caught.value.code == Code.TOO_LARGE


def test_a_copy_of_a_database_is_not_on_the_grid(server: ContainerServer) -> None:
    methods = {"put", "get", "head", "post", "delete", "update"}
    assert set(server.grid_handlers()) == {f"container.{method}" for method in methods}


def test_the_limit_of_requests_of_a_device_is_the_one_of_http(
    server: ContainerServer, call: Caller, grid: GridCaller, container: str
) -> None:
    inner: list[int] = []

    def head(req: Request) -> Response:
        inner.append(grid("get", PATH).status)
        inner.append(grid.send("update", update([row("o", 2)])).status)
        inner.append(call("GET", C).status)
        return Response(204)

    server.handlers["HEAD"] = head
    server._requests_of_device_max = 1
    assert grid("head", PATH).status == 204
    assert inner == [529] * 3
    assert grid("get", PATH).status == 204


# -- rows


@pytest.mark.parametrize("count", [1, 3, 4, 40])
def test_rows_are_merged_as_over_http(call: Caller, grid: GridCaller, count: int) -> None:
    others = [row("typed", 2, stamp(3)), row("meta", 2, None, stamp(4)), row("plain", 2, None)]
    rows = [[*row(f"o{n}", 2)[:5], n % 2] for n in range(count)] + others[: count - 1]
    names = ("name", "created_at", "size", "content_type", "etag", "deleted")
    times = ("ctype_timestamp", "meta_timestamp")
    items = [dict(zip((*names, *times), one, strict=False)) for one in rows]
    for path in ("c", "d"):
        assert call("PUT", f"/d1/0/AUTH_test/{path}", 1).status == 201
    assert call("UPDATE", C, 2, body=items).status == 202
    answer = grid.send("update", update(rows, e3="d"))
    assert (answer.status, len(answer.headers), answer.body) == (202, 0, b"")
    assert listing(call) == listing(call, "/d1/0/AUTH_test/d")
    assert len(listing(call)) >= count // 2


def test_versions_and_policies_of_rows(call: Caller, grid: GridCaller, container: str) -> None:
    rows = [row("v", 2, None, None, stamp(2)), row("p", 2, None, None, None, 1, "added later")]
    assert grid.send("update", update(rows)).status == 202
    silver = {"X-Backend-Storage-Policy-Index": "1"}
    found = call("GET", f"{C}?format=json", headers=silver).json()
    assert [entry["name"] for entry in found] == ["p"]
    versions = call("GET", f"{C}?format=json&versions=").json()
    assert [entry["version_id"] for entry in versions] == [stamp(2)]
    assert grid.send("update", update([row("q", 2)] * 4, e4=1)).status == 202
    found = call("GET", f"{C}?format=json", headers=silver).json()
    assert [entry["name"] for entry in found] == ["p", "q"]


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, ""),
        (0, "\x00"),
        (0, 1),
        (0, b"o"),
        (1, "yesterday"),
        (1, 1),
        (2, -1),
        (2, 2**63),
        (2, 1.0),
        (2, True),
        (3, None),
        (3, "\x00"),
        (4, "\x00"),
        (4, 1),
        (5, 2),
        (5, -1),
        (5, None),
    ],
)
def test_a_wrong_row_is_answered_with_400(
    call: Caller, grid: GridCaller, container: str, count: int, position: int, value: Any
) -> None:
    wrong = row("wrong", 2)
    wrong[position] = value
    rows = [*(row(f"o{n}", 2) for n in range(count)), wrong]
    assert grid.send("update", update(rows)).status == 400
    assert listing(call) == []


def test_rows_of_another_form_are_answered_with_400(grid: GridCaller, container: str) -> None:
    for wrong in (row("o", 2)[:5], {}, None, [*row("o", 2), 1], [*row("o", 2), None, None, "x"]):
        assert grid.send("update", update([wrong])).status == 400
        assert grid.send("update", update([row("o", 2)] * 5 + [wrong])).status == 400
    assert grid.send("update", update([row("o", 2)], e4=-1)).status == 400
    assert grid.send("update", update([row("o", 2)], e5="soon")).status == 400


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        update([row("o", 2)])[:6],
        update([]),
        update({}),
        update([row("o", 2)], e0=""),
        update([row("o", 2)], e1="0"),
        update([row("o", 2)], e2=b"AUTH_test"),
        update([row("o", 2)], e3=None),
        update([row("o", 2)], e4="0"),
        update([row("o", 2)], e5=2),
    ],
    ids=repr,
)
def test_a_wrong_update_is_refused(
    call: Caller, grid: GridCaller, container: str, payload: Any
) -> None:
    with pytest.raises(HandlerError) as caught:
        grid.send("update", payload)
    assert caught.value.code == Code.BAD_PAYLOAD
    assert listing(call) == []


def test_answers_to_updates(server: ContainerServer, call: Caller, grid: GridCaller) -> None:
    rows = [row("o", 2)]

    def status(**values: Any) -> int:
        return grid.send("update", update(rows, **values)).status

    assert status() == 404  # no such container
    assert status(e0="d9") == 507
    assert status(e0="..") == 400
    assert status(e2="") == 400
    assert status(e3="a/b") == 400
    assert status(e3="a\x00") == 412
    assert status(e2=".expiring", e4=7) == 400  # no such policy
    assert status(e2=".expiring", e4=1) == 202  # a container that is created by its rows
    head = call("HEAD", "/d1/0/.expiring/c")
    assert head.headers["X-Backend-Storage-Policy-Index"] == "1"
    assert head.headers["X-PUT-Timestamp"] == stamp(2)
    server._max_update_bytes = 20
    assert status() == 413


def test_the_line_in_the_log_is_the_same(
    call: Caller, grid: GridCaller, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = "/d1/0/AUTH_test/ä"
    assert call("PUT", "/d1/0/AUTH_test/%C3%A4", 1).status == 201
    assert grid("put", "/AUTH_test/%C3%A4", 1, {"X-Trans-Id": "tx7"}).status == 202
    assert call("UPDATE", "/d1/0/AUTH_test/%C3%A4", 2, body=[]).status == 202
    assert grid.send("update", update([row("o", 2)], e3="ä")).status == 202
    lines = [re.sub(r" seconds=\S+", "", line) for line in caplog.messages if "request" in line]
    wsgi = path.encode().decode("latin-1")
    assert lines == [
        f"request method=PUT path={wsgi} status=201",
        f"request method=PUT path={wsgi} status=202 trans_id=tx7",
        f"request method=UPDATE path={wsgi} status=202",
        f"request method=UPDATE path={wsgi} status=202",
    ]
