"""A side that sends GOAWAY: requests that cross it are refused, and sent again elsewhere."""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from grid_peers import PATIENCE_SECONDS, SECRETS, patient_client

from martlet.grid.client import FanOut
from martlet.grid.connection import GridConnection
from martlet.grid.errors import Code, RequestError
from martlet.grid.handlers import Handlers
from martlet.grid.loop import Action, Waiter
from martlet.grid.options import Options
from martlet.grid.server import GridServer
from martlet.grid.session import Session
from martlet.grid.websocket import Channel, acceptor_channel
from martlet.http.backend_client import Address, ConnectionLost
from martlet.http.environ import WSGIApp
from martlet.wsgi.limits import Limits
from martlet.wsgi.listener import HttpServer


class ManualTimer:
    def __init__(self, loop: ManualLoop, seconds: float, action: Action) -> None:
        self._loop, self.seconds, self.action = loop, seconds, action

    def cancel(self) -> None:
        if self in self._loop.timers:
            self._loop.timers.remove(self)


class ManualWatch:
    def __init__(self, loop: ManualLoop, sock: socket.socket, on_read: Action) -> None:
        self.loop, self.sock, self.on_read = loop, sock, on_read

    def read(self, is_wanted: bool) -> None:
        (self.loop.readers.add if is_wanted else self.loop.readers.discard)(self)

    def write(self, is_wanted: bool) -> None:
        assert not is_wanted

    def end(self) -> None:
        self.loop.readers.discard(self)


class ManualLoop:
    """A loop whose time a test passes."""

    def __init__(self) -> None:
        self.lock: AbstractContextManager[Any] = nullcontext()
        self.actions: list[Action] = []
        self.timers: list[ManualTimer] = []
        self.readers: set[ManualWatch] = set()

    def soon(self, action: Action) -> None:
        self.actions.append(action)

    def later(self, seconds: float, action: Action) -> ManualTimer:
        self.timers.append(ManualTimer(self, seconds, action))
        return self.timers[-1]

    def watch(self, sock: socket.socket, on_read: Action, on_write: Action) -> ManualWatch:
        return ManualWatch(self, sock, on_read)

    def waiter(self) -> Waiter:
        raise AssertionError("nothing waits here")

    def spawn(self, action: Action) -> None:
        raise AssertionError("nothing has a thread here")

    def run(self) -> None:
        """Run what is due now, until nothing is."""
        while True:
            while self.actions:
                self.actions.pop(0)()
            watches = {watch.sock: watch for watch in self.readers}
            readable, _, _ = select.select(list(watches), [], [], 0)
            if not readable:
                return
            for sock in readable:
                watches[sock].on_read()

    def pass_time(self, seconds: float) -> None:
        """Run the timers that are due within this time, and what they bring."""
        for timer in [timer for timer in self.timers if timer.seconds <= seconds]:
            timer.cancel()
            timer.action()
        self.run()


class Ends:
    """What became of a request."""

    def __init__(self) -> None:
        self.all: list[tuple[bytes | None, int | None]] = []

    def finish(self, payload: bytes | None, code: int | None, reason: str) -> None:
        self.all.append((payload, code))


class Holder:
    """A responder that keeps requests until a test answers them."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] = []

    def begin(self, connection: GridConnection, event: Any) -> None:
        self.held.append(lambda: connection.answer(event.number, event.payload))

    def begin_stream(self, connection: GridConnection, event: Any, stream: Any) -> None:
        raise AssertionError("no stream comes")

    def cancel(self, connection: GridConnection, number: int) -> None:
        """The connection has ended."""


class Sides:
    """An acceptor and a connector in one loop."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.reasons: dict[str, str] = {}
        self.holder = Holder()
        ours, theirs = socket.socketpair()
        self.acceptor = self._side("acceptor", ours, acceptor_channel(is_welcome=True))
        self.connector = self._side("connector", theirs, _connector_channel())

    def _side(self, name: str, sock: socket.socket, channel: Channel) -> GridConnection:
        def on_end(_connection: GridConnection, reason: str) -> None:
            self.reasons[name] = reason

        session = Session(name == "connector", Options(), Options(), 0.0)
        connection = GridConnection(
            self.loop, sock, channel, session, ("127.0.0.1", 1), self.holder, on_end
        )
        connection.start()
        return connection

    def ask(self, connection: GridConnection) -> Ends:
        ends = Ends()
        connection.request("echo", b"x", ends, float("inf"), False)
        return ends


def _connector_channel() -> Channel:
    from websockets.client import ClientProtocol
    from websockets.protocol import OPEN
    from websockets.uri import parse_uri

    return Channel(ClientProtocol(parse_uri("ws://127.0.0.1/grid"), state=OPEN))


@pytest.fixture
def sides() -> Iterator[Sides]:
    sides = Sides()
    sides.loop.run()
    yield sides
    for side in (sides.acceptor, sides.connector):
        side.close()
    sides.loop.run()


def test_a_request_that_crosses_goaway_is_refused(sides: Sides) -> None:
    sides.acceptor.leave("stops")
    ends = sides.ask(sides.connector)  # before GOAWAY comes
    sides.loop.run()
    assert ends.all == [(None, Code.GOING_AWAY)]
    assert not sides.holder.held
    assert sides.reasons == {"acceptor": "", "connector": ""}


def test_the_receiver_of_goaway_ends_an_idle_connection(sides: Sides) -> None:
    sides.acceptor.leave("stops")
    sides.loop.run()
    assert sides.reasons == {"acceptor": "", "connector": ""}


def test_a_peer_that_does_not_end_it_has_a_second(sides: Sides) -> None:
    deaf = sides.connector
    sides.loop.readers.discard(deaf._watch)  # type: ignore[arg-type]
    sides.acceptor.leave("stops")
    sides.loop.run()
    assert not sides.acceptor.is_over
    ends = sides.ask(deaf)
    sides.loop.pass_time(0.9)
    assert not sides.acceptor.is_over
    sides.loop.pass_time(1.0)
    assert sides.reasons == {"acceptor": ""}
    sides.loop.readers.add(deaf._watch)  # type: ignore[arg-type]
    sides.loop.run()
    assert ends.all == [(None, Code.GOING_AWAY)]


def test_the_second_begins_when_what_is_in_flight_has_ended(sides: Sides) -> None:
    before = sides.ask(sides.connector)
    sides.loop.run()
    sides.acceptor.leave("stops")
    sides.loop.run()
    sides.loop.pass_time(1.0)
    assert not sides.acceptor.is_over
    sides.holder.held.pop()()
    sides.loop.run()
    assert before.all == [(b"x", None)]
    assert sides.reasons == {"acceptor": "", "connector": ""}


def test_a_side_that_leaves_still_asks(sides: Sides) -> None:
    before = sides.ask(sides.acceptor)
    sides.acceptor.leave("stops")
    sides.loop.run()
    assert not sides.connector.is_over
    sides.holder.held.pop()()
    sides.loop.run()
    assert before.all == [(b"x", None)]
    assert sides.reasons == {"acceptor": "", "connector": ""}


def test_two_sides_that_leave_do_not_wait(sides: Sides) -> None:
    sides.acceptor.leave("stops")
    sides.connector.leave("stops")
    sides.loop.run()
    assert sides.reasons == {"acceptor": "", "connector": ""}


def test_an_end_with_requests_in_flight_is_a_loss(sides: Sides) -> None:
    sides.ask(sides.connector)
    sides.loop.run()
    sides.acceptor.leave("stops")
    sides.loop.run()
    sides.acceptor.close()
    sides.loop.run()
    assert sides.reasons["connector"] == "the other side has closed the connection"


class Server:
    """A service in threads of this process."""

    def __init__(self) -> None:
        echo = {"echo": lambda call: bytes(call.payload)}
        self.grid = GridServer(SECRETS, Handlers(echo))
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = ("127.0.0.1", listener.getsockname()[1])
        app: WSGIApp = self.grid
        self.http = HttpServer(
            listener, app, Limits(), logging.getLogger("wsgi"), _spawn, 1024, 10_000
        )
        _spawn(self.http.run)

    def await_connection(self) -> None:
        """Wait for one that does not end; the client may have it before."""
        end = time.monotonic() + PATIENCE_SECONDS
        while all(one.session.is_leaving for one in list(self.grid.connections)):
            assert time.monotonic() < end
            time.sleep(0.001)


def _spawn(function: Callable[[], None]) -> None:
    threading.Thread(target=function, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.stop()


@pytest.mark.parametrize("drains", [1, 2, 3])
def test_a_client_asks_again_over_another_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch, drains: int
) -> None:
    client = patient_client()
    assert client.request(server.address, "echo", b"first") == b"first"
    send, sent = FanOut.send, []

    def cross(fan_out: FanOut, *given: Any) -> Any:
        client.connection(server.address)
        server.await_connection()
        with client.loop.lock:  # the server learns of the request after it has decided to leave
            if len(sent) < drains:
                server.grid.drain()
            sent.append(given)
            return send(fan_out, *given)

    monkeypatch.setattr(FanOut, "send", cross)
    if drains < 3:
        assert client.request(server.address, "echo", b"second") == b"second"
        assert len(sent) == drains + 1
    else:
        with pytest.raises(RequestError) as caught:
            client.request(server.address, "echo", b"second")
        assert caught.value.code == Code.GOING_AWAY
        assert len(sent) == 3
    client.close()


def test_what_may_have_run_is_not_sent_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = patient_client()
    client.request(server.address, "echo", b"first")
    send, sent = FanOut.send, []

    def lose(fan_out: FanOut, *given: Any) -> Any:
        with client.loop.lock:
            sent.append(given)
            call = send(fan_out, *given)
            client.close()
            return call

    monkeypatch.setattr(FanOut, "send", lose)
    with pytest.raises(ConnectionLost):
        client.request(server.address, "echo", b"second")
    assert len(sent) == 1
