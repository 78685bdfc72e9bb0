"""`martlet up` as a fork of a process that has loaded its modules and those of its services."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from forked_passes import Forker

_LOADER = "forked_up:load_modules"
_FOREVER = 1e9
#: Another thread may have read the end.
_LOOK_SECONDS = 0.5


def load_modules() -> None:
    """Load all that a cluster imports when it starts."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()  # before the other imports, as `martlet up` does
    for name in ("cluster.up_command", "replicator.background"):
        importlib.import_module(name)
    for kind in ("account", "container", "proxy"):
        importlib.import_module(f"{kind}.server").preload()


class ForkedUp:
    """A running `martlet up`, with what tests need of `subprocess.Popen`."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._forker = Forker.take(_LOADER)
        read_end, write_end = os.pipe()
        self.output: IO[str] = open(read_end, encoding="utf-8")  # noqa: SIM115
        self.pid = self._forker.start("cluster.command", command, [write_end] * 2, environment)
        os.close(write_end)
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        with self._lock:
            if self.returncode is None:
                self.returncode = self._forker.await_end(0)
            return self.returncode

    def wait(self, timeout: float = _FOREVER) -> int:
        """Wait for the end; return the exit status.

        :raises subprocess.TimeoutExpired: it has not ended in time, in seconds.
        """
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = deadline - time.monotonic()
            if left < 0:
                raise subprocess.TimeoutExpired("martlet up", timeout)
            self._forker.await_answer(min(left, _LOOK_SECONDS))
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)
