"""An application for filters' tests with infos of accounts and containers and fixed answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from martlet.http.environ import LOOK_UP, Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response

Answer = Callable[[Environ], Response]


class StorageApp:
    """The application at the end of a pipeline; ``infos`` has infos by path (WSGI string).

    ``seen`` has the environ of each request, except requests for an info; ``bodies`` has their
    bodies.
    """

    def __init__(
        self, infos: Mapping[str, Mapping[str, Any]] | None = None, answer: Answer | None = None
    ) -> None:
        self.infos = dict(infos or {})
        self.answer = answer or (lambda environ: Response(200, {}, b"body"))
        #: The ACL that applies to each request.
        self.acl: str | None = None
        self.seen: list[Environ] = []
        self.bodies: list[bytes] = []
        self._noting = threading.Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if LOOK_UP in environ:
            unknown = {"status": 404, "meta": {}, "sysmeta": {}}
            info = self.infos.get(environ["PATH_INFO"], unknown)
            environ[LOOK_UP](SimpleNamespace(info=lambda: info))
            return Response(204)(environ, start_response)
        with self._noting:  # requests of several threads are in the same order in both lists
            self.seen.append(environ)
            self.bodies.append(environ["wsgi.input"].read())
        request = Request(environ)
        request.acl = self.acl
        refusal = environ.get("swift.authorize", lambda request: None)(request)
        response = refusal or self.answer(environ)
        return response(environ, start_response)

    @property
    def environ(self) -> Environ:
        """The environ of the last request."""
        return self.seen[-1]

    @property
    def calls(self) -> list[str]:
        """Method and path of each request."""
        return [f"{e['REQUEST_METHOD']} {e['PATH_INFO']}" for e in self.seen]


def account(**meta: str) -> dict[str, Any]:
    """Return the info of an account; ``_`` in metadata names stands for ``-``."""
    return {"status": 200, "meta": _named(meta), "sysmeta": {}}


def container(read_acl: str | None = None, **meta: str) -> dict[str, Any]:
    """Return the info of a container."""
    return {
        "status": 200,
        "read_acl": read_acl,
        "storage_policy": 0,
        "sync_to": None,
        "sync_key": None,
        "meta": _named(meta),
        "sysmeta": {},
    }


def _named(meta: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in meta.items()}
