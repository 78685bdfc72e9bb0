"""Passes of background jobs, each a fork of a process that has loaded their modules.

`martlet-background` starts its jobs in the same way. To load the modules for each pass takes a
third of a second of the processor, which is often more than the pass itself. The servers of
`grid_peers.py` are started so, too, and `martlet up` of `running_cluster.py`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from prepared_child import prepare_child

_PROGRAM = Path(__file__).with_name("pass_forker.py")
_ANSWER_BYTES_MAX = 100
_SECONDS_MAX = 300.0
_KILL_SECONDS_MAX = 30.0
_LOADS_JOBS = "replicator.preload:load_modules"
#: Processes without a pass at the moment, by the function that has loaded their modules.
_idle: dict[str, list[Forker]] = defaultdict(list)


class Forker:
    """A process that runs one pass after the other, each as a child of its own."""

    def __init__(self, loader: str) -> None:
        self.loader = loader
        # Each answer is a packet: two of them never come as one.
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(theirs.fileno()), loader],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            preexec_fn=prepare_child,
        )
        theirs.close()
        atexit.register(self.process.kill)

    @classmethod
    def take(cls, loader: str) -> Forker:
        """One that has no pass at the moment."""
        idle = _idle[loader]
        return idle.pop() if idle else cls(loader)

    def start(
        self,
        module: str,
        command: list[str],
        outputs: list[int],
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Fork the pass; return its process id. ``outputs`` are for its output and its log."""
        asked = {"module": module, "command": command, "environment": environment}
        request = json.dumps(asked, default=dict).encode()
        socket.send_fds(self.socket, [request], outputs)
        return self._answer()

    def await_end(self, timeout: float) -> int | None:
        """The exit status of the pass, or None if it has not ended in time, in seconds."""
        if not self.await_answer(timeout):
            return None
        status = self._answer()
        _idle[self.loader].append(self)
        return status

    def await_answer(self, timeout: float) -> bool:
        """Whether there is an answer to read in time, in seconds."""
        return bool(select.select([self.socket], [], [], timeout)[0])

    def _answer(self) -> int:
        answer = self.socket.recv(_ANSWER_BYTES_MAX)
        assert answer, "the process that forks passes has ended"
        return int(answer)


class Pass:
    """A pass, with the methods of `subprocess.Popen` that tests need; its output is text.

    ``command`` begins with the module of the job's program. Its output goes to the pipe ``output``
    if there is one. ``loader`` is the ``module:function`` that loads what passes share.
    """

    def __init__(self, *command: str, output: int | None = None, loader: str = _LOADS_JOBS) -> None:
        self._forker = Forker.take(loader)
        self._outputs = [os.memfd_create(name) for name in ("output", "log")]
        self._texts = ["", ""]
        written = self._outputs[0] if output is None else output
        self.pid = self._forker.start(command[0], list(command), [written, self._outputs[1]])
        self.returncode: int | None = None

    def communicate(self, timeout: float = _SECONDS_MAX) -> tuple[str, str]:
        """Wait for the end; return the output and the log.

        :raises subprocess.TimeoutExpired: it has not ended in time, in seconds.
        """
        if self.returncode is None:
            self.returncode = self._forker.await_end(timeout)
            if self.returncode is None:
                raise subprocess.TimeoutExpired("a pass", timeout)
            self._texts = [_content(one) for one in self._outputs]
        return self._texts[0], self._texts[1]

    def wait(self, timeout: float = _SECONDS_MAX) -> int:
        """As ``communicate``; return the status."""
        self.communicate(timeout)
        assert self.returncode is not None
        return self.returncode

    def kill_after(self, seconds: float) -> bool:
        """Kill it if it has not ended after so long; return whether it was killed."""
        try:
            self.communicate(seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, signal.SIGKILL)
            self.communicate(_KILL_SECONDS_MAX)
        return self.returncode == -signal.SIGKILL


def total_figures(passes: Iterable[Pass], must_succeed: bool = True) -> dict[str, float]:
    """Await each pass before the next one is taken; return the sums of their figures."""
    sums: dict[str, float] = {}
    for one in passes:
        output, log = one.communicate()
        assert not must_succeed or one.returncode == 0, log
        for name, value in json.loads(output).items():
            sums[name] = sums.get(name, 0) + value
    return sums


def _content(descriptor: int) -> str:
    """The text of a file in memory, which is then closed."""
    with open(descriptor, encoding="utf-8") as stream:
        stream.seek(0)
        return stream.read()
