# SPDX-License-Identifier: Apache-2.0
"""Our end of a TLS connection against that of the standard library. Also run under eventlet."""

from __future__ import annotations

import contextlib
import datetime
import os
import select
import socket
import ssl
import time
from pathlib import Path

import pytest
from certificates import Authority, Certificate
from running_cluster import await_true
from tls_pairs import Records, in_parallel, our_client, our_server, plain_pair

from martlet.tls.contexts import client_context, server_context
from martlet.tls.tls_socket import HandshakeError, TlsError, TlsSocket

MUCH = os.urandom(5 << 20)

Pair = tuple[TlsSocket, ssl.SSLSocket]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Certificate:
    return authority.issue("127.0.0.1")


@pytest.fixture(params=[our_client, our_server])
def pair(request: pytest.FixtureRequest, authority: Authority, issued: Certificate) -> Pair:
    pair: Pair = request.param(authority, issued)
    return pair


def read_all(sock: TlsSocket | ssl.SSLSocket, count: int, size: int = 65536) -> bytes:
    received = b""
    while len(received) < count and (piece := sock.recv(size)):
        assert len(piece) <= size
        received += piece
    return received


def cut_off(sock: ssl.SSLSocket) -> None:
    """End the sending direction without a farewell."""
    with socket.socket(fileno=os.dup(sock.fileno())) as plain:
        plain.shutdown(socket.SHUT_WR)


def test_bytes_in_both_directions(pair: Pair) -> None:
    ours, theirs = pair
    assert theirs.version() == "TLSv1.3"
    ours.sendall(b"small")
    assert theirs.recv(100) == b"small"
    theirs.sendall(b"answer")
    assert (ours.recv(2), ours.recv(100)) == (b"an", b"swer")
    with in_parallel(lambda: ours.sendall(MUCH)):
        assert read_all(theirs, len(MUCH)) == MUCH
    for size in (1 << 18, 65536, 1000):
        with in_parallel(lambda: theirs.sendall(MUCH)):
            assert read_all(ours, len(MUCH), size) == MUCH


def test_a_farewell_is_an_end(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"last")
    with in_parallel(theirs.unwrap):
        assert ours.recv(100) == b"last"
        assert (ours.recv(100), ours.recv(100)) == (b"", b"")
        ours.sendall(b"half open")
        ours.close()


def test_our_farewell(pair: Pair) -> None:
    ours, theirs = pair
    ours.sendall(b"last")
    ours.close()
    assert theirs.recv(100) == b"last"
    assert theirs.recv(100) == b""  # an error without the farewell


def test_a_connection_that_is_cut_off(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"before")
    cut_off(theirs)
    assert ours.recv(100) == b"before"
    with pytest.raises(TlsError, match="cut off"):
        ours.recv(100)


def test_bytes_that_were_changed(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(b"good")
    assert ours.recv(100) == b"good"
    descriptor = theirs.detach()
    os.write(descriptor, b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(TlsError, match=r"bad record mac|decryption failed"):
        ours.recv(100)
    os.close(descriptor)


def test_what_comes_after_our_end_is_counted_only(pair: Pair) -> None:
    ours, theirs = pair
    ours.shutdown(socket.SHUT_WR)
    assert theirs.recv(100) == b""
    theirs.sendall(b"more")
    cut_off(theirs)
    rest = ours.recv(65536)
    assert rest == bytes(len(rest)) != b""


def test_another_thread_ends_a_wait(pair: Pair) -> None:
    ours, _theirs = pair
    with in_parallel(lambda: ours.recv(100)) as raised:
        ours.shutdown(socket.SHUT_RDWR)
    assert isinstance(raised[0], ConnectionError)


def test_timeouts(pair: Pair) -> None:
    ours, theirs = pair
    ours.settimeout(0.05)
    with pytest.raises(TimeoutError):
        ours.recv(100)
    theirs.sendall(b"late")
    ours.settimeout(30)
    assert ours.recv(100) == b"late"


def test_without_blocking(pair: Pair) -> None:
    ours, theirs = pair
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        ours.recv(100)
    rest = memoryview(MUCH)
    blocked = 0
    received = b""
    while rest:
        try:
            rest = rest[ours.send(rest) :]
        except BlockingIOError:
            blocked += 1
            received += theirs.recv(1 << 20)
    with in_parallel(lambda: theirs.sendall(b"end")):
        received += read_all(theirs, len(MUCH) - len(received))
    assert received == MUCH
    assert blocked > 0
    select.select([ours], [], [], 30)
    assert ours.recv(100) == b"end"


def test_no_bytes_stay_behind_a_descriptor_that_is_not_ready(pair: Pair) -> None:
    ours, theirs = pair
    ours.setblocking(False)
    received = b""
    with in_parallel(lambda: theirs.sendall(MUCH)):
        while len(received) < len(MUCH):
            assert select.select([ours], [], [], 30)[0]
            try:
                received += ours.recv(65536)
            except BlockingIOError:
                pass  # a part of a record
    assert received == MUCH


def test_stale_connections(pair: Pair) -> None:
    ours, theirs = pair
    assert not ours.is_stale()
    ours.sendall(b"used")
    assert theirs.recv(100) == b"used"
    theirs.sendall(b"answer")
    assert ours.recv(100) == b"answer"
    assert not ours.is_stale()
    theirs.sendall(b"unexpected")
    select.select([ours], [], [], 30)
    assert ours.is_stale()


@pytest.mark.parametrize("end", ["unwrap", "close"])
def test_a_connection_that_was_closed_is_stale(pair: Pair, end: str) -> None:
    ours, theirs = pair
    theirs.settimeout(0.1)  # unwrap waits for our farewell
    with in_parallel(getattr(theirs, end)):
        await_true(ours.is_stale, "the end of the connection")


def test_tickets_of_a_session_are_no_unexpected_bytes(
    authority: Authority, issued: Certificate
) -> None:
    # A server of the standard library sends two after the handshake.
    ours, _theirs = our_client(authority, issued)
    select.select([ours], [], [], 30)
    assert not ours.is_stale()


def refusal(authority: Authority, issued: Certificate, name: str = "127.0.0.1") -> tuple[str, str]:
    """Why our client and our server refuse each other."""
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    client = TlsSocket(mine, client_context(authority.path), name)
    with in_parallel(server.shake_hands) as raised:
        with pytest.raises(HandshakeError) as caught:
            client.recv(100)
        client.close()
    server.close()
    return str(caught.value), str(raised[0])


def test_certificates_that_are_refused(authority: Authority, tmp_path: Path) -> None:
    good = authority.issue("127.0.0.1", "::1", "storage-1")
    assert refusal(Authority(tmp_path, "other"), good) == (
        "its certificate is not accepted: unable to get local issuer certificate",
        "tlsv1 alert unknown ca",
    )
    assert "IP address mismatch" in refusal(authority, good, "127.0.0.2")[0]
    assert "Hostname mismatch" in refusal(authority, good, "storage-2")[0]
    old = authority.issue("127.0.0.1", name="old", lifetime=-datetime.timedelta(days=1))
    assert refusal(authority, old) == (
        "its certificate is not accepted: certificate has expired",
        "sslv3 alert certificate expired",
    )


def test_a_common_name_is_no_name(authority: Authority) -> None:
    assert (
        "Hostname mismatch"
        in refusal(authority, authority.issue("127.0.0.1", name="storage-1"), "storage-1")[0]
    )


def test_an_authority_that_another_one_has_signed(authority: Authority, tmp_path: Path) -> None:
    signer = Authority(tmp_path, "signer", parent=authority)
    ours, theirs = our_client(signer, signer.issue("127.0.0.1"))
    theirs.sendall(b"accepted")
    assert ours.recv(100) == b"accepted"
    assert "unable to get local issuer" in refusal(authority, signer.issue("127.0.0.1"))[0]


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "storage-1"])
def test_names_that_are_accepted(authority: Authority, name: str) -> None:
    issued = authority.issue("127.0.0.1", "::1", "storage-1")
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    client = TlsSocket(mine, client_context(authority.path), name)
    with in_parallel(server.shake_hands) as raised:
        client.sendall(b"early")
        client.shake_hands()
    assert raised == []
    assert server.recv(100) == b"early"
    assert server.getpeername() == client.getsockname()


def test_an_old_version_is_refused(authority: Authority, issued: Certificate) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    with in_parallel(server.shake_hands) as raised, pytest.raises(ssl.SSLError):
        context.wrap_socket(mine)
    assert str(raised[0]) == "unsupported protocol"

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(issued.certificate, issued.key)
    mine, theirs = plain_pair()
    client = TlsSocket(mine, client_context(authority.path), "127.0.0.1")
    with in_parallel(client.shake_hands) as raised, pytest.raises(ssl.SSLError):
        context.wrap_socket(theirs, server_side=True)
    assert "protocol version" in str(raised[0])


def test_a_client_sends_nothing_before_it_has_verified_the_server(
    authority: Authority, tmp_path: Path
) -> None:
    issued = Authority(tmp_path, "other").issue("127.0.0.1", name="evil")
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    client = TlsSocket(mine, client_context(authority.path), "127.0.0.1")
    client.sendall(b"secret")
    with in_parallel(lambda: server.recv(100)) as raised:
        with pytest.raises(HandshakeError):
            client.recv(100)
        client.close()
    assert isinstance(raised[0], HandshakeError)


def test_more_than_may_wait_for_the_handshake(authority: Authority, issued: Certificate) -> None:
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    client = TlsSocket(mine, client_context(authority.path), "127.0.0.1")
    client.sendall(MUCH[:1000])
    with in_parallel(lambda: client.sendall(MUCH[1000:])):
        assert read_all(server, len(MUCH)) == MUCH


def test_a_handshake_has_a_deadline(issued: Certificate) -> None:
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    began = time.monotonic()
    with in_parallel(lambda: server.shake_hands(began + 0.3)) as raised:
        mine.sendall(b"\x16\x03\x01\x02\x00")
        sent = 0
        while not raised:  # one byte after the other does not put it off
            mine.sendall(b"\x00")
            sent += 1
            time.sleep(0.02)
    assert isinstance(raised[0], TimeoutError)
    assert sent < 500


def test_a_record_that_comes_byte_by_byte(authority: Authority, issued: Certificate) -> None:
    theirs, mine = plain_pair()
    server = TlsSocket(mine, server_context(issued.certificate, issued.key))
    with in_parallel(server.shake_hands):
        records = Records(authority, theirs)
    late = records.of(b"late" * 1000)
    server.settimeout(0.3)
    with in_parallel(lambda: server.recv(100)) as raised:
        sent = 0
        while not raised and sent < 1000:  # each byte is in time
            theirs.sendall(late[sent : sent + 1])
            sent += 1
            time.sleep(0.02)
    assert isinstance(raised[0], TimeoutError)
    assert sent < 1000
    assert server.gettimeout() == 0.3
    server.settimeout(30)
    theirs.sendall(late[sent:])
    assert read_all(server, 4000) == b"late" * 1000


def test_a_handshake_within_a_read_has_the_time_of_the_read(issued: Certificate) -> None:
    mine, theirs = plain_pair()
    server = TlsSocket(theirs, server_context(issued.certificate, issued.key))
    server.settimeout(0.3)
    with in_parallel(lambda: server.recv(100)) as raised:
        mine.sendall(b"\x16\x03\x01\x02\x00")
        sent = 0
        while not raised and sent < 500:
            mine.sendall(b"\x00")
            sent += 1
            time.sleep(0.02)
    assert isinstance(raised[0], TimeoutError)
    assert (sent < 500, server.gettimeout()) == (True, 0.3)


def test_records_without_data_have_an_end(authority: Authority, issued: Certificate) -> None:
    """They would keep a reader busy for ever. Here they are tickets."""

    def keep_reading() -> None:
        while select.select([ours], [], [], 30)[0]:
            with contextlib.suppress(BlockingIOError):
                ours.recv(65536)

    for blocks in (True, False):
        ours, _theirs = our_client(authority, issued, tickets=1000)
        ours.setblocking(blocks)
        with pytest.raises(TlsError, match="no data"):
            keep_reading()


def test_a_closed_connection_in_the_handshake(authority: Authority, issued: Certificate) -> None:
    mine, theirs = plain_pair()
    client = TlsSocket(mine, client_context(authority.path), "127.0.0.1")
    theirs.close()
    with pytest.raises(OSError, match=r"closed|reset"):
        client.recv(100)
    client.close()
    await_true(lambda: client.fileno() == -1, "the end of the socket")
