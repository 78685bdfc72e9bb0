# SPDX-License-Identifier: Apache-2.0
"""The facts about the path of a request that the proxy application gives to filters.

A filter sends a HEAD down the pipeline with a callable in its environ (`LOOK_UP`). The application
calls it with a `Known` in place of serving the request. `proxy.middleware.subrequest` has the
functions for filters. A filter can also leave deletions to the expirer in this way.
"""

from __future__ import annotations

from collections.abc import Sequence

from martlet.http.request import Request
from martlet.words.timestamp import Timestamp
from proxy.lookup.info import Info, account_info, container_info
from proxy.lookup.usage import AccountUsage, Usage, account_usage, container_usage
from proxy.replicas.core import Core
from proxy.replicas.deletions import queue_deletions


class Known:
    """An account, or one of its containers, from the application's caches or the servers."""

    def __init__(self, core: Core, req: Request, account: str, container: str) -> None:
        self._core = core
        self._req = req
        self._account = account
        self._container = container

    def info(self) -> Info:
        """The container's information, or the account's where the path ends with it."""
        if self._container:
            return container_info(self._core, self._req, self._account, self._container)
        return account_info(self._core, self._req, self._account)

    def container_usage(self) -> Usage | None:
        """The objects and bytes in the container right now; None if no replica answers."""
        return container_usage(self._core, self._req, self._account, self._container)

    def account_usage(self) -> AccountUsage | None:
        """The objects and bytes in the account, with the container as it is right now."""
        info = container_info(self._core, self._req, self._account, self._container)
        policy = info["storage_policy"]
        return account_usage(self._core, self._req, self._account, self._container, policy)

    def delete_later(self, names: Sequence[str], due: Timestamp, *, withdraws: bool) -> bool:
        """Leave objects of the container to the expirer, as `queue_deletions` does."""
        place, trans_id = (self._account, self._container), self._req.trans_id
        return queue_deletions(self._core, trans_id, place, names, due, withdraws=withdraws)
