# SPDX-License-Identifier: Apache-2.0
"""Tells systemd that a service is ready (``Type=notify``, sd_notify(3))."""

from __future__ import annotations

import os
import socket

_VARIABLE = "NOTIFY_SOCKET"


def say_ready() -> None:
    """Send READY=1, if systemd waits for it. A failure is not worth an end of the service."""
    path = os.environ.get(_VARIABLE, "")
    if not path:
        return
    if path[0] == "@":
        path = "\0" + path[1:]  # an abstract socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.connect(path)
            out.send(b"READY=1")
    except OSError:
        pass
