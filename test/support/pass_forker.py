"""The process whose forks are the passes of `forked_passes.py`, one after the other.

    python pass_forker.py SOCKET

A request is JSON, the module of a job's program and its arguments, with the files for the output
and the log. Two answers follow: the process id of the pass at once, and its status at its end.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from martlet.service.forked_child import Main

_REQUEST_BYTES_MAX = 1 << 16


def main() -> None:
    # Before eventlet has patched the class: a green one would wait in the hub of this process.
    connection = socket.socket(fileno=int(sys.argv[1]))
    from replicator.preload import load_modules

    load_modules()
    while _serve(connection):
        pass


def _serve(connection: socket.socket) -> bool:
    """Run the next pass; return false if there will be none."""
    from martlet.service.forked_child import fork_child

    request, outputs, _, _ = socket.recv_fds(connection, _REQUEST_BYTES_MAX, 2)
    if not request:
        return False
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)
    command = json.loads(request)
    run = partial(_run, importlib.import_module(command[0]).main)
    child = fork_child(run, command, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    connection.send(str(child.pid).encode())
    connection.send(str(child.wait()).encode())
    return True


def _run(program: Main, words: list[str]) -> int:
    from martlet.service.server import use_own_poller

    use_own_poller()  # that of the parent is closed
    return program(words)


if __name__ == "__main__":
    main()
