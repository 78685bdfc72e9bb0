# SPDX-License-Identifier: Apache-2.0
"""The limit of open files of this process: raised at start, and divided among its users.

Half of it is for connections of clients, half for all else.
"""

from __future__ import annotations

import resource

from martlet.log import get_logger

log = get_logger("martlet.server")

#: For a process without a limit.
_UNLIMITED = 1 << 20


def half_of_descriptors() -> int:
    """Raise the limit of open files to the most that is allowed; return half of it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return (hard if hard != resource.RLIM_INFINITY else _UNLIMITED) // 2


def connections_max(wanted: int) -> int:
    """Return the most connections of clients: as many as ``wanted``, by default half of the files.

    More than half is logged: the rest may not be enough for all else.
    """
    half = half_of_descriptors()
    if wanted > half:
        log.warning("max_connections=%d is above half of the limit of open files, %d", wanted, half)
    return wanted or half


def databases_max(wanted: int, each: int) -> int:
    """Return how many databases may be open: ``wanted``, or fewer if half of the files is less.

    :param each: how many descriptors each of them has open.
    """
    most = max(1, half_of_descriptors() // each)
    if wanted > most:
        shown = wanted, most
        log.warning("the limit of open files allows no database_pool_size=%d: it is %d", *shown)
    return min(wanted, most)
