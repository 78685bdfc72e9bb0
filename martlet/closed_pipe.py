# SPDX-License-Identifier: Apache-2.0
"""What a command does when the reader of its output goes away, as ``head`` does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

#: What a shell shows of a program that a closed pipe has ended.
EXIT_CLOSED_PIPE = 128 + signal.SIGPIPE


def end_with_reader(run: Callable[[], int]) -> int:
    """Runs a command; without a word it ends where the reader of what it prints is gone.

    A signal would do the same, but it would also end whoever has a socket open.
    """
    try:
        status = run()
        sys.stdout.flush()  # what fails now would be said by the interpreter on its way out
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return EXIT_CLOSED_PIPE
    return status
