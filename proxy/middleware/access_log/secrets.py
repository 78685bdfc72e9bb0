# SPDX-License-Identifier: Apache-2.0
"""Secrets in an access line, cut so that a reader of the log cannot use them.

Of a token, or a signature in a URL, the line shows the beginning, so that lines with the same token
can be found. A key that a user chose may be shorter than that, so the line shows none of it.
"""

from __future__ import annotations

import re

_SIGNED_PARAMS = re.compile(
    r"\b((?:temp_url_sig|signature|swiftinfo_sig|x-amz-signature|x-amz-security-token)=)([^&#\s]*)",
    re.IGNORECASE,
)
_TOKEN_HEADERS = frozenset(
    [
        "authorization",
        "proxy-authorization",
        "x-auth-token",
        "x-container-sync-auth",
        "x-service-token",
        "x-storage-token",
        "x-subject-token",
    ]
)
_is_key_header = re.compile(
    r"cookie|x-auth-key|x-storage-pass|x-container-sync-key"
    r"|x-(?:account|container)-meta-temp-url-key(?:-2)?"
    r"|x-amz-(?:copy-source-)?server-side-encryption-customer-key",
    re.IGNORECASE,
).fullmatch
_HIDDEN = "..."


class AccessSecrets:
    """Shortens to ``reveal`` characters."""

    def __init__(self, reveal: int) -> None:
        self._reveal = reveal

    def token(self, secret: str) -> str:
        """A token or a signature, cut short."""
        return secret if len(secret) <= self._reveal else f"{secret[: self._reveal]}..."

    def url(self, text: str) -> str:
        """A URL or its query, with the signatures in it cut short."""
        return _SIGNED_PARAMS.sub(self._shorten, text) if "=" in text else text

    def header(self, name: str, value: str) -> str:
        """The value of a request header, without secrets."""
        if _is_key_header(name):
            return _HIDDEN
        return self.token(value) if name.lower() in _TOKEN_HEADERS else self.url(value)

    def _shorten(self, match: re.Match[str]) -> str:
        name, secret = match.groups()
        return f"{name}{self.token(secret)}"
