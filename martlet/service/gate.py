# SPDX-License-Identifier: Apache-2.0
"""The gate before the pipeline of a storage service, with the handlers of its application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from martlet.conf.grid import GridConf
from martlet.grid.gate import Gate
from martlet.grid.handlers import Handler, Handlers
from martlet.grid.options import Options
from martlet.http.environ import WSGIApp
from martlet.http.request import Request
from martlet.http.traced import OpenSpan

#: Whether a request to a device is within the limits: its name and the method.
Admits = Callable[[str, str], bool]


def admits_all(device: str, method: str) -> bool:
    """Without limits."""
    return True


@runtime_checkable
class ServesGrid(Protocol):
    """An application that serves requests over the grid, too."""

    def grid_handlers(self, admits: Admits) -> Mapping[str, Handler]:
        """Handlers by the name of their requests. They may run in any worker process.

        :param admits: a request for which it is false gets 529.
        """


@runtime_checkable
class Limits(Protocol):
    """A filter whose limits hold for requests over the grid, too: these pass no filters."""

    def admits(self, device: str, method: str) -> bool:
        """Whether a request is within the limits; it counts then."""


@runtime_checkable
class MakesSpans(Protocol):
    """A filter with the trace of each request, also of those over the grid."""

    def begin_span(self, req: Request) -> OpenSpan | None:
        """The span of a request that begins now; None if it is not traced."""


@runtime_checkable
class IsTraced(Protocol):
    """An application whose requests can be traced."""

    def use_spans(self, filter_: MakesSpans) -> None:
        """Ask this filter for the span of each request."""


def behind_gate(app: WSGIApp, conf: GridConf, name: str, max_clients: int) -> Gate:
    """The gate before a pipeline.

    :param name: this service, for the logs of others.
    :param max_clients: requests over the grid that are served in parallel; further ones wait.
    """
    *filters, application = _pipeline(app)
    limits = [part.admits for part in filters if isinstance(part, Limits)]

    def admits(device: str, method: str) -> bool:
        return all(is_within(device, method) for is_within in limits)

    handlers = application.grid_handlers(admits) if isinstance(application, ServesGrid) else {}
    for part in filters:
        if isinstance(part, MakesSpans) and isinstance(application, IsTraced):
            application.use_spans(part)
    options = Options(name=name, checksum=conf.checksum)
    return Gate(
        app, conf.secrets, conf.plain_http, Handlers(handlers, threads_max=max_clients), options
    )


def innermost(app: Any) -> Any:
    """The application of a pipeline."""
    return list(_pipeline(app))[-1]


def _pipeline(app: Any) -> Iterator[Any]:
    """The filters and the application; each filter has the next one as ``app``."""
    while app is not None:
        yield app
        app = getattr(app, "app", None)
