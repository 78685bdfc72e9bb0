# SPDX-License-Identifier: Apache-2.0
"""Encryption in PUT and POST of objects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, MutableMapping
from typing import BinaryIO

from martlet.conf.constraints import ConstraintError, Constraints
from martlet.http.call import call_app
from martlet.http.environ import UPDATE_FOOTERS, Environ, StartResponse, WSGIApp
from martlet.http.headers import environ_key
from martlet.http.request import Request
from martlet.http.response import http_error
from proxy.middleware.encryption.cipher import new_iv, new_key, transform
from proxy.middleware.encryption.conditions import etag_mac
from proxy.middleware.encryption.keys import Keys, fetch_keys
from proxy.middleware.encryption.meta import CryptoError, CryptoMeta, WrappedKey, encrypt_value
from proxy.middleware.encryption.names import (
    BODY_META,
    ETAG,
    ETAG_MAC,
    LISTED_ETAG,
    USER_META,
    USER_META_PREFIX,
)
from proxy.replicas.footers import UpdateFooters, row_etag

_PLAIN_PREFIX = environ_key("X-Object-Meta-")
_ENCRYPTED_PREFIX = environ_key(USER_META_PREFIX)
_MD5_OF_NOTHING = hashlib.md5(b"", usedforsecurity=False).hexdigest()


def put_object(
    app: WSGIApp, environ: Environ, start_response: StartResponse, constraints: Constraints
) -> Iterable[bytes]:
    """Let the app store the object encrypted; return the ETag of the plain body to the client.

    :raises HTTPException: (400) the metadata breaks a limit.
    :raises CryptoError: there are no keys.
    """
    _check_metadata(environ, constraints)
    keys = fetch_keys(environ)
    if "object" not in keys:
        raise CryptoError("the keymaster returned no key for an object")
    _encrypt_user_metadata(environ, keys)
    body = EncryptedBody(environ["wsgi.input"], keys)
    environ["wsgi.input"] = body
    environ[UPDATE_FOOTERS] = _footers_callback(environ, body, keys)
    status, headers, chunks = call_app(app, environ)
    if status[:1] == "2" and body.is_encrypted:
        stored = body.stored_etag
        headers = [
            (name, body.etag if name.lower() == "etag" and value.strip('"') == stored else value)
            for name, value in headers
        ]
    start_response(status, headers)
    return chunks


def post_object(
    app: WSGIApp, environ: Environ, start_response: StartResponse, constraints: Constraints
) -> Iterable[bytes]:
    """Let the app store the metadata encrypted, even if the body is not.

    :raises HTTPException: (400) the metadata breaks a limit.
    :raises CryptoError: there are no keys.
    """
    _check_metadata(environ, constraints)
    _encrypt_user_metadata(environ, fetch_keys(environ))
    return app(environ, start_response)


def _check_metadata(environ: Environ, constraints: Constraints) -> None:
    """Check metadata here: the application sees only the encrypted names and lengths."""
    try:
        constraints.check_metadata("object", Request(environ).headers.items())
    except ConstraintError as error:
        raise http_error(error.status, str(error)) from None


def _encrypt_user_metadata(environ: Environ, keys: Keys) -> None:
    plain = [k for k, value in environ.items() if k.startswith(_PLAIN_PREFIX) and value]
    for key in plain:
        value = environ.pop(key).encode("latin-1")
        environ[_ENCRYPTED_PREFIX + key.removeprefix(_PLAIN_PREFIX)] = encrypt_value(
            keys["object"], value
        )
    if plain:
        environ[environ_key(USER_META)] = CryptoMeta(key_id=keys["id"]).dump()


class EncryptedBody:
    """A client's body as ``wsgi.input`` of the app, encrypted as it is read."""

    def __init__(self, body: BinaryIO, keys: Keys) -> None:
        self._body = body
        key = new_key()
        iv = new_iv()
        self._cipher = transform(key, iv)
        self._meta = CryptoMeta(iv, keys["id"], WrappedKey.wrap(keys["object"], key))
        self._sent = hashlib.md5(usedforsecurity=False)
        self._stored = hashlib.md5(usedforsecurity=False)
        #: True once a byte was read: an empty body is stored unchanged.
        self.is_encrypted = False

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, all bytes if ``size`` is negative, none at the end."""
        chunk = self._body.read(size)
        if not chunk:
            return chunk
        self.is_encrypted = True
        encrypted = self._cipher.update(chunk)
        self._sent.update(chunk)
        self._stored.update(encrypted)
        return encrypted

    @property
    def etag(self) -> str:
        """The MD5 of the client's bytes so far."""
        return self._sent.hexdigest()

    @property
    def stored_etag(self) -> str:
        """The MD5 of the encrypted bytes so far."""
        return self._stored.hexdigest()

    @property
    def meta(self) -> str:
        """The crypto metadata of the body, as a header value."""
        return self._meta.dump()


def _footers_callback(environ: Environ, body: EncryptedBody, keys: Keys) -> UpdateFooters:
    inner: Callable[..., object] | None = environ.get(UPDATE_FOOTERS)
    sent_etag: str | None = environ.pop("HTTP_ETAG", None)  # of the plain body, not the stored one
    listed_header: str | None = environ.get(environ_key(LISTED_ETAG))

    def add_footers(footers: MutableMapping[str, str]) -> None:
        if inner is not None:
            inner(footers)
        listed = footers.get(LISTED_ETAG, listed_header)
        if listed is not None:
            listed = row_etag(listed, body.etag)
        if body.is_encrypted:
            _add_body_footers(footers, body, keys, footers.get("Etag") or sent_etag)
            if listed is None:
                listed = body.etag
        elif sent_etag is not None:
            footers.setdefault("Etag", sent_etag)
        # The ETag of an empty object is public, so it is not encrypted.
        if listed and (body.is_encrypted or listed != _MD5_OF_NOTHING):
            footers[LISTED_ETAG] = encrypt_value(
                keys["container"], listed.encode("latin-1"), keys["id"]
            )

    return add_footers


def _add_body_footers(
    footers: MutableMapping[str, str], body: EncryptedBody, keys: Keys, expected: str | None
) -> None:
    etag = body.etag
    if expected is not None and expected.strip('"').lower() != etag:
        raise http_error(
            422, "The Etag that was sent is not the MD5 of the body; nothing was stored."
        )
    footers["Etag"] = body.stored_etag
    footers[BODY_META] = body.meta
    footers[ETAG] = encrypt_value(keys["object"], etag.encode("ascii"))
    footers[ETAG_MAC] = etag_mac(keys["object"], etag)
