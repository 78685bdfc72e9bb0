"""The process whose forks are the passes of `forked_passes.py`, one after the other.

    python pass_forker.py SOCKET MODULE:FUNCTION

The function loads the modules that the passes share. A request is JSON: the module of a program,
the words of its command, and its environment if that is another one. The files for the output and
the log come with it. Two answers follow: the process id of the pass at once, and its status at its
end.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

_REQUEST_BYTES_MAX = 1 << 17


def main() -> None:
    # Before eventlet has patched the class: a green one would wait in the hub of this process.
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(True)  # a test under eventlet has made it otherwise
    module, _, function = sys.argv[2].partition(":")
    getattr(importlib.import_module(module), function)()
    while _serve(connection):
        pass


def _serve(connection: socket.socket) -> bool:
    """Run the next pass; return false if there will be none."""
    from martlet.service.forked_child import fork_child

    request, outputs, _, _ = socket.recv_fds(connection, _REQUEST_BYTES_MAX, 2)
    if not request:
        return False
    asked = json.loads(request)
    program = importlib.import_module(asked["module"]).main
    run = partial(_run, program, outputs, asked["environment"])
    child = fork_child(run, asked["command"], signal.pthread_sigmask(signal.SIG_BLOCK, ()), outputs)
    for output in outputs:  # the last writer of a pipe is the pass
        os.close(output)
    connection.send(str(child.pid).encode())
    connection.send(str(child.wait()).encode())
    return True


def _run(
    program: Callable[[], int],
    outputs: list[int],
    environment: dict[str, str] | None,
    _words: list[str],
) -> int:
    """Run the program, which finds its words in `sys.argv`."""
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
    for output in set(outputs):
        os.close(output)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    return program()


if __name__ == "__main__":
    main()
