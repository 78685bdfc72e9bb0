"""Objects whose time ends during an upgrade: the expirers of both releases delete them."""

from __future__ import annotations

import time

from api_clients import Clients
from running_cluster import await_true

_CONTAINER = "kept-for-a-while"
_COUNT = 16
#: The first of them are due while the first nodes change.
_SECONDS_FIRST, _SECONDS_EACH = 20, 3


class Expiring:
    """Writes the objects once."""

    def __init__(self, clients: Clients) -> None:
        assert clients.own.call("PUT", _CONTAINER).status == 201
        now = int(time.time())
        self._last = now + _SECONDS_FIRST + _SECONDS_EACH * _COUNT
        for number in range(_COUNT):
            until = {"X-Delete-At": str(now + _SECONDS_FIRST + _SECONDS_EACH * number)}
            answer = clients.own.call("PUT", _CONTAINER, f"o{number}", headers=until, body=b"x")
            assert answer.status == 201, answer

    def await_gone(self, clients: Clients) -> None:
        """Wait until all are due and no longer listed.

        :raises AssertionError: some stay.
        """
        await_true(
            lambda: time.time() > self._last and not clients.own.call("GET", _CONTAINER).lines,
            "expired objects are deleted",
        )
