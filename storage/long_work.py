# SPDX-License-Identifier: Apache-2.0
"""Work that occupies a thread of a device for long, such as the copy of a large database.

In each process at most half of the threads of a device do such work, so that requests get the
others.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from martlet.service.disk_calls import limits


class TooMuchWork(Exception):
    """Half of the threads of the device do long work already."""


_under_way: Counter[str] = Counter()


@contextlib.contextmanager
def long_work(device_path: str) -> Iterator[None]:
    """Do long work on a device.

    :raises TooMuchWork: the caller tries again later.
    """
    if _under_way[device_path] >= max(1, limits.threads_per_disk // 2):
        raise TooMuchWork(device_path)
    _under_way[device_path] += 1
    try:
        yield
    finally:
        _under_way[device_path] -= 1
