# SPDX-License-Identifier: Apache-2.0
"""A child process that goes on as another program of this package, in a copy of this process.

The interpreter and the modules that this process has loaded are not loaded again. The child shares
their memory until one of the two writes to it. Else it is as if it had been started by its command:
it has the name, the arguments, the signals and the open files of such a process.

The parent must be single-threaded, and must not have used eventlet's hub.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from setproctitle import setproctitle

from martlet.service.child_process import die_with

#: The function of a program: from the words after its name to its exit status.
Main = Callable[[list[str]], int]


@dataclass(frozen=True)
class ForkedChild:
    """A child, by its process id, until it is waited for."""

    pid: int

    def wait(self) -> int:
        """Wait for the end; return the exit status, or the negative number of a signal."""
        # Under eventlet os.waitpid would start its hub, which the next children would share.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED)
        assert ended is not None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def fork_child(
    main: Main,
    command: Sequence[str],
    signal_mask: Iterable[int],
    inherited: Sequence[int] = (),
) -> ForkedChild:
    """Fork a child that runs ``main`` as the program of ``command``, and ends with its status.

    It is in a process group of its own, and the kernel kills it when this process dies.
    ``signal_mask`` has the signals that it blocks, ``inherited`` the open files that it keeps.

    :raises OSError: there can be no further process.
    """
    parent = os.getpid()
    gc.freeze()  # else the child's collections would write to all objects, and so copy them
    pid = os.fork()
    if pid:
        os.setpgid(pid, pid)  # here, too: whichever is first, the group is there when it is used
        return ForkedChild(pid)
    status = 1
    try:
        os.setpgid(0, 0)
        die_with(parent)
        _close_all_but(inherited)
        _become(command)
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
        status = _status_of(main, list(command[1:]))
    finally:
        os._exit(status)  # the steps of the parent are not those of the child


def _close_all_but(inherited: Sequence[int]) -> None:
    """Keep the output, and nothing to read; a program that is executed has no other files."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in inherited:
            try:
                os.close(number)
            except OSError:
                pass  # the listing itself


def _become(command: Sequence[str]) -> None:
    sys.argv = list(command)
    # The kernel's short name, for `ps` and `top`, is that of the script in front.
    setproctitle(" ".join((Path(command[0]).name, *command[1:])))


def _status_of(main: Main, words: list[str]) -> int:
    """Run the program to its end, as the interpreter does."""
    try:
        status = main(words) or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status
