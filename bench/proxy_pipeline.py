# SPDX-License-Identifier: Apache-2.0
"""The cost of the filters of the proxy's pipeline: CPU time per request above an empty application.

    .venv/bin/python bench/proxy_pipeline.py [--requests 20000]

It loads the pipeline with PasteDeploy, without a server. The application at its end asks tempauth
and answers 4 KiB (GET) or reads 4 KiB (PUT). The time of the same application without filters is
subtracted. The access log goes to /dev/null.
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.request import Request

BODY = b"x" * 4096
FILTERS = (
    "catch_errors gatekeeper healthcheck proxy-logging listing_formats cache tempauth copy "
    "proxy-logging"
)
OBJECT_HEADERS = [
    ("Content-Type", "application/octet-stream"),
    ("Etag", "d41d8cd98f00b204e9800998ecf8427e"),
    ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ("X-Timestamp", "1767225600.00000"),
    ("Accept-Ranges", "bytes"),
    ("X-Object-Meta-Color", "blue"),
    ("X-Backend-Timestamp", "1767225600.00000"),
    ("Content-Length", str(len(BODY))),
]


def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Ask for authorization if a filter offers it, and answer at once."""
    authorize = environ.get("swift.authorize")
    if authorize is not None and authorize(Request(environ)) is not None:
        raise RuntimeError("the benchmark's own request was refused")
    if environ["REQUEST_METHOD"] == "PUT":
        environ["wsgi.input"].read(65536)
        start_response("201 Created", [("Content-Length", "0"), ("Content-Type", "text/html")])
        return [b""]
    start_response("200 OK", OBJECT_HEADERS)
    return [BODY]


def application_factory(global_conf: dict[str, str], **local_conf: str) -> WSGIApp:
    """PasteDeploy's entry point."""
    return application


def load(directory: Path, access_log_level: str) -> WSGIApp:
    """The pipeline around ``application``."""
    from paste.deploy import loadapp

    (directory / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = bench\n"
    )
    sections = [f"[DEFAULT]\nswift_dir = {directory}\n[pipeline:main]\npipeline = {FILTERS} app\n"]
    sections.append("[app:app]\npaste.app_factory = proxy_pipeline:application_factory\n")
    for name in dict.fromkeys(FILTERS.split()):
        sections.append(f"[filter:{name}]\nuse = egg:martlet#{name.replace('-', '_')}\n")
        if name == "proxy-logging":
            sections.append(f"access_log_level = {access_log_level}\n")
        if name == "tempauth":
            sections.append("user_test_tester = testing .admin\n")
    conf = directory / "proxy-server.conf"
    conf.write_text("".join(sections))
    app: WSGIApp = loadapp(f"config:{conf}")
    return app


def environ_of(method: str, token: str) -> Environ:
    """An environ like that of the server."""
    environ: dict[str, Any] = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(BODY if method == "PUT" else b""),
        "wsgi.errors": None,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": "/v1/AUTH_test/container/object-000001",
        "RAW_PATH_INFO": "/v1/AUTH_test/container/object-000001",
        "CONTENT_TYPE": "application/octet-stream",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8080",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "40000",
        "GATEWAY_INTERFACE": "CGI/1.1",
        "HTTP_HOST": "127.0.0.1:8080",
        "HTTP_USER_AGENT": "bench/1.0",
        "HTTP_ACCEPT_ENCODING": "identity",
        "HTTP_X_AUTH_TOKEN": token,
    }
    if method == "PUT":
        environ["CONTENT_LENGTH"] = str(len(BODY))
    return environ


def cpu_microseconds(app: WSGIApp, method: str, token: str, count: int) -> float:
    """The CPU time of one request, including the creation of its environ."""

    def start_response(status: str, headers: object, exc_info: object = None) -> None:
        if status[0] != "2":
            raise RuntimeError(f"the benchmark's own request was answered with {status}")

    started = time.process_time()
    for _ in range(count):
        body = app(environ_of(method, token), start_response)
        for _chunk in body:
            pass
        close = getattr(body, "close", None)
        if close is not None:
            close()
    return (time.process_time() - started) / count * 1e6


def login(app: WSGIApp) -> str:
    """Log in; return a token for the benchmark's user."""
    headers = {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}
    _, answer, _ = call_app(app, Request.blank("/auth/v1.0", headers=headers).environ)
    return dict(answer)["X-Auth-Token"]


def main() -> None:
    """Print a line for each method with and without access log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=20000, help="requests of each kind")
    count = parser.parse_args().requests
    from martlet.log import setup_logging

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    setup_logging("INFO")
    for level in ("INFO", "WARNING"):
        with tempfile.TemporaryDirectory() as directory:
            app = load(Path(directory), level)
        token = login(app)
        for method in ("GET", "PUT"):
            cpu_microseconds(app, method, token, count // 10)  # warm up
            bare = cpu_microseconds(application, method, token, count)
            whole = cpu_microseconds(app, method, token, count)
            log = "on" if level == "INFO" else "off"
            print(f"{method} access log {log}: {whole - bare:.1f} us CPU a request in the filters")


if __name__ == "__main__":
    main()
