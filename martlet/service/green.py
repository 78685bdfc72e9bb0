# SPDX-License-Identifier: Apache-2.0
"""eventlet in place of the standard library's blocking calls, for the processes that serve.

eventlet has a resolver of its own, on dnspython. It is off here: to load it takes two fifths of the
time in which a service starts, and it does not know nsswitch.conf. The C library looks names up in
a thread instead. Addresses, which rings have as a rule, need no thread.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: eventlet reads it when it is imported.
_NO_RESOLVER = "EVENTLET_NO_GREENDNS"
_is_done = False


def patch_standard_library() -> None:
    """Make blocking calls of the standard library yield to other green threads.

    Entry points call this before they import any other module of martlet. In a child of a process
    that has called it there is nothing left to do.
    """
    global _is_done
    if _is_done:
        return
    _is_done = True
    os.environ[_NO_RESOLVER] = "yes"
    with warnings.catch_warnings(), _without_asyncio():
        warnings.simplefilter("ignore")
        import eventlet
    eventlet.monkey_patch()
    _look_names_up_in_threads()


@contextmanager
def _without_asyncio() -> Iterator[None]:
    """Let eventlet import an empty module in place of asyncio.

    Only its hub on asyncio, which nothing here uses, needs the real one. That takes a tenth of the
    processor time in which a service starts.
    """
    if "asyncio" in sys.modules:
        yield
        return
    sys.modules["asyncio"] = ModuleType("asyncio")
    try:
        yield
    finally:
        del sys.modules["asyncio"]


def _look_names_up_in_threads() -> None:
    import eventlet.green.socket
    from eventlet import tpool

    look_up = _in_threads(socket.getaddrinfo)
    # The second one is for eventlet's create_connection, which the first module has by now.
    socket.getaddrinfo = look_up
    eventlet.green.socket.getaddrinfo = look_up
    # A forked worker has none of its parent's threads; this makes it start its own.
    os.register_at_fork(after_in_child=lambda: setattr(tpool, "_setup_already", False))


def _in_threads(getaddrinfo: Callable[..., Any]) -> Callable[..., Any]:
    from eventlet import tpool

    def look_up(
        host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """As ``socket.getaddrinfo``."""
        try:
            return getaddrinfo(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
        except socket.gaierror as error:
            if error.errno != socket.EAI_NONAME:
                raise
        return tpool.execute(getaddrinfo, host, port, family, type, proto, flags)

    return look_up
