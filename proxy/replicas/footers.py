# SPDX-License-Identifier: Apache-2.0
"""Metadata of an object that is known only after its body: a checksum, a sum, a key.

A filter that needs footers puts a callable into the environ, as with OpenStack Swift. The callable
gets the footers, a case-insensitive mapping, once the body has been read, and adds to them. If a
filter finds a callable in the environ, its own callable calls that one.

A footer overrides a header of the same name. If the body is read before anything is sent, footers
are sent as headers. Else they follow the body in a MIME document of two parts.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, MutableMapping

from martlet.http.environ import UPDATE_FOOTERS, Environ
from martlet.http.headers import Headers
from martlet.words.names import wsgi_to_str
from proxy.replicas.body_sums import CHECKSUM, CRC32C, BodySums

#: The header that an object server sends with 100 Continue if it accepts footers.
AGREEMENT = "x-obj-metadata-footer"

UpdateFooters = Callable[[MutableMapping[str, str]], object]

# Headers that override the object's own values in the container's row; the second prefix wins.
_OVERRIDES = ("X-Backend-Container-Update-Override-", "X-Object-Sysmeta-Container-Update-Override-")


def has_footers(environ: Environ) -> bool:
    """Whether a filter adds footers to this request."""
    return UPDATE_FOOTERS in environ


def footers_of(environ: Environ) -> Headers:
    """The footers of a body that has been read; values are WSGI strings.

    :raises HTTPException: a filter refuses the body.
    """
    footers = Headers()
    callback: UpdateFooters | None = environ.get(UPDATE_FOOTERS)
    if callback is not None:
        callback(footers)
    return footers


def overridden(
    size: int, etag: str, content_type: str, metadata: Mapping[str, str]
) -> tuple[str, str, str]:
    """The size, ETag and content type that the container lists for an object.

    :param metadata: headers and footers, as a case-insensitive mapping.
    """
    shown_size = str(size)
    for prefix in _OVERRIDES:
        shown_size = metadata.get(f"{prefix}Size", shown_size)
        etag = row_etag(metadata.get(f"{prefix}Etag", etag), etag)
        content_type = metadata.get(f"{prefix}Content-Type", content_type)
    return shown_size, etag, content_type


def row_etag(override: str, etag: str) -> str:
    """The ETag of the row of an object whose own is ``etag``.

    An override that begins with ``;`` is parameters, which follow the object's own ETag.
    """
    return etag + override if override.startswith(";") else override


class MimeBody:
    """The frame of an object and its footers, the last of which are the sums of the object."""

    def __init__(self) -> None:
        self._sums = BodySums()
        self._boundary = uuid.uuid4().hex.encode("ascii")
        self._opening = b"--%b\r\nX-Document: object body\r\n\r\n" % self._boundary

    @property
    def etag(self) -> str:
        """The MD5 of the object so far, in hexadecimal digits."""
        return self._sums.etag

    def add(self, piece: bytes) -> bytes:
        """The next piece of the object as it is sent: the first one follows the opening."""
        self._sums.add(piece)
        opening, self._opening = self._opening, b""
        return opening + piece if opening else piece

    def headers(self, length: int | None) -> dict[str, str]:
        """The headers that announce the frame; ``length`` is the object's, if it is known."""
        announced = {
            CHECKSUM: CRC32C,
            "X-Backend-Obj-Metadata-Footer": "yes",
            "X-Backend-Obj-Multipart-Mime-Boundary": self._boundary.decode("ascii"),
        }
        if length is not None:
            announced["X-Backend-Obj-Content-Length"] = str(length)
        return announced

    def closing(self, footers: Mapping[str, str]) -> bytes:
        """The bytes after the object; of an empty one also those before it."""
        sent = Headers({name: wsgi_to_str(value) for name, value in footers.items()})
        sent.update(self._sums.footers())
        document = json.dumps(dict(sent)).encode("ascii")
        checksum = hashlib.md5(document, usedforsecurity=False).hexdigest().encode("ascii")
        return (
            b"%b\r\n--%b\r\nX-Document: object metadata\r\nContent-MD5: %b\r\n\r\n%b\r\n--%b--\r\n"
            % (self._opening, self._boundary, checksum, document, self._boundary)
        )
