"""A replica that is given up after the quorum: its writer ends without an error of its own."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from martlet.http.backend_client import BackendUpload
from proxy.replicas.fanout import Slot
from proxy.replicas.uploads import _Writer

NODE: Any = {"id": 0, "ip": "127.0.0.1", "port": 1, "device": "sd0"}


class ClosedUpload(BackendUpload):
    """Under eventlet a connection that is closed while it is read from raises EOFError."""

    def __init__(self) -> None:
        self.timeout = 30.0

    def send(self, chunk: bytes) -> None:
        pass

    def finish(self) -> Any:
        raise EOFError

    def abort(self) -> None:
        pass


def test_a_connection_that_was_given_up_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    slot = Slot(0, b"", NODE, ClosedUpload())
    done: queue.Queue[_Writer] = queue.Queue()
    writer = _Writer(slot, done, is_compared=False)
    writer.start()
    writer.offer(b"piece", 30)
    writer.offer(b"", 30)
    assert done.get(timeout=30) is writer
    assert (failures, writer.said, writer.error) == ([], None, None)
