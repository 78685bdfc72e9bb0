# SPDX-License-Identifier: Apache-2.0
"""The facts that filters may ask of the proxy application, about the path of a request.

A filter sends a HEAD down the pipeline with a callable in its environ (`LOOK_UP`). The application
calls it with a `Known` in place of serving the request. So the question takes the way of any other
request, and the answer is not bent into headers. `proxy.middleware.subrequest` has the functions
for filters.
"""

from __future__ import annotations

from martlet.http.request import Request
from proxy.lookup.info import Info, account_info, container_info
from proxy.lookup.usage import AccountUsage, Usage, account_usage, container_usage
from proxy.replicas.core import Core


class Known:
    """What the application knows, or finds out, of an account or of one of its containers."""

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
        """What the container holds right now."""
        return container_usage(self._core, self._req, self._account, self._container)

    def account_usage(self) -> AccountUsage | None:
        """What the account of the container holds, the container as it is right now."""
        info = container_info(self._core, self._req, self._account, self._container)
        policy = info["storage_policy"]
        return account_usage(self._core, self._req, self._account, self._container, policy)
