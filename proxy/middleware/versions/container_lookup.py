# SPDX-License-Identifier: Apache-2.0
"""Whether a container has versions, by its cached info."""

from __future__ import annotations

from martlet.conf.options import is_true
from martlet.http.environ import Environ, WSGIApp
from martlet.http.response import http_error
from proxy.lookup.info import Info
from proxy.middleware.subrequest import get_container_info

#: Of the sub-requests of object versioning, in the access log.
SOURCE = "OV"
#: The system metadata that says so, in ``Info``.
ENABLED_KEY = "versions-enabled"


class ContainerLookup:
    """Asks the rest of the pipeline."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app

    def info(self, environ: Environ, account: str, container: str) -> Info:
        """The info of a container.

        :raises HTTPException: 503 if it is unknown; a write would be made without versions.
        """
        info = get_container_info(environ, self._app, account, container, SOURCE)
        if info["status"] >= 500:
            raise http_error(503)
        return info

    def is_enabled(self, environ: Environ, account: str, container: str) -> bool:
        """Whether versioning is enabled now.

        :raises HTTPException: 503 if it is unknown.
        """
        return is_true(self.info(environ, account, container)["sysmeta"].get(ENABLED_KEY))

    def is_versioned(self, environ: Environ, account: str, container: str) -> bool:
        """Whether versioning is, or once was, enabled.

        :raises HTTPException: 503 if it is unknown.
        """
        return bool(self.info(environ, account, container)["sysmeta"].get(ENABLED_KEY))
