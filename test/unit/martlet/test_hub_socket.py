"""Clients' sockets under eventlet; ``test_wsgi_under_eventlet.py`` runs these tests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from patience import patiently

from martlet.service.disk_calls import is_green

pytestmark = pytest.mark.skipif(not is_green(), reason="only under eventlet")


@contextmanager
def connected() -> Iterator[tuple[Any, socket.socket]]:
    """A socket under test, and its client."""
    from martlet.service.hub_socket import HubListener

    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=10)
        ours, peer = HubListener(listener).accept()
        assert peer == client.getsockname() == ours.getpeername()
        with client:
            yield ours, client
        ours.close()


@pytest.fixture
def pair() -> Iterator[tuple[Any, socket.socket]]:
    with connected() as pair:
        yield pair


def listeners_of(sock: Any) -> list[Any]:
    """The hub's listeners for reading from the socket."""
    import eventlet.hubs

    hub = eventlet.hubs.get_hub()
    return [one for number, one in hub.listeners[hub.READ].items() if number == sock.fileno()]


def timer_count() -> int:
    import eventlet.hubs

    hub = eventlet.hubs.get_hub()
    hub.prepare_timers()
    return sum(not timer.called for _, timer in hub.timers)


def send_soon(client: socket.socket, data: bytes) -> None:
    def send() -> None:
        time.sleep(0.01)
        client.sendall(data)

    threading.Thread(target=send).start()


def test_many_waits_have_one_listener_and_one_timer(pair: tuple[Any, socket.socket]) -> None:
    ours, client = pair
    ours.settimeout(100)
    send_soon(client, b"0")
    assert ours.recv(10) == b"0"
    listener, timers = listeners_of(ours), timer_count()
    assert len(listener) == 1
    for number in range(1, 5):
        send_soon(client, b"%d" % number)
        assert ours.recv(10) == b"%d" % number
    assert listeners_of(ours) == listener
    assert timer_count() == timers


def test_a_wait_ends_at_its_own_timeout(pair: tuple[Any, socket.socket]) -> None:
    def attempt(timeout: float) -> None:
        with connected() as (ours, client):
            for part in (1, 1 / 3, 2 / 3):  # also where a timer is due earlier, or later
                seconds = part * timeout
                ours.settimeout(seconds)
                send_soon(client, b"a")
                assert ours.recv(10) == b"a"
                began = time.monotonic()
                with pytest.raises(TimeoutError):
                    ours.recv(10)
                assert seconds - 0.01 <= time.monotonic() - began < seconds + timeout / 2

    patiently(attempt)
    ours, client = pair
    ours.settimeout(None)
    send_soon(client, b"b")
    assert ours.recv(10) == b"b"
    ours.settimeout(0)
    with pytest.raises(BlockingIOError):
        ours.recv(10)


def test_bytes_that_nobody_waits_for_do_not_keep_the_hub_busy(
    pair: tuple[Any, socket.socket],
) -> None:
    ours, client = pair
    send_soon(client, b"1")
    assert ours.recv(10) == b"1"
    client.sendall(b"23")
    time.sleep(0.05)
    assert listeners_of(ours) == []
    assert ours.recv(1) == b"2"
    assert ours.recv(1) == b"3"
    send_soon(client, b"4")
    assert ours.recv(10) == b"4"
    assert len(listeners_of(ours)) == 1


def test_the_end_of_a_connection_wakes_its_thread(pair: tuple[Any, socket.socket]) -> None:
    ours, client = pair

    def end() -> None:
        time.sleep(0.01)
        ours.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=end).start()
    assert ours.recv(10) == b""
    assert client.recv(10) == b""
    number = ours.fileno()
    ours.close()
    with socket.socket() as other:  # the next socket with its number
        assert other.fileno() == number
        assert listeners_of(other) == []


def test_a_reset_is_the_end(pair: tuple[Any, socket.socket]) -> None:
    ours, client = pair
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    time.sleep(0.01)
    assert ours.recv(10) == b""


def test_the_socket_inside_is_not_watched(pair: tuple[Any, socket.socket]) -> None:
    ours, client = pair
    send_soon(client, b"1")
    assert ours.recv(10) == b"1"
    raw = ours.fd
    assert listeners_of(ours) == []
    assert raw.fileno() == ours.fileno()
    with pytest.raises(BlockingIOError):
        raw.recv(10)


def test_a_client_gets_all_that_it_takes_slowly(pair: tuple[Any, socket.socket]) -> None:
    ours, client = pair
    data = bytes(range(256)) * 100_000
    got = bytearray()

    def read() -> None:
        while len(got) < len(data):
            got.extend(client.recv(1 << 20))

    reader = threading.Thread(target=read)
    reader.start()
    ours.settimeout(10)
    ours.sendall(data)
    reader.join(10)
    assert got == data
    assert ours.send(b"more") == 4


def test_a_client_that_takes_nothing_ends_the_wait(pair: tuple[Any, socket.socket]) -> None:
    ours, _ = pair
    ours.settimeout(0.1)
    with pytest.raises(TimeoutError):
        ours.sendall(bytes(50_000_000))
