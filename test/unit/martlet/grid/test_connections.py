"""A client and servers in other processes: answers, failures, ends. Also run under eventlet."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grid_peers
import pytest
from frozen import freeze
from grid_peers import (
    PATIENCE_SECONDS,
    SECRETS,
    ServiceProcess,
    ask_in_threads,
    patient_client,
    service,
)
from patience import patiently

from martlet.grid.client import Call, FanOut, GridClient
from martlet.grid.errors import Code, GridRefusedError, RequestError, may_have_run
from martlet.grid.options import Options
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import (
    BackendError,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
    ReadTimeout,
)
from martlet.service.disk_calls import is_green

OTHER = "another secret of another cluster here"


@pytest.fixture(scope="module", params=["green", "threads", "checksum"])
def server(request: pytest.FixtureRequest) -> Iterator[ServiceProcess]:
    arguments = {"green": [], "threads": ["--threads"], "checksum": ["--checksum"]}
    with service(*arguments[request.param]) as running:
        yield running


@pytest.fixture
def client() -> Iterator[GridClient]:
    client = patient_client()
    yield client
    client.close()


def code_of(client: GridClient, server: ServiceProcess, name: str, payload: bytes = b"") -> int:
    with pytest.raises(RequestError) as caught:
        client.request(server.address, name, payload)
    return caught.value.code


def test_answers_and_errors(client: GridClient, server: ServiceProcess) -> None:
    assert client.request(server.address, "echo", b"payload") == b"payload"
    assert client.request(server.address, "echo", bytes(1 << 20)) == bytes(1 << 20)
    assert code_of(client, server, "nix") == Code.UNKNOWN_NAME
    assert code_of(client, server, "bad") == Code.BAD_PAYLOAD
    assert code_of(client, server, "broken") == Code.FAILED
    with pytest.raises(RequestError) as unsent:
        client.request(server.address, "echo", bytes((1 << 20) + 1))
    assert unsent.value.code == Code.TOO_LARGE
    assert not may_have_run(unsent.value)
    assert client.request(server.address, "echo", b"after") == b"after"


def test_no_thread_gets_the_answer_of_another(client: GridClient, server: ServiceProcess) -> None:
    assert ask_in_threads(client, server.address) == []
    assert server.counters()["connections"] == 2  # of this client, and for the counters


def test_a_fan_out_waits_for_all_or_for_a_failure(
    client: GridClient, server: ServiceProcess
) -> None:
    fan_out = FanOut(client)
    calls = [fan_out.send(server.address, "echo", b"%d" % number) for number in range(3)]
    ended = fan_out.wait(3)
    assert {call.answer for call in ended} == {b"0", b"1", b"2"}
    assert [call.answer for call in calls] == [b"0", b"1", b"2"]
    assert fan_out.wait(3) == []
    slow = fan_out.send(server.address, "never", b"")
    bad = fan_out.send(server.address, "bad", b"")
    assert fan_out.wait(2) == [bad]
    assert isinstance(bad.error, RequestError)
    assert not may_have_run(bad.error)
    assert fan_out.wait(1, until=time.monotonic() + 0.05) == []
    assert fan_out.pending == {slow}
    fan_out.cancel()
    assert slow.connection is not None
    assert slow.connection.session.in_flight == 0
    first = FanOut(client)
    first.send(server.address, "never", b"")
    quick = first.send(server.address, "echo", b"quick")
    assert first.wait(1) == [quick]
    first.cancel()


def test_what_is_sent_after_a_deadline_has_its_own(server: ServiceProcess) -> None:
    """It goes to the next server, over a connection that is open or not."""

    def attempt(timeout: float, is_open: bool) -> None:
        client = patient_client()
        client.connection(server.address)
        fan_out = FanOut(client, timeout)
        fan_out.send(server.address, "never", b"")
        [late] = fan_out.wait(1)
        assert isinstance(late.error, ReadTimeout)
        if not is_open:
            client.forget()
        fan_out.send(server.address, "slow", b"0.1")
        [call] = fan_out.wait(1)
        assert (call.error, call.answer) == (None, b"done")
        client.close()

    for is_open in (True, False):
        patiently(partial(attempt, is_open=is_open))


def test_handlers_that_hang_for_one_peer_do_not_stop_others(client: GridClient) -> None:
    with service() as running:
        client.connection(running.address)  # so that the requests leave before the others
        fan_out = FanOut(client)
        for _ in range(1024):
            fan_out.send(running.address, "never", b"")
        other = patient_client()
        assert other.request(running.address, "echo", b"other") == b"other"
        assert other.open_stream(running.address, "tee", b"x").read(PATIENCE_SECONDS) == b"x"
        other.close()
        fan_out.cancel()


def test_a_thread_that_is_stopped_gives_its_request_up(
    client: GridClient, server: ServiceProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = client.connection(server.address)

    def stop(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(type(client.loop.waiter()), "wait", stop)
        with pytest.raises(SystemExit):
            client.request(server.address, "never", b"")
    assert connection.session.in_flight == 0


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
if "green" in sys.argv:
    import eventlet
    eventlet.monkey_patch()
from grid_peers import patient_client
client, address = patient_client(), ("127.0.0.1", int(sys.argv[1]))
assert client.request(address, "echo", b"parent") == b"parent"
child = os.fork()
if not child and "green" in sys.argv:
    eventlet.hubs.use_hub()  # the epoll of the old one is shared with the parent
answer = client.request(address, "echo", b"%d" % os.getpid(), timeout=30)
assert answer == b"%d" % os.getpid()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert client.request(address, "echo", b"parent") == b"parent"
"""


@pytest.mark.skipif(is_green(), reason="its processes choose their mode themselves")
@pytest.mark.parametrize("mode", ["green", "threads"])
def test_a_child_process_connects_itself(server: ServiceProcess, mode: str) -> None:
    command = [sys.executable, "-c", FORK, str(server.address[1]), mode]
    folder = Path(grid_peers.__file__).parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_short_deadlines_do_not_put_off_others(client: GridClient, server: ServiceProcess) -> None:
    client.request(server.address, "echo", b"")
    patient = FanOut(client, timeout=0.5)
    late = patient.send(server.address, "never", b"")
    end = time.monotonic() + PATIENCE_SECONDS
    while not late.is_ended:
        assert time.monotonic() < end
        hasty = FanOut(client, timeout=0.001)
        hasty.send(server.address, "echo", b"")
        hasty.wait(1)
    assert isinstance(late.error, ReadTimeout)


def test_a_deadline_ends_the_wait(client: GridClient, server: ServiceProcess) -> None:
    client.request(server.address, "echo", b"")
    started = time.monotonic()
    with pytest.raises(ReadTimeout) as caught:
        client.request(server.address, "never", b"", timeout=0.3)
    assert time.monotonic() - started >= 0.3
    assert may_have_run(caught.value)
    assert client.request(server.address, "echo", b"next") == b"next"


def test_a_stream_carries_more_than_its_windows(client: GridClient, server: ServiceProcess) -> None:
    stream = client.open_stream(server.address, "tee", b"first", timeout=PATIENCE_SECONDS)
    assert stream.read() == b"first"
    data = bytes(range(256)) * 8192
    failures: list[BackendError] = []

    def write() -> None:
        try:
            stream.write(data)
            stream.end()
        except BackendError as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    received = []
    while piece := stream.read(timeout=PATIENCE_SECONDS):
        received.append(piece)
    writer.join()
    assert failures == []
    assert b"".join(received) == data
    with pytest.raises(RequestError):
        stream.write(b"more")


def test_a_writer_waits_for_a_reader(client: GridClient, server: ServiceProcess) -> None:
    stream = client.open_stream(server.address, "tee")
    with pytest.raises(ReadTimeout):
        stream.write(bytes(4 << 20), timeout=0.3)
    stream.abort()
    with pytest.raises(RequestError):
        stream.read()
    with pytest.raises(RequestError) as caught:
        client.open_stream(server.address, "nix").read()
    assert caught.value.code == Code.UNKNOWN_NAME


def test_a_client_keeps_the_limits_of_its_server() -> None:
    options = Options(max_requests=2)
    with service() as running:
        connection = patient_client(options=options).connection(running.address)
        connection.session.peer = options  # as if the server had said so
        fan_out = FanOut(patient_client())
        fan_out._client.ready_connection = lambda *_: connection  # type: ignore[method-assign]
        fan_out.send(running.address, "never", b"")
        fan_out.send(running.address, "never", b"")
        refused = fan_out.send(running.address, "echo", b"")
        assert fan_out.wait(1) == [refused]
        assert isinstance(refused.error, RequestError)
        assert refused.error.code == Code.BUSY
        assert "2 requests are in flight" in str(refused.error)
        assert not may_have_run(refused.error)
        assert len(fan_out.pending) == 2
        connection.close()
        ended = fan_out.wait(2) + fan_out.wait(2)
        assert [type(call.error) for call in ended] == [ConnectionLost] * 2


def test_a_killed_server_fails_what_is_in_flight_and_the_next_one_serves(
    client: GridClient,
) -> None:
    with service() as first:
        address = first.address
        client.connection(address)  # so that the requests leave before the stream
        fan_out = FanOut(client)
        fan_out.send(address, "never", b"")
        fan_out.send(address, "never", b"")
        stream = client.open_stream(address, "tee", b"x")
        assert stream.read() == b"x"
        first.send(signal.SIGKILL)
        ended = fan_out.wait(2)
        ended += fan_out.wait(1)
        assert [type(call.error) for call in ended] == [ConnectionLost] * 2
        assert all(may_have_run(call.error) for call in ended if call.error)
        with pytest.raises(ConnectionLost):
            stream.read(timeout=PATIENCE_SECONDS)
    with pytest.raises(ConnectError) as caught:
        client.request(address, "echo", b"")
    assert not may_have_run(caught.value)
    with service(port=address[1]):
        assert ask_until_served(client, address) == b"again"


def ask_until_served(client: GridClient, address: tuple[str, int]) -> bytes:
    """Ask again after each pause of the client."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return client.request(address, "echo", b"again")
        except ConnectError:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_stalled_server_costs_no_more_than_the_deadline(client: GridClient) -> None:
    with service() as running:
        client.request(running.address, "echo", b"")
        freeze(running.process.pid)
        fan_out = FanOut(client, timeout=0.3)
        for number in range(10):
            fan_out.send(running.address, "echo", b"%d" % number)
        started = time.monotonic()
        ended = []
        while fan_out.pending:
            ended += fan_out.wait(1)
        ended += fan_out.wait(0)
        assert time.monotonic() - started < PATIENCE_SECONDS
        assert [type(call.error) for call in ended] == [ReadTimeout] * 10
        running.send(signal.SIGCONT)
        assert client.request(running.address, "echo", b"alive") == b"alive"


def test_a_server_that_never_answers_the_handshake_is_given_up(client: GridClient) -> None:
    with service() as running:
        freeze(running.process.pid)  # the kernel still accepts connections
        hasty = GridClient(SECRETS, handshake_timeout=0.2)
        with pytest.raises(ConnectTimeout, match="no handshake"):
            hasty.request(running.address, "echo", b"")
        with pytest.raises(ConnectTimeout):
            client.request(running.address, "echo", b"", timeout=0.2)
        running.send(signal.SIGCONT)


def test_a_short_deadline_is_no_failure_of_the_server(client: GridClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(5)
        for _ in range(2):  # a pause would refuse the second at once
            with pytest.raises(ConnectTimeout):
                client.request(silent.getsockname(), "echo", b"", timeout=0.05)
            silent.accept()[0].close()


def test_after_a_failure_there_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[object] = []

    def fail(address: tuple[str, int], *_: object) -> None:
        tries.append(address)
        raise ConnectError(address, "no route") from ConnectionRefusedError()

    monkeypatch.setattr("martlet.grid.client.connect", fail)
    monkeypatch.setattr("martlet.grid.client._BACKOFF_SECONDS_MIN", 1000.0)
    monkeypatch.setattr("martlet.grid.client._BACKOFF_SECONDS_MAX", 1000.0)
    client = GridClient(SECRETS)
    raised = []
    for _ in range(3):
        with pytest.raises(ConnectError, match="no route") as caught:
            client.request(("192.0.2.1", 1), "echo", b"")
        raised.append(caught.value)
    assert len(tries) == 1
    # One failure, with its cause, for all: each of them is counted once for a device.
    assert raised[0] is raised[1] is raised[2]
    assert isinstance(raised[2].__cause__, ConnectionRefusedError)


def test_a_server_without_a_connection_delays_no_other_request_of_a_fan_out(
    client: GridClient, server: ServiceProcess
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        fan_out = FanOut(client)
        hanging = fan_out.send(silent.getsockname(), "echo", b"")
        quick = fan_out.send(server.address, "echo", b"quick")
        assert fan_out.wait(1) == [quick]
        assert fan_out.pending == {hanging}
        fan_out.cancel()
        assert fan_out.wait(1) == []
        # The end of the attempt finds the request given up.
        hasty = FanOut(GridClient(SECRETS, handshake_timeout=0.2))
        lost = hasty.send(silent.getsockname(), "echo", b"")
        assert hasty.wait(1) == [lost]
        assert isinstance(lost.error, ConnectTimeout)


def test_a_server_drains_before_it_stops(client: GridClient) -> None:
    with service() as running:
        client.connection(running.address)  # so that the slow request leaves first
        fan_out = FanOut(client)
        slow = fan_out.send(running.address, "slow", b"0.5")
        assert client.request(running.address, "echo", b"") == b""
        running.send(signal.SIGTERM)
        assert fan_out.wait(1) == [slow]
        assert slow.error is None
        assert slow.answer == b"done"
        assert running.process.wait(PATIENCE_SECONDS) == 0
        with pytest.raises(ConnectError):
            client.request(running.address, "echo", b"")


def test_the_secret_can_be_changed_while_servers_run() -> None:
    with service("--previous", OTHER) as running:
        for secrets in (Secrets.parse(OTHER), Secrets.parse(OTHER + "!", OTHER), SECRETS):
            client = patient_client(secrets)
            assert client.request(running.address, "echo", b"x") == b"x"
            client.close()


@pytest.mark.parametrize("secrets", [Secrets.parse(OTHER), Secrets.parse("none")])
def test_without_the_secret_there_is_no_connection(secrets: Secrets) -> None:
    with service() as running:
        with pytest.raises(GridRefusedError) as caught:
            patient_client(secrets).request(running.address, "echo", b"")
        assert not caught.value.has_no_grid
        assert not may_have_run(caught.value)
        running.await_counter("by_peer", 1)
        assert "event=grid_refused kind=by_peer remote_addr=127.0.0.1" in running.end()


def test_the_deadline_of_the_server_is_a_timeout_too() -> None:
    client = GridClient(SECRETS)
    fan_out = FanOut(client)
    call = Call(fan_out, ("192.0.2.1", 1))
    fan_out.pending.add(call)
    call.finish(None, Code.DEADLINE, "")
    assert isinstance(call.error, ReadTimeout)
