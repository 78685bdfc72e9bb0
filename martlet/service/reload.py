# SPDX-License-Identifier: Apache-2.0
"""Reload of a service in its own process: the sockets stay open, the workers go on.

The process executes its program again, so that a reload takes up a new release as well as a new
conf. Its process id and its children stay. An environment variable passes on the listening sockets
and the process ids of the workers. The old workers end when new ones have taken over.

Before that, the same command line is run with ``--check``: a conf that cannot be used changes
nothing. Signals are blocked from before the execution until the new program can handle them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

#: The option of every service to check the conf and exit.
CHECK = "--check"

_VARIABLE = "MARTLET_RELOAD"
_ADDRESS_VARIABLE = "MARTLET_RELOAD_ADDRESS"
#: From a worker to its parent: "read my state". From the parent to an old worker: "retire".
WORD = signal.SIGRTMIN
_HELD = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, WORD)
_HELD_WITH_STOPS = (*_HELD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


@dataclass
class Estate:
    """The sockets and workers from before a reload; none at the first start."""

    address: str = ""  # of the sockets, as the conf named it
    listeners: list[socket.socket] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)  # process ids


def inherit() -> Estate:
    """Take over the sockets and workers, if this same process has set the variable."""
    found = json.loads(os.environ.pop(_VARIABLE, "{}"))
    if found.get("process") != os.getpid():
        return Estate()
    listeners = [socket.socket(fileno=number) for number in found["listeners"]]
    for listener in listeners:
        listener.set_inheritable(False)
    return Estate(found["address"], listeners, found["workers"])


def hold_signals() -> None:
    """Block the signals of a reload until ``take_signals``: by default they end a process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)


def hold_all_signals() -> None:
    """Block the stop signals, too. One that came before has been handled on return."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_WITH_STOPS)


def take_signals() -> None:
    """Unblock all these signals; the pending ones are handled now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_WITH_STOPS)


def start_check(address: str) -> int:
    """Start a process that checks the conf, and return its id. It exits with 0 if the conf is good.

    ``address`` is the address on which the service listens.

    :raises OSError: it cannot be started.
    """
    environment = {**os.environ, _ADDRESS_VARIABLE: address}
    return os.posix_spawn(sys.executable, [*_command(), CHECK], environment)


def checked_address() -> str | None:
    """The address of the service that started this check; None if an operator started it."""
    return os.environ.get(_ADDRESS_VARIABLE)


def execute_anew(address: str, listeners: Iterable[socket.socket], workers: Iterable[int]) -> None:
    """Execute the program again with these sockets and workers, all signals blocked.

    It does not return.

    :raises OSError: the program cannot be executed; nothing has changed.
    """
    kept = list(listeners)
    estate = {
        "process": os.getpid(),
        "address": address,
        "listeners": [listener.fileno() for listener in kept],
        "workers": list(workers),
    }
    for listener in kept:
        listener.set_inheritable(True)
    try:
        os.execve(sys.executable, _command(), {**os.environ, _VARIABLE: json.dumps(estate)})
    except OSError:
        for listener in kept:
            listener.set_inheritable(False)
        raise


def _command() -> list[str]:
    return [sys.executable, *sys.orig_argv[1:]]
