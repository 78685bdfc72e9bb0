# SPDX-License-Identifier: Apache-2.0
"""A descriptor that becomes readable with each signal: a wait for it misses no signal.

Python runs the handler of a signal between two steps of the program. A signal can come after the
last step before a wait and before the wait itself. Its handler then runs when the wait ends: a wait
for a child, or for clients, may have no end. The descriptor is written to when the signal comes, so
a wait that begins later ends at once.
"""

from __future__ import annotations

import os
import signal

_READ_BYTES = 4096


class SignalBell:
    """The bell of this process; made in its main thread. There is one at a time.

    It rings for the signals that have a handler.
    """

    def __init__(self) -> None:
        self._incoming, self._outgoing = os.pipe()
        for descriptor in (self._incoming, self._outgoing):
            os.set_blocking(descriptor, False)
        # A pipe that is full rings as well.
        signal.set_wakeup_fd(self._outgoing, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._incoming

    def silence(self) -> None:
        """Call it after a wait; the handlers of all signals so far run before the next one."""
        try:
            os.read(self._incoming, _READ_BYTES)
        except BlockingIOError:
            pass  # it has not rung

    def remove(self) -> None:
        """Ring no more, as in a child process, which would ring at its parent."""
        signal.set_wakeup_fd(-1)
        os.close(self._incoming)
        os.close(self._outgoing)
