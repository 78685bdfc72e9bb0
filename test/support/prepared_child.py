"""The preparation of a child process of a test run, before its program."""

from __future__ import annotations

import ctypes
import signal


def prepare_child() -> None:
    """Let a killed test run end its cluster, and reset signals that nohup ignores."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
