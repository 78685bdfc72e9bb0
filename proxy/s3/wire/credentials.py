# SPDX-License-Identifier: Apache-2.0
"""The credentials of a request: who claims to have signed it, and whether a secret proves that.

A request names an access key and has a signature, in its Authorization header or in its query,
in version 4 or 2. The auth filter to the right knows the secrets and checks the claim.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote_plus


class Message(NamedTuple):
    """A request as a signature covers it.

    :param path: PATH_INFO, a WSGI string.
    :param query: decoded pairs in their order, WSGI strings.
    :param headers: WSGI strings by lower-case name.
    :param resource: for version 2: the path with the bucket, percent-encoded.
    """

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: Mapping[str, str]
    resource: str = ""

    def parameter(self, name: str) -> str | None:
        """The first value of a parameter."""
        for key, value in self.query:
            if key == name:
                return value
        return None


class Chunks(NamedTuple):
    """The start of the chain of signatures of a body in signed chunks."""

    timestamp: str
    scope: str
    seed: str


class Claim(NamedTuple):
    """A signature that is yet to be checked.

    :param sign: secret -> the signature that it gives.
    :param signing_key: secret -> the key of chunks' signatures; None in version 2.
    :param other_string: another text that clients sign for such a request, if there is one.
    :param needs_secret: whether the text is none that Keystone can check for this version.
    :param content_sha256: the hash of the body that the signature covers, or a word in its place.
    """

    access_key: str
    signature: str
    string_to_sign: bytes
    sign: Callable[[str], str]
    is_presigned: bool = False
    signing_key: Callable[[str], bytes] | None = None
    content_sha256: str = ""
    chunks: Chunks | None = None
    canonical_request: bytes = b""
    other_string: bytes = b""
    sign_other: Callable[[str], str] | None = None
    needs_secret: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Whether the request has no signature."""
        return not self.access_key

    def is_proved_by(self, secret: str) -> bool:
        """Whether this secret gives the signature, compared in constant time."""
        if self._is_equal(self.sign(secret)):
            return True
        if self.sign_other is None or not self.other_string:
            return False
        return self._is_equal(self.sign_other(secret))

    def _is_equal(self, own: str) -> bool:
        given = self.signature.encode("latin-1", "replace")
        return hmac.compare_digest(own.encode("latin-1"), given)


def _no_signature(secret: str) -> str:
    raise AssertionError("a request without a signature is not checked")


#: The claim of a request without a signature.
ANONYMOUS = Claim(access_key="", signature="", string_to_sign=b"", sign=_no_signature)


def parse_query(query: str) -> list[tuple[str, str]]:
    """The decoded pairs of a query string, WSGI strings; without ``=`` the value is empty."""
    pairs = []
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        if name or value:
            pairs.append(
                (unquote_plus(name, encoding="latin-1"), unquote_plus(value, encoding="latin-1"))
            )
    return pairs
