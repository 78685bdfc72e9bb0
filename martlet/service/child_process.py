# SPDX-License-Identifier: Apache-2.0
"""A child process of a supervisor: it dies with its parent, and its end has words.

The parent must be single-threaded: the kernel ends the child when the parent's thread ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def start_child(
    command: Sequence[str],
    signal_mask: Iterable[int],
    inherited: Sequence[int] = (),
    output: BinaryIO | None = None,
    own_group: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program that the kernel kills when this process dies, even by ``kill -9``.

    ``signal_mask`` has the signals that the child blocks, ``inherited`` the open files that it
    keeps. Without an ``output`` it writes to that of this process. With ``own_group`` it gets a
    process group, so that a Ctrl-C in the terminal does not reach it.

    :raises OSError: the program cannot be started.
    """
    parent = os.getpid()

    def before_exec() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
        die_with(parent)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=inherited,
        preexec_fn=before_exec,
        process_group=0 if own_group else None,
    )


def die_with(parent: int) -> None:
    """Have the kernel end this child when its parent dies, even by ``kill -9``."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the prctl
        os._exit(1)


def exit_words(status: int) -> str:
    """The meaning of a process's exit status, in words."""
    if status >= 0:
        return f"ended with status {status}"
    known = {number.value: number.name for number in signal.Signals}
    return f"was killed by {known.get(-status, f'signal {-status}')}"


def is_alive(pid: int) -> bool:
    """Whether the process exists and has not ended; a zombie has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
