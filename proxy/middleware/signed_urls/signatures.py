# SPDX-License-Identifier: Apache-2.0
"""Signatures of temporary URLs and of forms: HMACs under a key of the account or the container.

A signature is written in hex, and its length determines the digest. Or it is ``sha256:`` and
base64, with either alphabet and with or without padding.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from calendar import timegm
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from martlet.http.environ import Environ, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from martlet.words.names import BadNameError, wsgi_to_str
from proxy.middleware.subrequest import get_account_info, get_container_info
from proxy.s3.policies.guard import guarded
from proxy.s3.wire.policy import Client

DIGESTS = ("sha1", "sha256", "sha512")
#: Still accepted, but listed in /info as deprecated.
DEPRECATED_DIGESTS = ("sha1",)

_BY_HEX_LENGTH = {40: "sha1", 64: "sha256", 128: "sha512"}
_is_hex = re.compile("[0-9a-f]+").fullmatch
_is_whole_number = re.compile(" *[+]?[0-9]{1,100} *", re.ASCII).fullmatch
_KEY_NAMES = ("temp-url-key", "temp-url-key-2")
#: The last second that a date with four digits for the year can show.
SHOWN_TIME_MAX = 253402300799


class Signature(NamedTuple):
    """A digest's name and the HMAC in hex."""

    digest: str
    hex: str


class ScopedKey(NamedTuple):
    """A key and its scope: the whole account, or one container only."""

    key: bytes
    is_of_account: bool


def parse_signature(text: str) -> Signature | None:
    """Parse a client's signature; return None if it is invalid."""
    if ":" not in text:
        digest = _BY_HEX_LENGTH.get(len(text))
        return Signature(digest, text) if digest and _is_hex(text) else None
    digest, _, encoded = text.partition(":")
    # An unquoted plus sign has become a space.
    encoded = encoded.replace(" ", "+").replace("-", "+").replace("_", "/").rstrip("=")
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return Signature(digest, raw.hex())


def is_signed(signature: Signature, message: str, key: bytes) -> bool:
    """Whether ``signature`` is the signature of ``message`` (a WSGI string) under ``key``.

    :param signature: its digest must be one of DIGESTS.
    """
    good = hmac.new(key, message.encode("latin-1"), signature.digest).hexdigest()
    return hmac.compare_digest(good, signature.hex)


def parse_expiry(text: str) -> int | None:
    """Parse a future time, a whole number or ISO 8601 in UTC; return seconds since 1970."""
    if _is_whole_number(text):
        seconds = int(text)
    else:
        try:
            seconds = timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
        except ValueError:
            return None
    return seconds if time.time() < seconds else None


def scoped_keys(
    environ: Environ, app: WSGIApp, account: str, container: str, source: str
) -> Iterator[ScopedKey]:
    """Yield the keys of an account and of a container in it (WSGI strings), at most two each."""
    try:
        names = wsgi_to_str(account), wsgi_to_str(container)
    except BadNameError:
        return
    of_account = get_account_info(environ, app, names[0], source)["meta"]
    yield from (ScopedKey(key, True) for key in _keys(of_account))
    of_container = get_container_info(environ, app, *names, source)["meta"]
    yield from (ScopedKey(key, False) for key in _keys(of_container))


def _keys(meta: Mapping[str, str]) -> list[bytes]:
    return [meta[name].encode("utf-8", "surrogateescape") for name in _KEY_NAMES if meta.get(name)]


def authorize_within(app: WSGIApp, environ: Environ, account: str, container: str | None) -> None:
    """Override auth for the request, within the account or one container only.

    Bucket policies hold: the request is one of the account, without a user.

    :param account: a WSGI string, as in the path; so is ``container``.
    """

    def authorize(request: Request) -> Response | None:
        parts = request.environ["PATH_INFO"].split("/", 4)
        if parts[2:3] == [account] and (container is None or parts[3:4] == [container]):
            return None
        return unauthorized()

    client = Client(wsgi_to_str(account))
    environ["swift.authorize"] = guarded(app, authorize, client)
    environ["swift.authorize_override"] = True


def unauthorized(text: str = "") -> Response:
    """Return 401 without an account, so that it does not reveal whether the account exists."""
    return error_response(401, text, {"WWW-Authenticate": 'Swift realm="unknown"'})


def check_digests(names: list[str]) -> None:
    """:raises ValueError: the option ``allowed_digests`` is empty or names an unknown digest."""
    unknown = [name for name in names if name not in DIGESTS]
    if unknown or not names:
        raise ValueError(
            f"allowed_digests may list {', '.join(DIGESTS)}, not {' '.join(unknown) or 'nothing'}"
        )


def digests_info(allowed: list[str]) -> dict[str, Any]:
    """Return the values about digests for /info."""
    info = {"allowed_digests": sorted(allowed)}
    deprecated = sorted(set(allowed) & set(DEPRECATED_DIGESTS))
    return info | ({"deprecated_digests": deprecated} if deprecated else {})
