"""An HTTP server of ``martlet.wsgi`` in threads, and raw bytes to and from it.

Under eventlet the threads are green, and the sockets those of a service.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator

from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import Response
from martlet.service.disk_calls import is_green
from martlet.wsgi.limits import Limits
from martlet.wsgi.listener import HttpServer, Listener
from martlet.wsgi.stream import ClientStream
from martlet.wsgi.tls_door import TlsDoor

LIMITS = Limits(client_timeout=10.0, idle_timeout=10.0)


def show_request(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the received request."""
    try:
        body = environ["wsgi.input"].read()
    except (ValueError, OSError):  # the application must refuse a body that breaks off
        return Response(400)(environ, start_response)
    lines = [f"{k}={v}" for k, v in sorted(environ.items()) if k.isupper() or k.startswith("HTTP_")]
    lines.append("body=" + body.decode("latin-1"))
    return Response(200, body="\n".join(lines).encode("latin-1"))(environ, start_response)


def in_thread(function: Callable[[], None]) -> None:
    threading.Thread(target=function, daemon=True).start()


@contextlib.contextmanager
def serving(
    app: WSGIApp = show_request,
    limits: Limits = LIMITS,
    requests: int = 100,
    connections: int = 500,
    door: TlsDoor | None = None,
) -> Iterator[tuple[int, HttpServer]]:
    """Run a server in threads; yield its port and the server."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    logger = logging.getLogger("test.wsgi")
    server = HttpServer(
        _as_in_a_service(listener), app, limits, logger, in_thread, requests, connections, door
    )
    runner = threading.Thread(target=server.run)
    runner.start()
    yield listener.getsockname()[1], server
    server.stop()
    runner.join(10)
    listener.close()
    assert not runner.is_alive()


def _as_in_a_service(listener: socket.socket) -> Listener:
    if not is_green():
        return listener
    from martlet.service.hub_socket import HubListener

    return HubListener(listener)


def exchange(port: int, raw: bytes) -> bytes:
    """Send bytes, close the sending side, and read the whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        with contextlib.suppress(OSError):
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(65536):
                answer += piece
        return answer


def status_of(answer: bytes) -> int:
    return int(answer[9:12])


def stream_of(raw: bytes) -> ClientStream:
    """Return the stream of a client that sends these bytes and disconnects."""
    mine, theirs = socket.socketpair()

    def send() -> None:
        with theirs, contextlib.suppress(OSError):  # the reader may have closed it
            theirs.sendall(raw)

    in_thread(send)
    return ClientStream(mine, LIMITS)


HEAD = b"PUT /a HTTP/1.1\r\nHost: h\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
#: Bytes that change the meaning of a request wherever they get into it.
EDITS = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b"0",
    b"3",
    b"\x00",
    b"chunked",
    b"close",
    b"Host: h",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity",
    b"Content-Length: 3",
    b"Content-Length: 03",
    b"\r\nA: b",
    b";x=1",
    b"HTTP/1.0",
    b"/",
]


def refuse(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Refuse without reading the body."""
    return Response(401)(environ, start_response)
