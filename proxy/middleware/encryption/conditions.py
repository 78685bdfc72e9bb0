# SPDX-License-Identifier: Apache-2.0
"""If-Match and If-None-Match on objects whose ETag the storage server cannot read.

The HMAC of the ETag with the object's key is stored beside the encrypted ETag. The client's ETags
are sent unchanged for plain objects, and as HMACs with the key of every root secret.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from martlet.http.environ import Environ
from proxy.middleware.encryption.keys import Keys, all_keys
from proxy.middleware.encryption.names import ETAG_MAC

_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
_ETAG_IS_AT = "HTTP_X_BACKEND_ETAG_IS_AT"


def etag_mac(key: bytes, etag: str) -> str:
    """Return the HMAC of an ETag (WSGI string), in base64."""
    return b64encode(hmac.digest(key, etag.encode("latin-1"), "sha256")).decode("ascii")


@contextmanager
def masked_conditions(environ: Environ) -> Iterator[None]:
    """Replace the request's conditions by HMACs within the ``with`` block.

    :raises CryptoError: there are no keys.
    """
    given = {name: environ[name] for name in (*_CONDITIONS, _ETAG_IS_AT) if name in environ}
    conditions = {name: environ[name] for name in _CONDITIONS if environ.get(name)}
    if not any(_etags(value) != ["*"] for value in conditions.values()):
        yield
        return
    keys = all_keys(environ)
    for name, value in conditions.items():
        environ[name] = ", ".join(_masked(_etags(value), keys))
    known = given.get(_ETAG_IS_AT)
    environ[_ETAG_IS_AT] = f"{known},{ETAG_MAC}" if known else ETAG_MAC
    try:
        yield
    finally:
        environ.pop(_ETAG_IS_AT, None)
        environ.update(given)


def _etags(value: str) -> list[str]:
    return [etag.strip().strip('"') for etag in value.split(",") if etag.strip()]


def _masked(etags: list[str], keys: list[Keys]) -> Iterator[str]:
    for etag in etags:
        if etag == "*":
            yield etag
            continue
        yield f'"{etag}"'
        for of_secret in keys:
            yield f'"{etag_mac(of_secret["object"], etag)}"'
