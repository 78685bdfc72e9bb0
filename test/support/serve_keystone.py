"""Keystone's own WSGI application, served by the standard library: ``CONF_DIRECTORY HOST PORT``.

Run by the Python of Keystone's virtual environment.
"""

import os
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer


class Server(ThreadingMixIn, WSGIServer):
    """A server with one thread for each connection."""

    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    """A handler without an access log."""

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve until killed."""
    directory, host, port = sys.argv[1:]
    del sys.argv[1:]  # Keystone would read them as well
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = directory
    from keystone.server.wsgi import (  # type: ignore[import-not-found]
        initialize_public_application,
    )

    server = Server((host, int(port)), Handler)
    server.set_app(initialize_public_application())
    server.serve_forever()


if __name__ == "__main__":
    main()
