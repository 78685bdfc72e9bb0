# SPDX-License-Identifier: Apache-2.0
"""A service that starts over in its own process: the sockets stay open, the workers go on.

The process executes its program anew, so that a new release is taken up as well as a new conf. Its
process id stays, and so do its children. What it hands to itself stands in an environment variable:
the listening sockets and the process ids of the workers, which end once others have taken over.

Before that, the same command line is run with ``--check``: a conf that cannot be used changes
nothing. Signals are held from before the change of programs until the new one can take them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

#: The option of every service that reads the conf and ends.
CHECK = "--check"

_VARIABLE = "MARTLET_RELOAD"
_ADDRESS_VARIABLE = "MARTLET_RELOAD_ADDRESS"
#: Between a parent and its workers, either way: "look what I have to say", and "make way".
WORD = signal.SIGRTMIN
_HELD = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, WORD)
_HELD_WITH_STOPS = (*_HELD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


@dataclass
class Estate:
    """Sockets and workers from before the process was executed anew; none at its first start."""

    address: str = ""  # that the sockets were bound to, as the conf named it
    listeners: list[socket.socket] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)  # process ids


def inherit() -> Estate:
    """Take over what this very process left; another one that got the variable has nothing."""
    found = json.loads(os.environ.pop(_VARIABLE, "{}"))
    if found.get("process") != os.getpid():
        return Estate()
    listeners = [socket.socket(fileno=number) for number in found["listeners"]]
    for listener in listeners:
        listener.set_inheritable(False)
    return Estate(found["address"], listeners, found["workers"])


def hold_signals() -> None:
    """Let the signals of a reload wait until ``take_signals``: as yet they would be the end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)


def hold_all_signals() -> None:
    """Let a stop wait, too. One that came before has been handled on return."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_WITH_STOPS)


def take_signals() -> None:
    """Take the signals that waited, and those to come."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_WITH_STOPS)


def start_check(address: str) -> int:
    """Have another process read the conf; its process id. Its exit status is 0 if all is well.

    ``address`` is what the service listens on.

    :raises OSError: it cannot be started.
    """
    environment = {**os.environ, _ADDRESS_VARIABLE: address}
    return os.posix_spawn(sys.executable, [*_command(), CHECK], environment)


def checked_address() -> str | None:
    """The address of the service that starts this check; None where an operator starts it."""
    return os.environ.get(_ADDRESS_VARIABLE)


def execute_anew(address: str, listeners: Iterable[socket.socket], workers: Iterable[int]) -> None:
    """Start over with these sockets and workers, all signals held. Does not return.

    :raises OSError: the program cannot be executed. Nothing has changed.
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
