# SPDX-License-Identifier: Apache-2.0
"""A sample service of `martlet.service.server`: real processes, a real socket."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from running_cluster import free_port

APP = """
    import os
    import time
    from martlet.http.request import Request
    from martlet.http.response import Response
    from martlet.log import get_logger, log_request

    class App:
        def __init__(self, word):
            self.word = word

        def __call__(self, environ, start_response):
            req = Request(environ)
            if req.path.startswith("/logged-"):
                log_request(get_logger("sample"), f"request path={req.path}")
            if req.path == "/word":
                return Response(200, body=self.word)(environ, start_response)
            if req.method == "PUT":
                return Response(201, body=str(len(req.body_file.read())))(environ, start_response)
            return Response(200, body=str(os.getpid()))(environ, start_response)

        def grid_handlers(self, admits):
            return {"pid": lambda call: b"%d" % os.getpid(), "await": self.await_file}

        def await_file(self, call):
            path = call.payload.decode()
            open(path + ".begun", "w").close()
            while not os.path.exists(path):
                time.sleep(0.01)
            return b"%d" % os.getpid()

    def app_factory(global_conf, **conf):
        return App(conf.get("word", ""))
"""
MAIN = """
    import sys
    from martlet.service.green import patch_standard_library
    patch_standard_library()
    from martlet.service import server
    server.GRACE_SECONDS = 1000.0  # a server that waits for an idle connection never ends
    sys.exit(server.run_service("martlet-sample-server", "a sample", kind=server.{kind}))
"""
# Code that runs just before the process re-executes its program.
AT_EXECUTION = """\
import os, signal, sys
import martlet.service.server
def execute(*arguments, execute_anew=martlet.service.server.execute_anew):
    {}
    execute_anew(*arguments)
martlet.service.server.execute_anew = execute
"""


class Service:
    """A sample service in its own directory.

    :param kind: of its options: with StorageServerOptions it is a storage service.
    """

    def __init__(
        self, directory: Path, workers: int, at_execution: str = "", kind: str = "ServerOptions"
    ) -> None:
        self.directory = directory
        self.port = free_port()
        (directory / "sample_app.py").write_text(textwrap.dedent(APP))
        self.write_main(kind, at_execution)
        self.write_grid("grid_secret = none\n")
        self.conf = directory / "sample.conf"
        self.write_conf(f"bind_port = {self.port}\nworkers = {workers}\n")
        self.process: subprocess.Popen[str] | None = None

    def write_conf(self, defaults: str, word: str = "") -> None:
        self.conf.write_text(
            f"[DEFAULT]\nbind_ip = 127.0.0.1\nswift_dir = {self.directory}\n{defaults}"
            f"[app:main]\npaste.app_factory = sample_app:app_factory\nword = {word}\n"
        )

    def write_main(self, kind: str = "ServerOptions", at_execution: str = "") -> None:
        """Write the program."""
        main = textwrap.dedent(MAIN).format(kind=kind)
        if at_execution:
            main = AT_EXECUTION.format(at_execution) + main
        (self.directory / "main.py").write_text(main)

    def write_grid(self, options: str) -> None:
        """Write martlet.conf."""
        text = f"[grid]\n{options}[swift-hash]\nswift_hash_path_suffix = x\n"
        (self.directory / "martlet.conf").write_text(text)

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def start(self, into_log: bool = False) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            self._command,
            env=self._environment,
            stderr=self.log_path.open("a") if into_log else subprocess.PIPE,
            text=True,
        )
        return self.process

    def check(self) -> subprocess.CompletedProcess[str]:
        command = [*self._command, "--check"]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=60, check=False
        )

    @property
    def _command(self) -> list[str]:
        return [sys.executable, str(self.directory / "main.py"), str(self.conf)]

    @property
    def _environment(self) -> dict[str, str]:
        paths = [str(self.directory), *sys.path]  # the martlet under test
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.connect()
        return connection

    def get_pid(self) -> int:
        return int(self.get("/"))

    def get(self, path: str) -> str:
        connection = self.connect()
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()


def wait_until(condition: Callable[[], object]) -> None:
    """Poll until true; a condition may fail with OSError while the server is not ready."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    raise AssertionError("the condition did not come true in 60 s")
