"""Requests to storage servers over the grid, and those that HTTP has to carry."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import GARBAGE, HANG_UP, LOSE_ANSWER, SILENT, FakeDevice, Seen
from fake_grid import FakeGrid
from patience import patiently

from martlet.grid.errors import Code
from martlet.grid.handlers import GridCall, HandlerError
from martlet.grid.options import Options
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import ConnectTimeout, ReadTimeout
from proxy.controllers.object_put import ONE_MESSAGE_BYTES_MAX
from proxy.replicas import grid_servers
from proxy.replicas.backends import BackendRequest
from proxy.replicas.grid_messages import is_server_error, unpack_answer
from proxy.replicas.grid_requests import GridRequests

LARGE = b"x" * (ONE_MESSAGE_BYTES_MAX + 1)


def names(device: FakeDevice) -> list[str]:
    """The requests that came over the grid."""
    return [call.name for call in device.grid_calls]


def refuse(device: FakeDevice, code: Code, *refused: str, has_run: bool = False) -> None:
    """Requests of these names end with an error of that code, before or after they ran."""
    assert device.grid is not None
    serve = device.grid._serve

    def serve_or_refuse(call: GridCall, *request: Any) -> Any:
        if call.name in refused:
            if has_run:
                serve(call, *request)
            else:
                device.grid_calls.append(call)
            raise HandlerError(code, "the test refuses it")
        return serve(call, *request)

    device.grid._serve = serve_or_refuse


def is_about_object(seen: Seen) -> bool:
    return seen.path.count("/") > 4


def test_small_requests_need_no_http(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"data", {"X-Object-Meta-A": "\u00e9"})
    cluster.call("POST", "/v1/a/c/o", headers={"X-Object-Meta-A": "2"})
    assert cluster.call("GET", "/v1/a/c/o").body == b"data"
    assert cluster.call("HEAD", "/v1/a/c/o").headers["content-length"] == "4"
    cluster.call("DELETE", "/v1/a/c/o")
    for method in ("POST", "GET", "HEAD"):
        cluster.call(method, "/v1/a/c")
        cluster.call(method, "/v1/a")
    cluster.call("PUT", "/v1/a/c2")
    for device in cluster.devices:
        assert len(device.seen) == len(device.grid_calls)
        assert device.upgrades == 1
    seen = {name for device in cluster.devices for name in names(device)}
    assert {f"object.{method}" for method in ("put", "post", "get", "head", "delete")} <= seen
    assert {"container.put", "container.post", "container.get", "account.get"} <= seen


def test_large_bodies_go_by_http(cluster: FakeCluster) -> None:
    assert cluster.call("PUT", "/v1/a/c/o", LARGE).status == 201
    assert "object.put" not in [name for device in cluster.devices for name in names(device)]
    cluster.forget()
    assert cluster.call("GET", "/v1/a/c/o").body == LARGE
    seen = [[s.method for s in d.seen if is_about_object(s)] for d in cluster.devices]
    assert sorted(seen) == [[], [], [], ["GET", "GET"]]  # the first answer left it out


def test_a_server_without_a_grid_is_asked_for_it_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = cluster.devices[0]
    monkeypatch.setattr("martlet.grid.client._BACKOFF_SECONDS_MIN", 0.0)
    device.grid, device.upgrades = None, 0
    device.hang_up_all()
    for number in range(5):
        assert cluster.call("PUT", f"/v1/a/c/o{number}", b"data").status == 201
    assert device.upgrades == 1
    assert device.methods().count("PUT") == 5
    assert "object.put" not in names(device)
    assert cluster.app.core.backends.health.troubles == {}
    soon = time.monotonic() + grid_servers.PLAIN_SECONDS + 1
    monkeypatch.setattr(cluster.app.core.backends.grid, "_clock", lambda: soon)
    cluster.call("PUT", "/v1/a/c/o", b"data")
    assert device.upgrades == 2


def test_a_name_that_a_server_does_not_know_goes_by_http(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    device.grid = FakeGrid(device._serve_over_grid, frozenset({"object.put"}))
    device.hang_up_all()
    for _ in range(3):
        assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
        assert cluster.call("POST", "/v1/a/c/o").status == 202
    assert set(names(device)[-3:]) == {"object.put"}
    assert device.methods().count("POST") == 3
    assert cluster.app.core.backends.health.troubles == {}


@pytest.mark.parametrize("code", [Code.TOO_LARGE, Code.BAD_PAYLOAD])
def test_what_does_not_fit_goes_by_http_once(cluster: FakeCluster, code: Code) -> None:
    for device in cluster.devices:
        refuse(device, code, "container.get", "object.put")
    cluster.forget()
    for number in range(1, 3):
        assert cluster.call("GET", "/v1/a/c").body.startswith(b"[")
        assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
        assert names(cluster.devices[0]).count("object.put") == number
        assert cluster.devices[0].methods().count("PUT") == number
    assert cluster.app.core.backends.health.troubles == {}


def test_servers_of_plain_http_are_never_asked_for_a_grid(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.app.core.backends.grid._plain_http = PlainHttp(["127.0.0.0/8"])
    cluster.make_container()
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert [device.upgrades for device in cluster.devices] == [0, 0, 0, 0]


def test_a_server_with_another_secret_has_failed(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    assert device.grid is not None
    device.grid.server.secrets = Secrets.parse("another secret, which the proxy does not know")
    device.hang_up_all()
    cluster.forget()
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]
    assert device.seen == []  # no request without the proof
    assert cluster.app.core.backends.health.trouble_count(device.node) > 0


def test_a_busy_server_is_doubted_and_another_takes_the_write(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    refuse(device, Code.BUSY, "object.put")
    for _ in range(15):
        assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]
    health = cluster.app.core.backends.health
    assert health.is_doubted(device.node)
    assert not health.is_suppressed(device.node)


def test_more_requests_than_a_connection_takes_go_by_http(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    for device in cluster.devices:
        assert device.grid is not None
        device.grid.server.options = Options(max_requests=1)
    cluster.make_container()
    began = threading.Barrier(2 * 3)

    def wait(seen: Seen) -> None:  # both objects are in flight at all devices
        if is_about_object(seen):
            began.wait(30)

    for device in cluster.devices:
        device.fault = wait
    assert put_many(cluster, 2) == [201, 201]
    assert cluster.holders("/a/c/0") == cluster.holders("/a/c/1") == ["sd0", "sd1", "sd2"]
    assert [names(device).count("object.put") for device in cluster.devices] == [1, 1, 1, 0]
    assert cluster.app.core.backends.health.troubles == {}


def test_a_lost_request_is_sent_once_more_and_says_so(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    faults = [LOSE_ANSWER]
    device.fault = lambda seen: faults.pop() if seen.method == "PUT" and faults else None
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert [call.is_resent for call in device.grid_calls if call.name == "object.put"] == [
        False,
        True,
    ]
    assert cluster.holders("/a/c/o") == ["sd0", "sd1", "sd2"]
    assert cluster.app.core.backends.health.troubles == {}


def test_a_lost_request_may_go_by_http_then(cluster: FakeCluster) -> None:
    """The write finds its own timestamp, which is no newer write of another client."""
    device = cluster.devices[0]

    def lose(seen: Seen) -> str | None:
        if seen.method != "PUT" or device.grid is None:
            return None
        device.grid = None
        return LOSE_ANSWER

    device.fault = lose
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    # The device may have crashed before it told the container, so the proxy does that, too.
    puts = [seen for seen in device.seen if seen.method == "PUT"]
    assert ["x-size" in seen.headers for seen in puts] == [False, False, True]


def test_a_write_whose_answer_is_too_large_finds_itself_done(cluster: FakeCluster) -> None:
    """HTTP carries it again, and the devices answer that it is there."""
    for device in cluster.devices:
        refuse(device, Code.TOO_LARGE, "object.put", has_run=True)
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert [names(device).count("object.put") for device in cluster.devices] == [1, 1, 1, 0]
    for device in cluster.devices[:3]:  # the proxy writes the row, too, as after a lost answer
        puts = [seen for seen in device.seen if seen.method == "PUT"]
        assert ["x-size" in seen.headers for seen in puts] == [False, False, True]
    assert cluster.app.core.backends.health.troubles == {}


def test_a_request_that_loses_two_connections_fails(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    device.fault = HANG_UP
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert names(device).count("object.put") == 2
    assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]


def test_a_refusal_for_want_of_a_proof_is_no_answer_to_the_client(
    make_cluster: MakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = make_cluster()
    for device in cluster.devices:
        device.grid = None
    cluster.make_container()
    for device in cluster.devices:
        device.fault = 403
        device.fault_headers = {"X-Grid-Refused": "unproved"}
    for method, body in (("PUT", b"x" * 100_000), ("GET", b""), ("DELETE", b"")):
        assert cluster.call(method, "/v1/a/c/o", body).status == 503
    assert "demands a proof of the cluster's secret: set grid_secret" in caplog.text


def test_a_server_that_goes_away_loses_nothing(cluster: FakeCluster) -> None:
    for number in range(4):
        for device in cluster.devices:
            assert device.grid is not None
            device.grid.server.drain()
        assert cluster.call("PUT", f"/v1/a/c/o{number}", b"data").status == 201
        assert cluster.holders(f"/a/c/o{number}") == ["sd0", "sd1", "sd2"]
    assert cluster.app.core.backends.health.troubles == {}


@pytest.mark.parametrize("others_have_grid", [True, False])
def test_a_late_write_is_cancelled_and_its_device_doubted(
    make_cluster: MakeCluster, others_have_grid: bool
) -> None:
    cluster = make_cluster(post_quorum_timeout=0.2)
    if not others_have_grid:
        for other in cluster.devices[1:]:
            other.grid = None
    cluster.make_container()
    device = cluster.devices[0]
    device.fault = lambda seen: SILENT if is_about_object(seen) else None
    began = time.monotonic()
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    assert time.monotonic() - began < 10
    assert cluster.app.core.backends.health.is_doubted(device.node)
    while not device.grid_calls[-1].is_cancelled:
        assert time.monotonic() - began < 20
        time.sleep(0.01)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_no_request_waits_longer_than_its_deadline(make_cluster: MakeCluster, method: str) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(node_timeout=timeout, post_quorum_timeout=200.0)
        cluster.make_container()
        for device in cluster.devices:
            device.fault = lambda seen: SILENT if is_about_object(seen) else None
        began = time.monotonic()
        assert cluster.call(method, "/v1/a/c/o", b"").status == 503
        assert time.monotonic() - began < 10 + 4 * timeout
        for device in cluster.devices[:3]:
            assert cluster.app.core.backends.health.trouble_count(device.node) > 0

    patiently(attempt)


def test_a_server_that_does_not_run_is_avoided_at_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal is forgotten after a second, in which a busy machine does not write so often.
    monkeypatch.setattr(cluster.app.core.backends.health, "_clock", lambda: 1000.0)
    device = cluster.devices[0]
    device.stop()
    for number in range(20):
        assert cluster.call("PUT", f"/v1/a/c/o{number}", b"data").status == 201
    assert cluster.app.core.backends.health.is_suppressed(device.node)
    assert caplog.text.count("event=backend_refuses") == 1


def test_the_thread_of_a_write_wakes_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    wait = GridRequests.wait

    def count(self: GridRequests, until: float = math.inf) -> Any:
        waits.append(len(self.pending))
        return wait(self, until)

    cluster.call("PUT", "/v1/a/c/o", b"data")
    monkeypatch.setattr(GridRequests, "wait", count)
    cluster.call("PUT", "/v1/a/c/o", b"data")
    assert waits == [1, 1, 3]  # HEAD of the account, HEAD of the container, PUT


def put_many(cluster: FakeCluster, count: int) -> list[int]:
    """PUT /v1/a/c/N of so many objects at once; the statuses."""
    statuses = [0] * count

    def put(number: int) -> None:
        statuses[number] = cluster.call("PUT", f"/v1/a/c/{number}", b"%d" % number).status

    threads = [threading.Thread(target=put, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


@pytest.mark.parametrize("fault", [507, 500, HANG_UP, GARBAGE])
def test_handoffs_take_the_place_of_a_device(cluster: FakeCluster, fault: Any) -> None:
    cluster.devices[1].fault = lambda seen: fault if is_about_object(seen) else None
    assert put_many(cluster, 40) == [201] * 40
    for number in range(40):
        assert cluster.holders(f"/a/c/{number}") == ["sd0", "sd2", "sd3"]
        assert cluster.devices[0].stored[f"/a/c/{number}"].body == b"%d" % number
    if isinstance(fault, int):
        assert cluster.app.core.backends.health.is_suppressed(cluster.devices[1].node)


def test_a_failed_device_is_replaced_before_a_late_one_answers(cluster: FakeCluster) -> None:
    full, late, _, handoff = cluster.devices
    full.fault = lambda seen: 507 if is_about_object(seen) else None
    late.fault = lambda seen: SILENT if is_about_object(seen) else None
    thread = threading.Thread(target=put_many, args=(cluster, 1))
    began = time.monotonic()
    thread.start()
    while "/a/c/0" not in handoff.stored:
        assert time.monotonic() - began < 8  # the proxy waits 10 s for the late one
        time.sleep(0.01)
    late.release.set()
    thread.join()


@pytest.mark.parametrize("status", [200, 201, 206, 255, 256, 304, 404, 499, 500, 503, 507, 599])
def test_a_server_error_is_known_by_its_first_bytes(status: int) -> None:
    assert is_server_error(msgpack.packb((status, {}, b""))) == (status >= 500)


def test_no_quorum_is_503_for_each(cluster: FakeCluster) -> None:
    for device in cluster.devices[1:]:
        device.fault = lambda seen: 507 if is_about_object(seen) else None
    assert put_many(cluster, 20) == [503] * 20


@pytest.mark.parametrize("has_grid", [True, False])
def test_a_silent_device_costs_no_more_than_the_straggler_time(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(devices=3, node_timeout=120.0, post_quorum_timeout=0.2)
    cluster.make_container()
    cluster.devices[2].fault = lambda seen: SILENT if seen.method == "PUT" else None
    started = time.monotonic()
    assert put_many(cluster, 40) == [201] * 40
    assert time.monotonic() - started < 60.0


def test_one_error_of_many_requests_is_one_failure(cluster: FakeCluster) -> None:
    backends = cluster.app.core.backends
    request = BackendRequest("Object", "PUT", 7, "/a/c/o", "tx", 1.0)
    first, second = (device.node for device in cluster.devices[:2])
    failed = ConnectTimeout((first["ip"], first["port"]), "no connection for 60 requests")
    for _ in range(60):
        backends.failed(first, request, failed)
        backends.failed(second, request, failed)
    assert not backends.health.is_suppressed(first)
    for _ in range(10):
        backends.failed(first, request, ReadTimeout(failed.address, "another one"))
    assert backends.health.is_suppressed(first)
    assert not backends.health.is_suppressed(second)


def test_no_thread_gets_the_answer_of_another(cluster: FakeCluster) -> None:
    wrong: list[object] = []

    def write_and_read(number: int) -> None:
        for turn in range(10):
            name, body = f"/v1/a/c/{number}-{turn}", b"%d of %d" % (turn, number)
            if cluster.call("PUT", name, body).status != 201:
                wrong.append(name)
            if cluster.call("GET", name).body != body:
                wrong.append(name)

    threads = [threading.Thread(target=write_and_read, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgpack.packb({}),
        msgpack.packb((200, {})),
        msgpack.packb(("200", {}, b"")),
        msgpack.packb((True, {}, b"")),
        msgpack.packb((99, {}, b"")),
        msgpack.packb((600, {}, b"")),
        msgpack.packb((200, [], b"")),
        msgpack.packb((200, {"a": 1}, b"")),
        msgpack.packb((200, {b"a": "b"}, b"")),
        msgpack.packb((200, {"a": "b\r\nc: d"}, b"")),
        msgpack.packb((200, {"a": "\u0100"}, b"")),
        msgpack.packb((200, {"a\x00": "b"}, b"")),
        msgpack.packb((200, {}, "text")),
        msgpack.packb((200, {}, b"")) + b"\x00",
        b"\x93\xcc\xc8\x81\xa1a\xa1\xff\xc4\x00",  # a header that is no UTF-8
    ],
)
def test_malformed_answers_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unpack_answer(payload, False)


def test_later_versions_may_add_to_an_answer() -> None:
    payload = msgpack.packb((200, {"a": "\u00ff\t"}, None, "more"))
    answer, is_left_out = unpack_answer(payload, True)
    assert (answer.status, answer.headers, answer.body) == (200, {"a": "\u00ff\t"}, b"")
    assert is_left_out
    assert answer.was_resent


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00", "\u0100"])
def test_no_header_gets_through_that_http_forbids(cluster: FakeCluster, value: str) -> None:
    cluster.forget()
    reply = cluster.call("PUT", "/v1/a/c/o", b"data", {"X-Object-Meta-A": value})
    assert reply.status == 400
    assert not any(is_about_object(seen) for device in cluster.devices for seen in device.seen)


def test_the_date_of_a_client_is_not_for_servers(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"data", {"Date": "Mon, 01 Jan 2024 00:00:00 GMT"})
    assert "date" not in cluster.devices[0].last("PUT").headers
