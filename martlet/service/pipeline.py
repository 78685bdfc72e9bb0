# SPDX-License-Identifier: Apache-2.0
"""The pipeline of a proxy: its filters call each other without frames of C between them.

A filter is an object that Python calls through C. For each such call a green thread has 750 bytes
more on its stack of C, and copies its stack whenever it waits. So a filter gets the method that a
call of the next one runs: Python calls a method without C.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

from martlet.http.environ import WSGIApp


def create_pipeline(context: Any) -> WSGIApp:
    """Make the application of a context of PasteDeploy, as PasteDeploy would."""
    if context.object_type.name != "pipeline":
        app: WSGIApp = context.create()
        return app
    app = called_directly(context.app_context.create())
    filters = [one.create() for one in context.filter_contexts]
    for make in reversed(filters):
        app = called_directly(make(app))
    return app


def called_directly(app: WSGIApp) -> WSGIApp:
    """The method that a call of ``app`` runs; a function is itself."""
    method = getattr(type(app), "__call__", None)  # noqa: B004
    return MethodType(method, app) if isinstance(method, FunctionType) else app
