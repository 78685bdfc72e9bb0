# SPDX-License-Identifier: Apache-2.0
"""A cluster for a benchmark in a temporary directory, and the first requests to it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from load import HOST

START_SECONDS_MAX = 60.0
USER, KEY = "test:tester", "testing"


@contextmanager
def own_cluster(tree: Path | None = None, options: Sequence[str] | None = None) -> Iterator[Path]:
    """Run a cluster while the block runs; of the release that was built in ``tree``, if given.

    :param options: of ``martlet up``; by default there are no background jobs.
    """
    scripts = tree / ".venv" / "bin" if tree else Path(sysconfig.get_path("scripts"))
    martlet = scripts / "martlet"
    with tempfile.TemporaryDirectory(prefix="martlet-bench-") as directory:
        home = Path(directory) / "home"
        environment = {**os.environ, "MARTLET_HOME": str(home), "MARTLET_PORT": str(free_port())}
        if tree:
            server = tree / "build" / "bin" / "martlet-object-server"
            environment["MARTLET_OBJECT_SERVER"] = str(server)
        with (Path(directory) / "up.log").open("w+") as log:
            command = [str(martlet), "up", *(_quietly(martlet) if options is None else options)]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                _await_ready(process, Path(log.name))
                yield home
            finally:
                process.terminate()
                process.wait(30)


def _quietly(martlet: Path) -> list[str]:
    """The option that leaves background jobs out, if this release has it."""
    option = "--no-background"
    known = subprocess.run([martlet, "up", "--help"], check=True, capture_output=True, text=True)
    return [option] if option in known.stdout else []


def free_port() -> int:
    """A port without a listener."""
    from cluster.ports import PortPicker

    return PortPicker(taken=0).keep_or_pick(0)


def _await_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while "\nready " not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the cluster did not start:\n{log.read_text()}")
        time.sleep(0.05)


def login(port: int) -> tuple[str, str]:
    """Log in; return a token and the path of the account."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("GET", "/auth/v1.0", headers={"X-Auth-User": USER, "X-Auth-Key": KEY})
    response = connection.getresponse()
    response.read()
    connection.close()
    if response.status != 200:
        raise SystemExit(f"login failed with {response.status}")
    url = response.headers["X-Storage-Url"]
    return response.headers["X-Auth-Token"], urlsplit(url).path


def must(
    port: int,
    method: str,
    path: str,
    token: str,
    status: int,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> bytes:
    """Send a request that must be answered with ``status``; return the body."""
    connection = http.client.HTTPConnection(HOST, port, timeout=600)
    sent = {**(headers or {}), **({"X-Auth-Token": token} if token else {})}
    connection.request(method, path, body, sent)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    if response.status != status:
        raise SystemExit(f"{method} {path} answered {response.status}: {content[:200]!r}")
    return content
