# SPDX-License-Identifier: Apache-2.0
"""Refuses names that the operator forbids: names with certain characters, or too long.

It checks the whole path before any other filter reads it. Place it right of the first
proxy-logging.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import error_response
from proxy.info_registry import register_info

_WHAT = "Object/Container/Account name"


@dataclass(frozen=True)
class NameCheckOptions:
    """``[filter:name_check]``."""

    forbidden_chars: str = option("'\"`<>", "Characters that no path may contain")
    maximum_length: int = option(255, "Longest path", "bytes")
    forbidden_regexp: str = option(
        r"/\./|/\.\./|/\.$|/\.\.$", "Regular expression that no path may match; empty: none"
    )

    def __post_init__(self) -> None:
        try:
            re.compile(self.forbidden_regexp)
        except re.error as error:
            raise ValueError(f"forbidden_regexp is not a regular expression: {error}") from None


class NameCheck:
    """The filter."""

    def __init__(self, app: WSGIApp, options: NameCheckOptions) -> None:
        self._app = app
        self._options = options
        # Paths are WSGI strings: one character a byte.
        chars = options.forbidden_chars.encode("utf-8").decode("latin-1")
        self._has_forbidden_char = re.compile(f"[{re.escape(chars)}]").search if chars else None
        regexp = options.forbidden_regexp
        self._is_forbidden = re.compile(regexp).search if regexp else None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 400 for a forbidden path; pass other requests on."""
        complaint = self._complaint(environ["PATH_INFO"])
        if complaint:
            return error_response(400, f"{_WHAT} {complaint}")(environ, start_response)
        return self._app(environ, start_response)

    def _complaint(self, path: str) -> str:
        options = self._options
        if self._has_forbidden_char and self._has_forbidden_char(path):
            return f"contains forbidden chars from {options.forbidden_chars}"
        if len(path) > options.maximum_length:
            return f"longer than the allowed maximum {options.maximum_length}"
        if self._is_forbidden and self._is_forbidden(path):
            return f"contains text that the regular expression {options.forbidden_regexp} forbids"
        return ""


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], NameCheck]:
    """PasteDeploy's entry point."""
    options = load_filter_options(NameCheckOptions, "name_check", global_conf, local_conf)
    register_info(
        "name_check",
        forbidden_chars=options.forbidden_chars,
        maximum_length=options.maximum_length,
        forbidden_regexp=options.forbidden_regexp,
    )
    return lambda app: NameCheck(app, options)
