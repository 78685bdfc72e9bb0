"""The proxy application as a filter sees it: infos of accounts and containers, and uploads.

Uploads are read to their end in small pieces and stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response, error_response
from proxy.lookup.info import INFO_WANTED
from proxy.lookup.usage import ACCOUNT_USAGE_WANTED, CONTAINER_USAGE_WANTED, AccountUsage, Usage


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
        if INFO_WANTED in environ:
            depth = environ["PATH_INFO"].count("/")
            environ[INFO_WANTED].append(self.account if depth == 2 else self.container)
            return Response(204)(environ, start_response)
        for key, usage in (
            (CONTAINER_USAGE_WANTED, self.usage),
            (ACCOUNT_USAGE_WANTED, self.account_usage),
        ):
            if key in environ:
                self.looks += 1
                environ[key].append(usage)
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
