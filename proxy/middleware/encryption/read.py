# SPDX-License-Identifier: Apache-2.0
"""Decryption of answers about objects, and of listings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.log import fields, get_logger
from proxy.middleware.encryption.cipher import CIPHER, transform
from proxy.middleware.encryption.conditions import masked_conditions
from proxy.middleware.encryption.keys import Keys, fetch_keys
from proxy.middleware.encryption.meta import (
    CryptoError,
    CryptoMeta,
    decrypt_value,
    is_encrypted,
    split_value,
)
from proxy.middleware.encryption.names import (
    BODY_META,
    ETAG,
    LISTED_ETAG,
    PRIVATE_PREFIXES,
    USER_META,
    USER_META_PREFIX,
)
from proxy.middleware.encryption.ranges import decrypted_parts
from proxy.middleware.subrequest import close_body, read_body

log = get_logger("proxy.encryption")

_LISTED_ETAG = LISTED_ETAG.lower()
_USER_META_START = USER_META_PREFIX.lower()
_RANGE_START = re.compile(r"bytes (\d+)-")
#: Replaces an ETag that cannot be decrypted in a listing.
_UNKNOWN = "<unknown>"


def read_object(app: WSGIApp, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Serve GET and HEAD of an object, encrypted or not.

    :raises CryptoError: it cannot be decrypted.
    """
    with masked_conditions(environ):
        status, headers, body = call_app(app, environ)
    if not _has_encrypted(headers):
        start_response(status, headers)
        return body
    try:
        answer = _Decrypted(environ, status, Headers(headers))
        headers = answer.headers()
        chunks = answer.body(body) if environ["REQUEST_METHOD"] == "GET" else body
    except BaseException:
        close_body(body)
        raise
    start_response(status, headers)
    return chunks


def _has_encrypted(headers: HeaderList) -> bool:
    for name, value in headers:
        lowered = name.lower()
        if lowered.startswith(PRIVATE_PREFIXES):
            return True
        if lowered == _LISTED_ETAG and is_encrypted(value):
            return True
    return False


class _Decrypted:
    """One answer about an object with encrypted parts."""

    def __init__(self, environ: Environ, status: str, given: Headers) -> None:
        self._environ = environ
        self._status = status
        self._given = given
        self._meta = CryptoMeta.load(given[BODY_META]) if BODY_META in given else None
        self._keys_by_meta: list[tuple[CryptoMeta | None, Keys]] = []

    def headers(self) -> HeaderList:
        """Return the headers with decrypted metadata and ETags, without the crypto headers."""
        shown = Headers(
            (name, value)
            for name, value in self._given.as_list()
            if not name.lower().startswith(PRIVATE_PREFIXES)
        )
        user_metadata = dict(self._user_metadata())
        shown.update(user_metadata)
        if ETAG in self._given:
            shown["Etag"] = self._value(ETAG, self._keys(self._meta)["object"])
        listed, meta = split_value(shown.get(LISTED_ETAG, ""))
        if meta is not None:
            keys = self._keys(meta if meta.key_id else self._meta)
            shown[LISTED_ETAG] = decrypt_value(keys["container"], listed, meta).decode("latin-1")
        if self._environ.get("HTTP_ORIGIN") and user_metadata:
            _expose(shown, user_metadata)
        if self._meta is not None and self._status[:1] == "2":
            shown["X-Backend-Crypto-Cipher"] = CIPHER
        return shown.as_list()

    def body(self, body: Iterable[bytes]) -> Iterable[bytes]:
        """Return the body, decrypted if it holds encrypted bytes of the object."""
        meta = self._meta
        if meta is None or self._status[:1] != "2":
            return body
        if meta.body_key is None or meta.iv is None:
            raise CryptoError("the crypto metadata of a body lacks its key or IV")
        key, iv = meta.body_key.unwrap(self._keys(meta)["object"]), meta.iv
        if self._status[:3] == "206" and "Content-Range" not in self._given:  # several of them
            return _Body(decrypted_parts(body, lambda start: transform(key, iv, start)), body)
        found = _RANGE_START.match(self._given.get("Content-Range", ""))
        stream = transform(key, iv, int(found[1]) if found else 0)
        if isinstance(body, list):  # small; filters and server handle a list at less cost
            return [stream.update(chunk) for chunk in body]
        return _Body(map(stream.update, body), body)

    def _user_metadata(self) -> Iterator[tuple[str, str]]:
        encrypted = [
            (name, value)
            for name, value in self._given.as_list()
            if value and name.lower().startswith(_USER_META_START)
        ]
        if not encrypted:
            return
        known = self._given.get(USER_META)
        keys = self._keys(CryptoMeta.load(known) if known else None)
        for name, _ in encrypted:
            short_name = name[len(USER_META_PREFIX) :]
            yield f"X-Object-Meta-{short_name}", self._value(name, keys["object"])

    def _value(self, name: str, key: bytes) -> str:
        value, meta = split_value(self._given[name])
        if meta is None:
            raise CryptoError(f"{name} has no crypto metadata")
        return decrypt_value(key, value, meta).decode("latin-1")

    def _keys(self, meta: CryptoMeta | None) -> Keys:
        for known, keys in self._keys_by_meta:
            if known == meta:
                return keys
        keys = fetch_keys(self._environ, meta.key_id if meta else None)
        self._keys_by_meta.append((meta, keys))
        return keys


def _expose(shown: Headers, user_metadata: Iterable[str]) -> None:
    """Name the decrypted metadata for scripts of other origins; the application could not."""
    name = "Access-Control-Expose-Headers"
    known = shown.get(name)
    if known is not None:
        shown[name] = ", ".join([known, *(meta.lower() for meta in user_metadata)])


class _Body:
    """A decrypted body; close() closes the encrypted one."""

    def __init__(self, chunks: Iterator[bytes], encrypted: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._encrypted = encrypted

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        """Discard the unread rest."""
        close_body(self._encrypted)


def read_listing(app: WSGIApp, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Serve GET of a container; show an ETag that cannot be decrypted as unknown."""
    status, headers, body = call_app(app, environ)
    shown = Headers(headers)
    if status[:3] != "200" or not shown.get("Content-Type", "").startswith("application/json"):
        start_response(status, headers)
        return body
    content = read_body(body)
    if is_encrypted(content.decode("latin-1")):
        content = _decrypt_listing(environ, content)
    shown["Content-Length"] = str(len(content))
    start_response(status, shown.as_list())
    return [content]


def _decrypt_listing(environ: Environ, content: bytes) -> bytes:
    entries: list[dict[str, Any]] = json.loads(content)
    failures: dict[str, str] = {}
    for entry in entries:
        try:
            value, meta = split_value(entry.get("hash") or "")
            if meta is not None:
                key = fetch_keys(environ, meta.key_id)["container"]
                entry["hash"] = decrypt_value(key, value, meta).decode("utf-8")
        except (CryptoError, UnicodeDecodeError) as error:
            failures.setdefault(str(error), entry["name"])
            entry["hash"] = _UNKNOWN
    for reason, name in failures.items():  # once for each reason, not for each object
        log.error(
            "event=listing_not_decrypted %s",
            fields(
                path=environ["PATH_INFO"],
                first=name,
                reason=reason,
                trans_id=environ.get("swift.trans_id"),
            ),
        )
    return json.dumps(entries).encode("ascii")
