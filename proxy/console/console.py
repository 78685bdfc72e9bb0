# SPDX-License-Identifier: Apache-2.0
"""Serves the console below ``/console/``: files that run in the browser of a user.

The page logs in with the user's own credentials and talks to the Swift API of this proxy. The
files need no token. Only reseller admins get the view of the cluster below ``/console/api/``. Place
the filter left of s3api and of the auth filters.

Objects come from the same origin as the page. A browser gets them as documents in a sandbox, so
that a script in one of them cannot read the token of the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.response import Response, plain_error
from proxy.console.operators import Operators
from proxy.console.static_files import StaticFile, read_files

PREFIX = "/console/"
API = "/console/api/"
SETTINGS = "settings.json"
#: A signed request of the S3 API is about a bucket of the name "console".
_IS_S3_QUERY = re.compile(r"(^|&)(X-Amz-Signature|AWSAccessKeyId)=").search
#: An origin in a Content-Security-Policy: nothing that could begin another directive.
_IS_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'{origin}; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)
_SANDBOX = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"


@dataclass(frozen=True)
class ConsoleOptions:
    """``[filter:console]``."""

    auth_path: str = option("/auth/v1.0", "Path of this proxy at which tempauth issues tokens")
    keystone_url: str = option(
        "", "Public URL of Keystone's API v3, for passwords of Keystone; empty: tempauth"
    )
    sandbox_objects: bool = option(
        True, "Keep documents that are objects apart from the page, also those of web sites"
    )

    def __post_init__(self) -> None:
        if not self.auth_path.startswith("/") or self.auth_path.startswith("//"):
            raise ValueError("auth_path must begin with one slash")
        if self.keystone_url and not self.keystone_origin:
            raise ValueError("keystone_url must be like https://keystone.example.com:5000/v3")

    @property
    def keystone_origin(self) -> str:
        """Scheme, host and port of Keystone; empty if there is none."""
        try:
            parts = urlsplit(self.keystone_url)
        except ValueError:
            return ""
        origin = f"{parts.scheme}://{parts.netloc}"
        return origin if _IS_ORIGIN.fullmatch(origin) else ""

    @property
    def settings(self) -> dict[str, str]:
        """The settings that the page reads."""
        return {"auth_path": self.auth_path, "keystone_url": self.keystone_url.rstrip("/")}


class Console:
    """The filter."""

    def __init__(self, app: WSGIApp, options: ConsoleOptions, swift_dir: str) -> None:
        self._app = app
        self._operators = Operators(app, swift_dir)
        settings = json.dumps(options.settings).encode("utf-8")
        self._files = {**read_files(), SETTINGS: StaticFile.of(settings, "application/json")}
        self._sandbox_objects = options.sandbox_objects
        origin = options.keystone_origin
        self._headers = {
            "Content-Security-Policy": _POLICY.format(origin=f" {origin}" if origin else ""),
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a file of the console; pass other requests on."""
        path: str = environ["PATH_INFO"]
        is_ours = path.startswith("/console") and f"{path}/".startswith(PREFIX)
        if not is_ours or _is_s3(environ):
            if self._sandbox_objects and _is_navigation(environ):
                return self._app(environ, _sandboxed(start_response))
            return self._app(environ, start_response)
        return self._answer(environ, path)(environ, start_response)

    def _answer(self, environ: Environ, path: str) -> Response:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            allowed = {**self._headers, "Allow": "GET, HEAD"}
            return plain_error(405, "The console answers GET and HEAD only.\n", allowed).response
        if not path.startswith(PREFIX):
            return Response(301, {**self._headers, "Location": PREFIX})
        if path.startswith(API):
            answer = self._operators.answer(environ, path.removeprefix(API))
            for name, value in {**self._headers, "Cache-Control": "no-store"}.items():
                answer.headers[name] = value
            return answer
        file = self._files.get(path.removeprefix(PREFIX))
        if file is None:
            text = f"The console has no such file; its page is {PREFIX}\n"
            return plain_error(404, text, self._headers).response
        # no-cache: the browser keeps it and asks each time whether it is still the same.
        headers = {**self._headers, "Cache-Control": "no-cache", "Etag": file.etag}
        if environ.get("HTTP_IF_NONE_MATCH") == file.etag:
            return Response(304, headers)
        return Response(200, {**headers, "Content-Type": file.content_type}, file.body)


def _is_s3(environ: Environ) -> bool:
    is_signed = environ.get("HTTP_AUTHORIZATION", "").startswith("AWS")
    return is_signed or _IS_S3_QUERY(environ.get("QUERY_STRING", "")) is not None


def _is_navigation(environ: Environ) -> bool:
    """Whether a browser will show the answer, in a tab or a frame."""
    mode = environ.get("HTTP_SEC_FETCH_MODE")  # browsers send it by HTTPS only
    return mode == "navigate" or (mode is None and "text/html" in environ.get("HTTP_ACCEPT", ""))


def _sandboxed(start_response: StartResponse) -> StartResponse:
    """Give the document an origin of its own. A sandbox shows no PDF; a PDF runs no script."""

    def start(status: str, headers: HeaderList, exc_info: Any = None) -> Any:
        types = [value for name, value in headers if name.lower() == "content-type"]
        if len(types) != 1 or not _is_pdf(types[0]):
            headers = [*headers, ("Content-Security-Policy", _SANDBOX)]
        return start_response(status, headers, exc_info)

    return start


def _is_pdf(content_type: str) -> bool:
    """Whether a browser takes it as PDF: of several types in one value, the last one counts."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/pdf" and "," not in content_type


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Console]:
    """PasteDeploy's entry point."""
    options = load_filter_options(ConsoleOptions, "console", global_conf, local_conf)
    swift_dir = global_conf.get("swift_dir", "/etc/martlet")
    return lambda app: Console(app, options, swift_dir)
