# SPDX-License-Identifier: Apache-2.0
"""The addresses of this host."""

from __future__ import annotations

import socket


def is_local(address: str) -> bool:
    """Whether an address belongs to this host: only such an address can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
