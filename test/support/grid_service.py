# SPDX-License-Identifier: Apache-2.0
"""A server of the grid in a process of its own, under eventlet or in threads.

    python grid_service.py [--threads] [--port N] [--secret TEXT] [--checksum]
                           [--certificate FILE --key FILE]

It prints its port. Handlers: ``echo`` answers with the payload, ``slow`` after the seconds that the
payload names, ``never`` not at all, ``bad`` with an error, ``broken`` with an exception, ``pid``
with the process id, ``counters`` with counters as JSON. The stream ``tee`` sends its data back.
SIGTERM lets it drain; at SIGHUP it sends GOAWAY to all, and accepts others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from martlet.grid.handlers import GridCall
    from martlet.grid.stream import GridStream
    from martlet.http.environ import Environ, StartResponse
    from martlet.wsgi.tls_door import TlsDoor


_MODULES = (
    "martlet.grid.handlers",
    "martlet.grid.server",
    "martlet.http.response",
    "martlet.tls.contexts",
    "martlet.wsgi.listener",
    "martlet.wsgi.tls_door",
)


def load_for_threads() -> None:
    """Load what `main` imports, for processes that are forks of this one."""
    for name in _MODULES:
        importlib.import_module(name)


def load_for_eventlet() -> None:
    """The same with a standard library that is patched."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    load_for_threads()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--secret", default="none")
    parser.add_argument("--previous", default="")
    parser.add_argument("--checksum", action="store_true")
    parser.add_argument("--certificate", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--handshake-seconds", type=float, default=10.0)
    parser.add_argument("--unauthenticated-max", type=int, default=64)
    arguments = parser.parse_args()
    if not arguments.threads:
        from martlet.service.green import patch_standard_library

        patch_standard_library()
    Service(arguments).run()
    return 0


class Service:
    """The HTTP server, with the grid on its path."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from martlet.grid.handlers import Handlers
        from martlet.grid.options import Options
        from martlet.grid.secrets import Secrets
        from martlet.grid.server import GridServer

        self.is_threaded: bool = arguments.threads
        self.port: int = arguments.port
        self.certificate: str = arguments.certificate
        self.key: str = arguments.key
        self.door: TlsDoor | None = None
        self.handlers = Handlers(
            {
                "echo": lambda call: call.payload,
                "slow": slow,
                "never": never,
                "bad": bad,
                "broken": broken,
                "counters": self.counters,
                "pid": lambda call: str(os.getpid()).encode(),
            },
            {"tee": tee},
        )
        self.grid = GridServer(
            Secrets.parse(arguments.secret, arguments.previous),
            self.handlers,
            Options(name="service", checksum=arguments.checksum),
            arguments.unauthenticated_max,
            arguments.handshake_seconds,
        )

    def counters(self, call: GridCall) -> bytes:
        return json.dumps(
            {
                "refused": dict(self.grid.refusals.counts),
                "protocol_errors": self.grid.protocol_errors,
                "requests": self.handlers.requests,
                "connections": len(self.grid.connections),
                "unauthenticated": self.grid.unauthenticated,
                "tls_refused": self.door.refused if self.door else 0,
            }
        ).encode()

    def app(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        from martlet.grid.websocket import PATH
        from martlet.http.response import Response

        if environ["PATH_INFO"] == PATH:
            return self.grid(environ, start_response)
        body = environ["wsgi.input"].read()
        return Response(200, body=body or b"ok")(environ, start_response)

    def spawn(self, function: Callable[[], None]) -> None:
        if self.is_threaded:
            threading.Thread(target=function, daemon=True).start()
        else:
            import eventlet

            eventlet.spawn_n(function)

    def at_signal(self, number: signal.Signals, action: Callable[[], None]) -> None:
        bell = os.eventfd(0, os.EFD_NONBLOCK)

        def await_signals() -> None:
            while True:
                select.select([bell], [], [])
                os.eventfd_read(bell)
                action()

        signal.signal(number, lambda _number, _frame: os.eventfd_write(bell, 1))
        self.spawn(await_signals)

    def run(self) -> None:
        from martlet.tls.contexts import server_context
        from martlet.wsgi.limits import Limits
        from martlet.wsgi.listener import HttpServer
        from martlet.wsgi.tls_door import TlsDoor

        logging.basicConfig(stream=sys.stderr, level=logging.INFO)
        listener = socket.create_server(("127.0.0.1", self.port), backlog=1000)
        logger = logging.getLogger("wsgi")
        if self.certificate:
            self.door = TlsDoor(server_context(self.certificate, self.key), logger)
        server = HttpServer(
            listener, self.app, Limits(), logger, self.spawn, 1024, 10_000, self.door
        )
        self.at_signal(signal.SIGTERM, server.stop)
        self.at_signal(signal.SIGHUP, self.grid.drain)
        print(listener.getsockname()[1], flush=True)
        server.run()


def slow(call: GridCall) -> bytes:
    time.sleep(float(call.payload))
    return b"cancelled" if call.is_cancelled else b"done"


def never(call: GridCall) -> bytes:
    time.sleep(3600)
    return b""


def bad(call: GridCall) -> bytes:
    from martlet.grid.errors import Code
    from martlet.grid.handlers import HandlerError

    raise HandlerError(Code.BAD_PAYLOAD, "the payload is bad")


def broken(call: GridCall) -> bytes:
    raise RuntimeError("a detail")


def tee(call: GridCall, stream: GridStream) -> None:
    stream.write(call.payload)
    while data := stream.read():
        stream.write(data)


if __name__ == "__main__":
    sys.exit(main())
