# SPDX-License-Identifier: Apache-2.0
"""The queue of objects to delete: the names that OpenStack Swift's daemons and ours share.

An object with a time to delete has a task: a row in a container of a hidden account. The name of
the row is the time and the object's path. The objects of a day are spread over many containers. The
name of each is the start of the day minus a number, both in Unix seconds.
"""

from __future__ import annotations

from martlet.words.timestamp import Timestamp

EXPIRER_ACCOUNT = ".expiring_objects"
#: The time span of one container, seconds: a day.
EXPIRER_DIVISOR = 86400
EXPIRER_CONTAINERS_PER_DIVISOR = 100
#: The type of a task that deletes an object whatever its X-Delete-At.
ASYNC_DELETE_TYPE = "application/async-deleted"


def task_container(digest: bytes, delete_at: int) -> str:
    """The container for an object to delete at a time, Unix seconds.

    :param digest: the hash of the object's path.
    """
    start = delete_at // EXPIRER_DIVISOR * EXPIRER_DIVISOR
    return f"{max(0, start - int.from_bytes(digest, 'big') % EXPIRER_CONTAINERS_PER_DIVISOR):010d}"


def is_task_container(start: int, divisor: int = EXPIRER_DIVISOR) -> bool:
    """Whether a container may have this number as its name."""
    return -start % divisor < EXPIRER_CONTAINERS_PER_DIVISOR


def task_name(delete_at: int, account: str, container: str, obj: str) -> str:
    """The name of the task that deletes an object at a time, Unix seconds."""
    return f"{delete_at:010d}-{account}/{container}/{obj}"


def precise_task_name(delete_at: Timestamp, account: str, container: str, obj: str) -> str:
    """The name of a task that deletes what was written before a time, fractions included."""
    return f"{delete_at.normal}-{account}/{container}/{obj}"
