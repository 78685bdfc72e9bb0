"""The parser takes HTTP/1.1 as RFC 9112 has it and refuses everything else with a 4xx."""

from __future__ import annotations

import socket

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wsgi_calls import CHUNKED, HEAD, exchange, status_of


def test_the_environ(port: int) -> None:
    raw = (
        b"PUT /v1/a/c/%C3%BC%20x?format=json HTTP/1.1\r\nHost: h\r\nX-Object-Meta-A:  \xc3\xbc \r\n"
        b"x-two: 1\r\nX-Two: 2\r\nX_Two: evil\r\nContent-Length: 3\r\n\r\nabc"
    )
    answer = exchange(port, raw)
    assert status_of(answer) == 200
    lines = answer.partition(b"\r\n\r\n")[2].split(b"\n")
    for line in (
        b"REQUEST_METHOD=PUT",
        b"PATH_INFO=/v1/a/c/\xc3\xbc x",
        b"RAW_PATH_INFO=/v1/a/c/%C3%BC%20x",
        b"QUERY_STRING=format=json",
        b"HTTP_X_OBJECT_META_A=\xc3\xbc",
        b"HTTP_X_TWO=1,2",
        b"CONTENT_LENGTH=3",
        b"body=abc",
    ):
        assert line in lines
    assert b"evil" not in answer
    assert b"CONTENT_TYPE" not in answer, "none was sent, none is invented"


def test_chunked_bodies_and_kept_connections(port: int) -> None:
    chunked = (
        b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n"
    )
    answer = exchange(port, chunked + b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"body=abcde" in answer
    assert b"PATH_INFO=/b" in answer


def test_a_path_may_be_percent_encoded_in_part(port: int) -> None:
    answer = exchange(port, b"GET /\xc3\xbc%20%C3%BC HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"PATH_INFO=/\xc3\xbc \xc3\xbc\n" in answer


@pytest.mark.parametrize("wish", [b"close", b"TE, Close", b"close,", b"x\r\nConnection: close"])
def test_a_connection_is_closed_as_wished(port: int, wish: bytes) -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: " + wish + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(raw)
        while client.recv(65536):  # times out where the server keeps it
            pass


def test_any_word_is_a_method(port: int) -> None:
    answer = exchange(port, b"GETorHEAD_base / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"REQUEST_METHOD=GETorHEAD_base\n" in answer


def test_names_beyond_ascii_stay_the_bytes_they_are(port: int) -> None:
    for name in ("x-ü", "x-ß", "x-\U0001f44d", "x-ÿ"):
        raw = name.encode("utf-8")
        answer = exchange(
            port, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + raw + b": 1\r\n\r\n"
        )
        assert b"\nHTTP_X_" + raw[2:] + b"=1\n" in answer


def test_a_host_may_have_a_name_in_utf_8(port: int) -> None:
    answer = exchange(port, b"GET / HTTP/1.1\r\nHost: \xc3\xbc.example:80\r\n\r\n")
    assert b"HTTP_HOST=\xc3\xbc.example:80\n" in answer


def test_a_client_that_asks_to_keep_the_connection_gets_an_answer(port: int) -> None:
    assert b"\r\nConnection: " not in exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    new = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n"
    assert b"\r\nConnection: keep-alive\r\n" in exchange(port, new)
    old = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert b"\r\nConnection: keep-alive\r\n" in exchange(port, old)
    assert b"\r\nConnection: close\r\n" in exchange(port, b"GET / HTTP/1.0\r\n\r\n")


def test_the_absolute_form_names_the_path(port: int) -> None:
    answer = exchange(port, b"GET http://h:1/v1/a?x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"PATH_INFO=/v1/a\n" in answer


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET:/ / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A : 1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: 1\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\x00b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\rb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\x01b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\x1fb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: \x7f\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: 1", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nX-A: " + b"x" * 9000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 10_000 + b"\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
    ],
)
def test_refused(port: int, raw: bytes, status: int) -> None:
    answer = exchange(port, raw.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nHost: h\r\n", 1))
    assert status_of(answer) == status
    assert answer.partition(b"\r\n\r\n")[2], "a sentence says why"
    assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
@example(b"Expect:100-continue", True)
def test_no_bytes_stop_the_server(port: int, junk: bytes, in_headers: bool) -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\n" + junk if in_headers else junk
    answer = exchange(port, raw + b"\r\n\r\n")
    assert not answer or status_of(answer) in (100, 200, 400, 414, 501)
    assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: h\r\nHost: g\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n\n",
        b"GET a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PUT / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        HEAD + b"Content-Length: +3\r\n\r\nabc",
        CHUNKED + b"3\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nabc\n0\r\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\r\n\n",
        CHUNKED + b"3\r\nabc\r\n0\r\nA: b\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\r\nno colon\r\n\r\n",
        CHUNKED + b"3;" + b"x" * 2000 + b"\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_framing_that_two_parsers_may_read_in_two_ways(port: int, raw: bytes) -> None:
    answer = exchange(port, raw + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
    assert status_of(answer) in (400, 501)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"smuggled" not in answer


def test_the_host_of_an_absolute_form_counts(port: int) -> None:
    answer = exchange(port, b"GET http://g:1?x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"HTTP_HOST=g:1\n" in answer
    assert b"QUERY_STRING=x\n" in answer
