# SPDX-License-Identifier: Apache-2.0
"""The end of a command whose output pipe is closed by the reader, as ``head`` closes it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

#: The exit status that a shell shows for a program ended by a closed pipe.
EXIT_CLOSED_PIPE = 128 + signal.SIGPIPE


def end_with_reader(run: Callable[[], int]) -> int:
    """Run a command and return its exit status; end silently if its output pipe is closed.

    The default action of SIGPIPE would do the same, but also end a process on a closed socket.
    """
    try:
        status = run()
        sys.stdout.flush()  # otherwise the interpreter reports the error at its exit
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return EXIT_CLOSED_PIPE
    return status
