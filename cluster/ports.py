# SPDX-License-Identifier: Apache-2.0
"""The choice of free ports on this machine."""

from __future__ import annotations

import errno
import os
import random
import socket
from pathlib import Path

from cluster.errors import ClusterError

HOST = "127.0.0.1"
#: Names the port of the proxy.
PORT_VARIABLE = "MARTLET_PORT"
PORT_DEFAULT = "8080"
#: Names the range of the ports that are picked, as LOW-HIGH.
PORTS_VARIABLE = "MARTLET_PORTS"
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10240
_TRIES_MAX = 2000


def check_proxy_port(port: int) -> None:
    """Check that the proxy can listen on a port.

    :raises ClusterError: it cannot, with the reason.
    """
    problem = _bind_problem(port)
    if problem == errno.EADDRINUSE:
        raise ClusterError(
            f"port {port} is in use by another program: stop it, or set MARTLET_PORT to a free port"
        )
    if problem:
        raise ClusterError(f"cannot listen on port {port}: {os.strerror(problem)}")


class PortPicker:
    """A source of free ports, each returned once.

    The ports are below the kernel's range for outgoing connections. In that range a connection of
    the cluster itself could take the port of a server that is being restarted. A client of a dead
    server could even connect to itself. ``MARTLET_PORTS`` names another range.
    """

    def __init__(self, taken: int) -> None:
        """``taken`` is the proxy's port, which is never returned.

        :raises ClusterError: the range in the environment is not one.
        """
        self._taken = {taken}
        self._lowest, self._highest = _range()

    def keep_or_pick(self, port: int) -> int:
        """Return ``port`` if it is still free, otherwise a new one.

        :raises ClusterError: no free port was found.
        """
        if port and self._take(port):
            return port
        for _ in range(_TRIES_MAX):
            candidate = random.randint(self._lowest, self._highest)
            if self._take(candidate):
                return candidate
        raise ClusterError(f"no free port found between {self._lowest} and {self._highest}")

    def _take(self, port: int) -> bool:
        if port in self._taken or _bind_problem(port):
            return False
        self._taken.add(port)
        return True


def _bind_problem(port: int) -> int:
    """Bind the port as a server would; return the error number, or 0 if it can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.errno or errno.EADDRNOTAVAIL
    return 0


def _range() -> tuple[int, int]:
    """Return the lowest and the highest port to pick."""
    text = os.environ.get(PORTS_VARIABLE, "")
    if not text:
        return _LOWEST, _ephemeral_low() - 1
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) < 65536):
        raise ClusterError(f"{PORTS_VARIABLE} is {text!r}: give two ports as LOW-HIGH")
    return int(low), int(high)


def _ephemeral_low() -> int:
    try:
        low = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768  # the kernel's default
    return low if low > _LOWEST + 1024 else 32768
