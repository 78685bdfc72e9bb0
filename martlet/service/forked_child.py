# SPDX-License-Identifier: Apache-2.0
"""A child process that goes on as another program of this package, in a copy of this process.

The interpreter and the modules that this process has loaded are not loaded again. The child shares
their memory until one of the two writes to it. Else it is as if it had been started by its command:
it has the name, the arguments, the signals and the open files of such a process. It gets a hub of
eventlet for itself.

The parent must be single-threaded, and may have no green thread but that of its main program.
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
from typing import BinaryIO

from setproctitle import setproctitle

from martlet.service.child_process import die_with

#: The function of a program: from the words after its name to its exit status.
Main = Callable[[list[str]], int]


@dataclass
class ForkedChild:
    """A child, with what its parent needs of ``subprocess.Popen``."""

    pid: int
    #: None until the end has been noticed; then the status, or the negative number of a signal.
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while the child runs."""
        if self.returncode is None:
            self._await(os.WEXITED | os.WNOHANG)
        return self.returncode

    def wait(self) -> int:
        """Wait for the end; return the exit status, or the negative number of a signal."""
        if self.returncode is None:
            self._await(os.WEXITED)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        """Send SIGTERM, unless the child has ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless the child has ended."""
        self._signal(signal.SIGKILL)

    def _await(self, options: int) -> None:
        # Under eventlet os.waitpid would start its hub.
        ended = os.waitid(os.P_PID, self.pid, options)
        if ended is not None:
            is_exit = ended.si_code == os.CLD_EXITED
            self.returncode = ended.si_status if is_exit else -ended.si_status

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:  # until then the number belongs to this child
            os.kill(self.pid, number)


def fork_child(
    main: Main,
    command: Sequence[str],
    signal_mask: Iterable[int],
    inherited: Sequence[int] = (),
    output: BinaryIO | None = None,
    own_group: bool = True,
) -> ForkedChild:
    """Fork a child that runs ``main`` as the program of ``command``, and ends with its status.

    The kernel kills it when this process dies. The other parameters are those of ``start_child``.

    :raises OSError: there can be no further process.
    """
    parent = os.getpid()
    gc.freeze()  # else the child's collections would write to all objects, and so copy them
    pid = os.fork()
    if pid:
        if own_group:
            os.setpgid(pid, pid)  # here, too: whichever is first, the group is there when needed
        return ForkedChild(pid)
    status = 1
    try:
        if own_group:
            os.setpgid(0, 0)
        die_with(parent)
        if output is not None:
            for number in (1, 2):
                os.dup2(output.fileno(), number)
        _close_all_but(inherited)
        _leave_hub()
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


def _leave_hub() -> None:
    """Get another hub than the parent's, whose poller is closed."""
    if "eventlet.hubs" in sys.modules:
        sys.modules["eventlet.hubs"].use_hub()


def _become(command: Sequence[str]) -> None:
    sys.argv = list(command)
    sys.orig_argv = [sys.executable, *command]  # which a reload executes
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
