"""Small requests in one message: how they come together, and what each gets when some fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import (
    GARBAGE,
    HANG_UP,
    LOSE_ANSWER,
    SILENT,
    STALL_IN_ANSWER,
    FakeDevice,
    Seen,
)
from hypothesis import given
from hypothesis import strategies as st
from patience import patiently

import proxy.replicas.batch
from martlet.http.backend_client import (
    BackendClient,
    BackendResponse,
    BadResponse,
    ConnectionLost,
    ReadTimeout,
)
from martlet.http.environ import IN_BATCHES
from proxy.replicas.backends import BackendRequest
from proxy.replicas.batch import MESSAGES_MAX, Batches, Part
from proxy.replicas.batch_answers import AnswerParser
from proxy.replicas.quorum import Answer

HEADERS = b"X-Timestamp: 1700000000.00000\r\nContent-Type: a/b\r\n"


class Sender:
    """Sends parts to a device. What is sent ``together`` is in one message."""

    def __init__(self, device: FakeDevice, timeout: float) -> None:
        self.device = device
        self.client = BackendClient(node_timeout=timeout)
        self.batches = Batches(self.client)
        self._timeout = timeout
        self._ended = threading.Semaphore(0)
        self._gate = threading.Event()
        self.fault: Any = None  # of the device
        device.fault = self._fault_of

    def send(self, name: str, body: bytes = b"x") -> Part:
        path = f"/{self.device.name}/7/a/c/{name}"
        address = ("127.0.0.1", self.device.port)
        part = Part(address, "PUT", path, HEADERS, body, self._timeout, self._note_end)
        self.batches.send(part)
        return part

    def _note_end(self, part: Part) -> None:
        self._ended.release()

    def await_ends(self, count: int) -> None:
        for _ in range(count):
            assert self._ended.acquire(timeout=60)

    def hold(self) -> None:
        """From now on the device is busy, until ``let_go``: what is sent meanwhile gathers."""
        self._gate.clear()
        seen = len(self.device.seen)
        for number in range(MESSAGES_MAX):
            self.send(f"held-{number}")
            while len(self.device.seen) == seen + number:  # one message each
                time.sleep(0.001)

    def _fault_of(self, seen: Seen) -> Any:
        if "/held-" not in seen.path:
            return self.fault(seen) if callable(self.fault) else self.fault
        self._gate.wait(60)
        return None

    def let_go(self) -> None:
        self._gate.set()
        self.await_ends(MESSAGES_MAX)

    def together(self, *names: str) -> list[Part]:
        self.hold()
        parts = [self.send(name) for name in names]
        self.let_go()
        return parts

    def messages(self) -> list[int]:
        """The sizes of the batches that the device saw."""
        return [m.body.count(b"PUT /") for m in self.device.seen if m.method == "BATCH"]


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    monkeypatch.setattr(proxy.replicas.batch, "LATE_SECONDS", 100.0)
    monkeypatch.setattr(
        proxy.replicas.batch, "PATIENCE", 100.0
    )  # nothing is late unless a test says so
    device = FakeDevice(0)
    yield Sender(device, 100.0)  # longer than is waited for anything here
    device.stop()


def ends(parts: list[Part]) -> list[Any]:
    """Status or kind of error of each."""
    return [part.answer.status if part.answer else type(part.error) for part in parts]


def test_what_waits_goes_together_and_each_gets_its_own_answer(sender: Sender) -> None:
    sender.fault = lambda seen: 507 if seen.path.endswith("/b") else None
    parts = sender.together("a", "b", "c")
    sender.await_ends(3)
    assert ends(parts) == [201, 507, 201]
    assert sender.messages() == [3]
    assert parts[0].answer is not None
    assert parts[0].answer.headers["etag"] == '"9dd4e461268c8034f5c8564e155c67a6"'
    assert {"/a/c/a", "/a/c/c"} < sender.device.stored.keys()
    assert sender.device.last("BATCH").headers["content-type"] == "application/http"


def test_a_single_request_goes_as_it_is(sender: Sender) -> None:
    part = sender.send("a")
    sender.await_ends(1)
    assert (ends([part]), sender.device.methods()) == ([201], ["PUT"])


def test_connections_are_kept(sender: Sender) -> None:
    for _ in range(3):
        sender.together("a", "b")
        sender.await_ends(2)
    assert len(sender.device._sockets) <= MESSAGES_MAX


def test_one_that_is_not_answered_keeps_nobody_waiting(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender.fault = lambda seen: SILENT if seen.path.endswith("/b") else None
    parts = sender.together("a", "b", "c")
    sender.await_ends(2)
    assert ends(parts) == [201, type(None), 201]
    sender.device.release.set()
    sender.await_ends(1)
    assert ends(parts) == [201, ConnectionLost, 201]


def test_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(timeout: float) -> None:
        monkeypatch.setattr(proxy.replicas.batch, "PATIENCE", timeout / 2)
        device = FakeDevice(0)
        sender = Sender(device, timeout)
        sender.fault = lambda seen: SILENT if seen.path.endswith("/b") else None
        sender.hold()
        parts = [sender.send(name) for name in "abc"]
        sender.let_go()
        sender.await_ends(3)
        device.stop()
        assert ends(parts) == [201, ReadTimeout, 201]

    patiently(attempt)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(HANG_UP, ConnectionLost), (LOSE_ANSWER, ConnectionLost), (GARBAGE, BadResponse)],
)
def test_what_was_answered_before_the_connection_broke_is_good(
    sender: Sender, fault: str, error: type[Exception]
) -> None:
    # The last one is answered first.
    sender.fault = lambda seen: fault if seen.path.endswith("/a") else None
    parts = sender.together("a", "b", "c")
    sender.await_ends(3)
    assert ends(parts) == [error, 201, 201]


def test_a_server_without_batches_gets_each_by_itself(sender: Sender) -> None:
    sender.device.takes_batches = False
    for _ in range(2):
        parts = sender.together("a", "b", "c")
        sender.await_ends(3)
    assert ends(parts) == [409, 409, 409]
    assert sender.messages() == [3], "it is not asked again for a while"
    assert sorted(sender.device.stored) == [
        f"/a/c/{name}" for name in ("a", "b", "c", "held-0", "held-1")
    ]


def test_a_server_may_learn_of_batches(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.replicas.batch, "SINGLY_SECONDS", 0.0)
    sender.device.takes_batches = False
    sender.together("a", "b")
    sender.await_ends(2)
    sender.device.takes_batches = True
    sender.together("c", "d")
    sender.await_ends(2)
    assert sender.messages() == [2, 2]


def answer_all(status: int) -> Callable[..., bool]:
    def serve(sock: Any, reader: Any, batch: Seen) -> bool:
        reader.read(int(batch.headers["content-length"]))
        sock.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
        return True

    return serve


def test_a_message_that_is_refused_is_sent_in_pieces(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sender.device, "_serve_batch", answer_all(400))
        parts = sender.together("a", "b")
        sender.await_ends(2)
        assert ends(parts) == [201, 201]
    sender.together("c", "d")
    sender.await_ends(2)
    assert sender.messages() == [2], "the next one is tried again"


def test_a_message_that_fails_is_a_failure_of_all(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender.device, "_serve_batch", answer_all(503))
    parts = sender.together("a", "b")
    sender.await_ends(2)
    assert ends(parts) == [BadResponse, BadResponse]
    assert parts[0].error is parts[1].error, "it counts once for the device"


@pytest.mark.parametrize("numbers", [(0, 0), (2,), (0, -1), ("",), ("x",)])
def test_wrong_numbers_are_nonsense(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, numbers: tuple[Any, ...]
) -> None:
    def serve(sock: Any, reader: Any, batch: Seen) -> bool:
        reader.read(int(batch.headers["content-length"]))
        line = "HTTP/1.1 201 X\r\nX-Backend-Part: %s\r\nContent-Length: 0\r\n\r\n"
        body = "".join(line % number for number in numbers).encode()
        sock.sendall(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return True

    monkeypatch.setattr(sender.device, "_serve_batch", serve)
    parts = sender.together("a", "b")
    sender.await_ends(2)
    assert ends(parts) == [201 if numbers[0] == 0 else BadResponse, BadResponse]


def test_answers_that_end_too_early(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender.device, "_serve_batch", answer_all(200))
    parts = sender.together("a", "b")
    sender.await_ends(2)
    assert ends(parts) == [ConnectionLost, ConnectionLost]


def test_messages_have_limits(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.replicas.batch, "MESSAGE_PARTS_MAX", 4)
    monkeypatch.setattr(proxy.replicas.batch, "MESSAGE_BYTES_MAX", 10_000)
    sender.hold()
    for number in range(6):
        sender.send(f"small-{number}")
    for number in range(3):
        sender.send(f"large-{number}", b"x" * 6000)
    sender.let_go()
    sender.await_ends(9)
    assert sorted(sender.messages()) == [3, 4]  # and two large ones, each alone
    assert len(sender.device.stored) == MESSAGES_MAX + 9


def test_what_nobody_waits_for_is_not_sent(sender: Sender) -> None:
    sender.hold()
    parts = [sender.send(name) for name in "abc"]
    parts[1].is_withdrawn = True
    sender.let_go()
    sender.await_ends(2)
    assert sender.messages() == [2]
    assert "/a/c/b" not in sender.device.stored


def test_who_is_late_does_not_hold_up_the_others(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender.hold()
    waiting = [sender.send(name) for name in "abc"]
    monkeypatch.setattr(proxy.replicas.batch, "PATIENCE", 0.01)
    sender.let_go()
    sender.await_ends(3)
    sender.fault = SILENT
    for number in range(MESSAGES_MAX + 1):
        sender.send(f"silent-{number}")
    while sender.device.methods().count("PUT") < MESSAGES_MAX * 2 + 3:
        time.sleep(0.001)
    sender.fault = None
    later = sender.send("later")
    sender.await_ends(1)
    assert ends([*waiting, later]) == [201] * 4


def test_answers_that_drip_do_not_hold_up_the_others(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy.replicas.batch, "MESSAGE_PARTS_MAX", 2)
    sender.fault = lambda seen: SILENT if "/silent-" in seen.path else None
    sender.hold()
    for number in range(MESSAGES_MAX):
        sender.send(f"quick-{number}")
        sender.send(f"silent-{number}")
    monkeypatch.setattr(proxy.replicas.batch, "LATE_SECONDS", 0.0)
    sender.let_go()
    sender.await_ends(MESSAGES_MAX)
    assert sender.messages() == [2] * MESSAGES_MAX
    later = sender.send("later")
    sender.await_ends(1)
    assert ends([later]) == [201]


def test_a_late_end_of_the_answers_keeps_the_connection(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    looks = threading.Semaphore(0)
    read_some = BackendResponse.read_some

    def look(response: BackendResponse, timeout: float) -> list[bytes]:
        try:
            return read_some(response, timeout)
        except ReadTimeout:
            looks.release()
            raise

    monkeypatch.setattr(BackendResponse, "read_some", look)

    def serve(sock: Any, reader: Any, batch: Seen) -> bool:
        reader.read(int(batch.headers["content-length"]))
        line = "HTTP/1.1 201 X\r\nX-Backend-Part: %d\r\nContent-Length: 0\r\n\r\n"
        body = (line % 0 + line % 1).encode()
        sock.sendall(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.sendall(b"%x\r\n%b\r\n" % (len(body), body))
        may_end.wait(60)
        sock.sendall(b"0\r\n\r\n")
        return True

    monkeypatch.setattr(sender.device, "_serve_batch", serve)
    sender.hold()
    parts = [sender.send(name) for name in "ab"]
    monkeypatch.setattr(proxy.replicas.batch, "PATIENCE", 0.01)
    monkeypatch.setattr(proxy.replicas.batch, "LOOK_SECONDS", 0.01)
    sender.let_go()
    sender.await_ends(2)
    assert ends(parts) == [201, 201]
    while looks.acquire(blocking=False):
        pass  # before the answers came
    for _ in range(2):
        assert looks.acquire(timeout=60)
    may_end.set()
    [idle] = sender.client._idle.values()
    give_up_at = time.monotonic() + 60
    while len(idle) < MESSAGES_MAX:
        assert time.monotonic() < give_up_at
        time.sleep(0.001)


@pytest.mark.parametrize("takes_batches", [True, False])
def test_nothing_is_kept_of_what_nobody_waits_for(
    sender: Sender, monkeypatch: pytest.MonkeyPatch, takes_batches: bool
) -> None:
    sender.device.takes_batches = takes_batches
    sender.fault = SILENT
    sender.hold()
    sender.send("queued").is_withdrawn = True
    parts = [sender.send(name) for name in "ab"]
    [route] = sender.batches._routes.values()
    assert list(route._waiting) == parts
    monkeypatch.setattr(proxy.replicas.batch, "PATIENCE", 0.01)
    monkeypatch.setattr(proxy.replicas.batch, "LOOK_SECONDS", 0.01)
    sender.let_go()
    while sender.device.methods().count("PUT") < MESSAGES_MAX + 2:
        time.sleep(0.001)
    for part in parts:
        part.is_withdrawn = True
    sender.await_ends(2)
    assert ends(parts) == [ReadTimeout] * 2


def test_a_mistake_of_ours_is_an_end_as_well(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistakes: Queue[type[BaseException]] = Queue()
    monkeypatch.setattr(threading, "excepthook", lambda args: mistakes.put(args.exc_type))
    parts = [sender.send("not quoted"), sender.send("a")]
    sender.await_ends(2)
    assert ends(parts) == [ConnectionLost, 201]
    assert mistakes.get(timeout=60) is ValueError


def test_a_connection_that_was_closed_meanwhile(sender: Sender) -> None:
    sender.together("a", "b")
    sender.await_ends(2)
    sender.hold()
    parts = [sender.send(name) for name in "cd"]
    lost = threading.Event()

    def hang_up_once(sock: Any, reader: Any, batch: Seen) -> bool:
        if not lost.is_set():
            lost.set()
            return False
        return FakeDevice._serve_batch(sender.device, sock, reader, batch)

    sender.device._serve_batch = hang_up_once  # type: ignore[method-assign]
    sender.let_go()
    sender.await_ends(2)
    assert ends(parts) == [201, 201]
    assert all(part.answer is not None and part.answer.was_resent for part in parts)


@pytest.fixture
def client_environ() -> dict[str, Any]:
    return {IN_BATCHES: True}


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


def test_many_objects_at_once(cluster: FakeCluster) -> None:
    assert put_many(cluster, 100) == [201] * 100
    for number in range(100):
        assert cluster.holders(f"/a/c/{number}") == ["sd0", "sd1", "sd2"]
        assert cluster.devices[0].stored[f"/a/c/{number}"].body == b"%d" % number
    assert "BATCH" in cluster.devices[0].methods()


@pytest.mark.parametrize("fault", [507, 500, HANG_UP, GARBAGE, STALL_IN_ANSWER])
def test_handoffs_take_the_place_of_a_device(cluster: FakeCluster, fault: Any) -> None:
    cluster.devices[1].fault = fault
    if fault == STALL_IN_ANSWER:
        cluster.devices[1]._serve_batch = answer_all(200)  # type: ignore[method-assign]
        cluster.devices[1].fault = 503  # of those that go alone
    assert put_many(cluster, 40) == [201] * 40
    for number in range(40):
        assert cluster.holders(f"/a/c/{number}") == ["sd0", "sd2", "sd3"]
    if isinstance(fault, int):
        assert cluster.app.core.backends.health.is_suppressed(cluster.devices[1].node)


def test_one_error_of_many_requests_is_one_failure(cluster: FakeCluster) -> None:
    backends = cluster.app.core.backends
    request = BackendRequest("Object", "PUT", 7, "/a/c/o", "tx", 1.0)
    first, second = (device.node for device in cluster.devices[:2])
    lost = ConnectionLost((first["ip"], first["port"]), "a message of 60 parts")
    for _ in range(60):
        backends.failed(first, request, lost)
        backends.failed(second, request, lost)
    assert not backends.health.is_suppressed(first)
    for _ in range(10):
        backends.failed(first, request, ReadTimeout(lost.address, "another message"))
    assert backends.health.is_suppressed(first)
    assert not backends.health.is_suppressed(second)


def test_a_silent_device_costs_no_more_than_the_straggler_time(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(devices=3, node_timeout=120.0, post_quorum_timeout=0.2)
    cluster.make_container()
    cluster.devices[2].fault = lambda seen: SILENT if seen.method == "PUT" else None
    started = time.monotonic()
    assert put_many(cluster, 40) == [201] * 40
    assert time.monotonic() - started < 60.0


def test_a_mixed_cluster(cluster: FakeCluster) -> None:
    cluster.devices[0].takes_batches = False
    assert put_many(cluster, 60) == [201] * 60
    for number in range(60):
        assert cluster.holders(f"/a/c/{number}") == ["sd0", "sd1", "sd2"]


def test_no_quorum_is_503_for_each(cluster: FakeCluster) -> None:
    for device in cluster.devices[1:]:
        device.fault = 507
    assert put_many(cluster, 20) == [503] * 20


@given(
    st.lists(st.tuples(st.sampled_from([201, 204, 404, 409, 507]), st.binary(max_size=40))),
    st.randoms(use_true_random=False),
)
def test_answers_come_in_pieces_of_any_size(answers: list[tuple[int, bytes]], random: Any) -> None:
    stream = b""
    for number, (status, body) in enumerate(answers):
        shown = b"" if status == 204 else b"Content-Length: %d\r\n" % len(body)
        stream += b"HTTP/1.1 %d X\r\nX-Backend-Part: %d\r\n%b\r\n" % (status, number, shown)
        stream += b"" if status == 204 else body
    found: list[tuple[int, Answer]] = []
    parser = AnswerParser(True, lambda number, answer: found.append((number, answer)))
    while stream:
        size = random.randint(1, 60)
        parser.feed(stream[:size])
        stream = stream[size:]
    assert [(n, a.status, a.body) for n, a in found] == [
        (n, status, b"" if status == 204 else body) for n, (status, body) in enumerate(answers)
    ]
    assert all(a.was_resent for _, a in found)


def test_an_endless_answer_is_refused() -> None:
    parser = AnswerParser(False, lambda number, answer: None)
    parser.feed(b"HTTP/1.1 200 OK\r\nX-Backend-Part: 0\r\nContent-Length: 1000000000\r\n\r\n")
    for _ in range(190):
        parser.feed(b"x" * 1000)
    with pytest.raises(ValueError, match="too long"):
        parser.feed(b"x" * 10_000)
