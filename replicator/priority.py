# SPDX-License-Identifier: Apache-2.0
"""The priority of a process for the processor and for disks, on all of its threads.

On Linux both belong to a thread, and a new thread inherits those of the thread that starts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform

#: The classes of the I/O scheduler, by the names that OpenStack Swift has for them.
IONICE_CLASSES = {"IOPRIO_CLASS_RT": 1, "IOPRIO_CLASS_BE": 2, "IOPRIO_CLASS_IDLE": 3}

_CLASS_SHIFT = 13
_WHO_PROCESS = 1
#: The numbers of the system calls ioprio_set and ioprio_get, which the C library does not have.
_CALLS = {"x86_64": (251, 252), "aarch64": (30, 31), "riscv64": (30, 31), "ppc64le": (273, 274)}


def set_priority(nice: int | None, ionice_class: str, ionice_priority: int) -> None:
    """Set the priorities of all threads of this process; None and an empty class change nothing.

    :raises OSError: this user may not set them.
    :raises ValueError: priorities for disks are unknown on this processor.
    """
    for thread in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(ProcessLookupError):  # the thread has just ended
            if nice is not None:
                os.setpriority(os.PRIO_PROCESS, thread, nice)
            if ionice_class:
                value = IONICE_CLASSES[ionice_class] << _CLASS_SHIFT | ionice_priority
                _call(0, _WHO_PROCESS, thread, value)


def ionice_of(thread: int) -> tuple[int, int]:
    """The class and the priority of a thread for disks.

    :raises OSError: there is no such thread.
    """
    value = _call(1, _WHO_PROCESS, thread)
    return value >> _CLASS_SHIFT, value & ((1 << _CLASS_SHIFT) - 1)


def _call(which: int, *arguments: int) -> int:
    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        raise ValueError(f"ionice_class cannot be set on {platform.machine()}")
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(numbers[which], *arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
