# SPDX-License-Identifier: Apache-2.0
"""The answer of the rest of the pipeline, with its headers changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers

#: Gets the status and the headers of an answer, and changes the headers.
Change = Callable[[int, Headers], None]


def changed_answer(app: WSGIApp, change: Change) -> WSGIApp:
    """``app`` with the headers of its answers changed."""

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, header_list: HeaderList, exc_info: Any = None) -> Any:
            headers = Headers(header_list)
            change(int(status[:3]), headers)
            return start_response(status, headers.as_list(), exc_info)

        return app(environ, start)

    return answer
