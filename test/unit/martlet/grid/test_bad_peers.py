"""Peers that break a rule: refused with a sentence, counted, logged; the others are served on."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from grid_peers import PATIENCE_SECONDS, SECRETS, RawPeer, ServiceProcess, patient_client, service
from patience import patiently

from martlet.grid import frames
from martlet.grid.frames import decode_message, encode
from martlet.grid.handshake import ConnectorHandshake
from martlet.grid.options import Options
from martlet.grid.websocket import Opening


@pytest.fixture(params=["green", "threads"])
def server(request: pytest.FixtureRequest) -> Iterator[ServiceProcess]:
    arguments = ["--threads"] if request.param == "threads" else []
    with service(*arguments) as running:
        yield running


def reason_of_close(peer: RawPeer) -> str:
    """Read to the end of the connection; the reason in the server's close frame."""
    while peer.receive() is not None:
        pass
    close = peer.channel._protocol.close_rcvd
    assert close is not None
    return close.reason


def test_rules_of_the_format(server: ServiceProcess) -> None:
    client = patient_client()
    cancel = encode(frames.CANCEL, 1)
    cases = [
        (encode(frames.PING, 1)[:-1], "longer than its message"),
        (cancel[:4] + b"\2" + cancel[5:], "version 2"),
        (cancel, "never used"),
        (encode(frames.REQUEST, 2, "echo", 0, 0, b""), "other side"),
        (b"", "a message is empty"),
        (encode(frames.DATA, 1, bytes(65_537)), "DATA has a wrong payload"),
    ]
    for message, sentence in cases:
        with RawPeer(server.address) as peer:
            peer.shake_hands()
            peer.send(message)
            assert sentence in reason_of_close(peer)
    assert server.counters()["protocol_errors"] == len(cases)
    assert client.request(server.address, "echo", b"still") == b"still"
    log = server.end()
    assert log.count("event=grid_violated remote_addr=127.0.0.1") == len(cases)
    assert "a frame has version 2; this side speaks 1" in log


def test_a_wrong_checksum(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.shake_hands(Options(checksum=True))
        peer.send(encode(frames.PING, 1) + b"\0\0\0\0")
        assert reason_of_close(peer) == "the checksum of a message is wrong"
    server.await_counter("protocol_errors", 1)


def test_a_text_message(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.shake_hands()
        peer.channel._protocol.send_text(b"hello")
        peer.sock.sendall(peer.channel.take_bytes())
        assert reason_of_close(peer) == "a text message came"
    server.await_counter("protocol_errors", 1)


def test_a_message_of_too_many_fragments(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.shake_hands()
        protocol = peer.channel._protocol
        protocol.send_binary(bytes(1 << 20), fin=False)
        for _ in range(3):
            protocol.send_continuation(bytes(1 << 20), fin=False)
        protocol.send_continuation(b"x", fin=False)
        peer.sock.sendall(peer.channel.take_bytes())
        assert "limit" in reason_of_close(peer)


def test_the_length_of_a_message_is_checked_before_its_bytes_come(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.shake_hands()
        length = frames.MESSAGE_BYTES_MAX + 1
        peer.sock.sendall(b"\x82\xff" + length.to_bytes(8, "big") + b"mask")
        assert "limit" in reason_of_close(peer)
    server.await_counter("protocol_errors", 1)


def test_a_recorded_handshake(server: ServiceProcess) -> None:
    with RawPeer(server.address) as first:
        proof = first.shake_hands()
    with RawPeer(server.address) as second:
        second.receive()
        second.send(proof)
        refused = second.receive()
        assert refused is not None
        assert decode_message(refused) == [[frames.REFUSED, "the proof of the secret is wrong"]]
        assert second.receive() is None
    server.await_counter("wrong_proof", 1)


def test_a_handshake_that_is_too_long_or_none(server: ServiceProcess) -> None:
    for message in (bytes(frames.HANDSHAKE_BYTES_MAX + 1), b"\0" * 10):
        with RawPeer(server.address) as peer:
            peer.receive()
            peer.send(message)
            assert reason_of_close(peer)
    server.await_counter("malformed", 2)
    with RawPeer(server.address) as peer:
        peer.receive()
        peer.send(encode(frames.REQUEST, 1, "echo", 0, 0, b""))
        [refused] = decode_message(peer.receive() or b"")
        assert refused == [frames.REFUSED, "type 10 came instead of PROOF"]
    server.await_counter("out_of_order", 1)
    assert server.counters()["requests"] == server.counters()["requests"] - 1


def test_a_peer_that_goes_without_a_proof(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.receive()
        peer.sock.sendall(peer.channel.close())
        reason_of_close(peer)
    with RawPeer(server.address) as peer:
        peer.receive()
    server.await_counter("lost", 2)


def test_requests_with_the_proof_are_not_served(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        challenge = peer.receive()
        assert challenge is not None
        proof = ConnectorHandshake(SECRETS, Options()).receive(challenge)
        request = encode(frames.REQUEST, 1, "echo", 0, 0, b"")
        peer.sock.sendall(peer.channel.wrap(proof) + peer.channel.wrap(request))
        answers = []
        while (message := peer.receive()) is not None:
            answers += [frame[0] for frame in decode_message(message)]
        assert frames.ANSWER not in answers
    server.await_counter("out_of_order", 1)


def test_slow_handshakes_end_and_their_number_is_bounded() -> None:
    def attempt(timeout: float) -> None:
        arguments = ("--handshake-seconds", str(timeout), "--unauthenticated-max", "2")
        with service(*arguments) as server:
            with RawPeer(server.address) as one, RawPeer(server.address) as two:
                assert one.receive()
                assert two.receive()
                status, body = answer_to_upgrade(server)
                assert status == b"HTTP/1.1 503"
                assert b"Too many connections are in their handshake." in body
                ends = reason_of_close(one), reason_of_close(two)
                assert ends == (f"no proof in {timeout:g} s",) * 2
            server.await_counter("too_slow", 2)
            assert server.counters()["refused"] == {"too_many": 1, "too_slow": 2}
            log = server.end()
            assert log.count("kind=too_slow") == 1  # the second one is counted only

    patiently(attempt)


def answer_to_upgrade(server: ServiceProcess, *changes: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Status and body of the answer to an upgrade, which may be changed."""
    request = Opening(server.address).start()
    for old, new in changes:
        assert old in request
        request = request.replace(old, new)
    with socket.create_connection(server.address, timeout=60) as sock:
        sock.sendall(request)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return answer[:12], answer.partition(b"\r\n\r\n")[2]


def test_upgrades_that_are_none(server: ServiceProcess) -> None:
    cases = [
        (b"martlet-grid-1", b"martlet-grid-2"),
        (b"Sec-WebSocket-Protocol", b"X-Other"),
        (b"Upgrade: websocket", b"Upgrade: h2c"),
        (b"Version: 13", b"Version: 8"),
        (b"GET", b"POST"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\nxx"),
        (b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ]
    for number, case in enumerate(cases):
        status, body = answer_to_upgrade(server, case)
        assert status == b"HTTP/1.1 400"
        if number < 4:
            assert b"This server speaks martlet-grid-1." in body
    server.await_counter("bad_upgrade", len(cases))


def test_a_peer_that_does_not_read_begins_no_more_requests() -> None:
    with service() as server, RawPeer(server.address) as peer:
        peer.shake_hands()
        payload = bytes(1 << 20)
        sent = 0
        try:
            for number in range(200):
                peer.send(encode(frames.REQUEST, 2 * number + 1, "echo", 0, 0, payload))
                sent += 1
        except TimeoutError:
            pytest.fail("the server stopped reading although its peer is within its limits")
        served = server.counters()["requests"]
        assert served < 60  # 4 MiB of answers wait, and the buffers of the kernel
        kinds = []
        while len(kinds) < sent:
            kinds += [frame[0] for frame in decode_message(peer.receive() or b"")]
        assert kinds.count(frames.ANSWER) >= 64
        assert set(kinds) == {frames.ANSWER, frames.ERROR}


def seconds_of_processor(server: ServiceProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def await_calm(server: ServiceProcess) -> None:
    """Wait until the server uses no processor: one that is awake in vain never is calm."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        before = seconds_of_processor(server)
        time.sleep(0.5)  # what is looked at is that nothing happens
        if seconds_of_processor(server) - before < 0.1:
            return
        assert time.monotonic() < end


@pytest.mark.parametrize("kind", ["frames", "websocket"])
def test_a_peer_that_reads_nothing_is_not_read_from(server: ServiceProcess, kind: str) -> None:
    with RawPeer(server.address) as peer:
        peer.shake_hands()
        if kind == "frames":
            flood = peer.channel.wrap(encode(frames.PING, 1) * 10_000)
        else:
            peer.channel._protocol.send_ping(bytes(125))
            flood = peer.channel.take_bytes() * 1000
        peer.sock.settimeout(2.0)
        with pytest.raises(TimeoutError):
            peer.sock.sendall(flood * 200)
        await_calm(server)
        assert patient_client().request(server.address, "echo", b"x") == b"x"


def test_a_burst_does_not_stop_the_reader_of_a_peer_that_reads(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.shake_hands()
        for _ in range(5000):
            peer.channel._protocol.send_ping(bytes(10))
        peer.sock.sendall(peer.channel.take_bytes())
        peer.send(encode(frames.PING, 1) * 50_000)
        for number in (2, 3):  # on a slow machine the server sends a PING of its own, too
            peer.send(encode(frames.PING, number))
            while [frames.PONG, number] not in decode_message(peer.receive() or b""):
                pass


def test_pings_before_the_proof_are_answered_at_once(server: ServiceProcess) -> None:
    with RawPeer(server.address) as peer:
        assert peer.receive()
        peer.channel._protocol.send_ping(b"early")
        peer.sock.sendall(peer.channel.take_bytes())
        assert b"early" in peer.sock.recv(1000)


def test_http_goes_on_beside_the_grid(server: ServiceProcess) -> None:
    client = patient_client()
    client.request(server.address, "echo", b"")
    with socket.create_connection(server.address, timeout=60) as sock:
        for _ in range(2):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200")
    assert client.request(server.address, "echo", b"x") == b"x"
    client.close()
    started = time.monotonic()
    server.await_counter("connections", 1)
    assert time.monotonic() - started < 60
