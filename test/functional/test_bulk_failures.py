"""Objects that an archive's report counts as stored exist, even if a server failed meanwhile."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

import pytest
from frozen import freeze
from running_cluster import RunningCluster, await_true
from swift_api import Account

FILES = 1000
VICTIM = "object-server-node2"


def content_of(name: str) -> bytes:
    return name.encode() * 100


def packed(names: list[str]) -> bytes:
    """Return a piece of an archive."""
    stream = io.BytesIO()
    opened = tarfile.open(fileobj=stream, mode="w")  # noqa: SIM115 (closing would end the archive)
    for name in names:
        info = tarfile.TarInfo(name)
        info.size = len(content_of(name))
        opened.addfile(info, io.BytesIO(content_of(name)))
    return stream.getvalue()


@contextmanager
def stopped(cluster: RunningCluster) -> Iterator[Callable[[], None]]:
    """Yield a function that stops the server; continue it at the end."""
    pid = cluster.pid_of(VICTIM)
    try:
        yield lambda: freeze(pid)
    finally:
        os.kill(pid, signal.SIGCONT)
    await_true(lambda: cluster.services()[VICTIM]["state"] == "ok", f"{VICTIM} answers again")


@contextmanager
def killed(cluster: RunningCluster) -> Iterator[Callable[[], None]]:
    """Yield a function that kills the server; wait for its restart at the end."""
    pid = cluster.pid_of(VICTIM)
    yield lambda: os.kill(pid, signal.SIGKILL)
    await_true(lambda: cluster.pid_of(VICTIM) != pid, f"a new process for {VICTIM}")
    await_true(lambda: cluster.services()[VICTIM]["state"] == "ok", f"{VICTIM} answers again")


@pytest.mark.parametrize("trouble", [stopped, killed])
def test_a_server_that_fails_under_an_archive(
    four_nodes: RunningCluster,
    trouble: Callable[[RunningCluster], Iterator[Callable[[], None]]],
) -> None:
    account = Account(four_nodes.port)
    container = f"bulk-{trouble.__name__}"
    assert account.call("PUT", container).status == 201
    names = [f"o{number}" for number in range(FILES)]
    with trouble(four_nodes) as begin:  # type: ignore[attr-defined]

        def body() -> Iterator[bytes]:
            yield packed(names[: FILES // 2])
            onlooker = account.again()
            # Some are stored, hundreds of others are in the sockets or in flight.
            await_true(lambda: onlooker.call("HEAD", container, names[50]).status == 200, "files")
            begin()
            onlooker.close()
            yield packed(names[FILES // 2 :])

        path = f"{account.path}/{container}?extract-archive=tar"
        report = account.send("PUT", path, {"Accept": "application/json"}, body()).json
    failed = {unquote(name).partition("/")[2] for name, _ in report["Errors"]}
    stored = [name for name in names if name not in failed]
    assert report["Number Files Created"] == len(stored)
    # Three of four servers are a quorum of every partition: no file has to fail.
    assert failed == set()
    for name in stored:
        found = account.call("GET", container, name)
        assert (found.status, found.body) == (200, content_of(name)), name
        assert found.headers["etag"] == hashlib.md5(content_of(name)).hexdigest()
    await_true(
        lambda: account.call("GET", container, limit=10000).lines == sorted(names), "the listing"
    )
    account.close()
