"""The proxy application as a filter sees it: infos of accounts and containers, and uploads.

Uploads are read to their end in small pieces and stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from martlet.http.environ import LOOK_UP, Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response, error_response
from proxy.lookup.usage import AccountUsage, Usage


class FakeProxy:
    """A fake proxy: ``containers`` and ``account`` are cached infos, ``usage`` is exact."""

    def __init__(self) -> None:
        self.account: dict[str, Any] = {
            "status": 200,
            "bytes": 0,
            "total_object_count": 0,
            "meta": {},
            "sysmeta": {},
        }
        self.container: dict[str, Any] = {
            "status": 200,
            "bytes": 0,
            "object_count": 0,
            "write_acl": None,
            "storage_policy": 0,
            "meta": {},
            "sysmeta": {},
        }
        self.usage: Usage | None = Usage(0, 0)
        self.account_usage: AccountUsage | None = None
        self.headers: dict[str, str] = {}
        self.stored: dict[str, bytes] = {}
        self.requests: list[Environ] = []
        self.looks = 0

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if LOOK_UP in environ:
            environ[LOOK_UP](_Known(self, environ["PATH_INFO"]))
            return Response(204)(environ, start_response)
        self.requests.append(environ)
        try:
            response = self._respond(Request(environ))
        except HTTPException as error:
            response = error.response
        return response(environ, start_response)

    def _respond(self, req: Request) -> Response:
        check = req.environ.get("swift.authorize")
        if check is not None and (denial := check(req)) is not None:
            refused: Response = denial
            return refused
        if req.method != "PUT" or req.environ["PATH_INFO"].count("/") < 4:
            return Response(204, self.headers)
        if self.container["status"] != 200:
            return error_response(404)
        stream: Any = req.body_file
        body = b"".join(iter(lambda: stream.read(3), b""))
        self.stored[req.environ["PATH_INFO"]] = body
        return Response(201)


class _Known:
    """What the application tells filters, as `proxy.lookup.known.Known` does."""

    def __init__(self, proxy: FakeProxy, path: str) -> None:
        self._proxy = proxy
        self._path = path

    def info(self) -> dict[str, Any]:
        is_account = self._path.count("/") == 2
        return self._proxy.account if is_account else self._proxy.container

    def container_usage(self) -> Usage | None:
        self._proxy.looks += 1
        return self._proxy.usage

    def account_usage(self) -> AccountUsage | None:
        self._proxy.looks += 1
        return self._proxy.account_usage
