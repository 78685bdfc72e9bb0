# SPDX-License-Identifier: Apache-2.0
"""Which ports are free on this machine."""

from __future__ import annotations

import errno
import os
import random
import socket
from pathlib import Path

from cluster.errors import ClusterError

HOST = "127.0.0.1"
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10240
_TRIES_MAX = 2000


def check_proxy_port(port: int) -> None:
    """Make sure that the proxy will be able to listen.

    :raises ClusterError: it will not, with the reason.
    """
    problem = _bind_problem(port)
    if problem == errno.EADDRINUSE:
        raise ClusterError(
            f"port {port} is in use by another program: stop it, or set MARTLET_PORT to a free port"
        )
    if problem:
        raise ClusterError(f"cannot listen on port {port}: {os.strerror(problem)}")


class PortPicker:
    """Hands out ports that are free now, each once.

    They lie below the range that the kernel gives to outgoing connections. In that range a
    connection of the cluster itself could take the port of a server that is just being restarted,
    or a client that dials a dead server could be connected to itself.
    """

    def __init__(self, taken: int) -> None:
        """``taken`` is the proxy's port, which is never handed out."""
        self._taken = {taken}
        self._highest = _ephemeral_low() - 1

    def keep_or_pick(self, port: int) -> int:
        """``port`` if it can still be used, otherwise a new one.

        :raises ClusterError: no free port was found.
        """
        if port and self._take(port):
            return port
        for _ in range(_TRIES_MAX):
            candidate = random.randint(_LOWEST, self._highest)
            if self._take(candidate):
                return candidate
        raise ClusterError(f"no free port found between {_LOWEST} and {self._highest}")

    def _take(self, port: int) -> bool:
        if port in self._taken or _bind_problem(port):
            return False
        self._taken.add(port)
        return True


def _bind_problem(port: int) -> int:
    """The error number of binding the port as a server would; 0 if it can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno or errno.EADDRNOTAVAIL
    return 0


def _ephemeral_low() -> int:
    try:
        low = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768  # the kernel's default
    return low if low > _LOWEST + 1024 else 32768
