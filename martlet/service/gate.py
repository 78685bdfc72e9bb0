# SPDX-License-Identifier: Apache-2.0
"""The gate before the pipeline of a storage service, with the handlers of its application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from martlet.conf.grid import GridConf
from martlet.grid.gate import Gate
from martlet.grid.handlers import Handler, Handlers
from martlet.grid.options import Options
from martlet.http.environ import WSGIApp


@runtime_checkable
class ServesGrid(Protocol):
    """An application that serves requests over the grid, too."""

    def grid_handlers(self) -> Mapping[str, Handler]:
        """Handlers by the name of their requests. They may run in any worker process."""


def behind_gate(app: WSGIApp, conf: GridConf, name: str) -> Gate:
    """The gate before a pipeline.

    :param name: this service, for the logs of others.
    """
    application = innermost(app)
    handlers = application.grid_handlers() if isinstance(application, ServesGrid) else {}
    options = Options(name=name, checksum=conf.checksum)
    return Gate(app, conf.secrets, conf.plain_http, Handlers(handlers), options)


def innermost(app: Any) -> Any:
    """The application of a pipeline; each filter has the next one as ``app``."""
    while (inner := getattr(app, "app", None)) is not None:
        app = inner
    return app
