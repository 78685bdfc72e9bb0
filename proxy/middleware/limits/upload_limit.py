# SPDX-License-Identifier: Apache-2.0
"""Limits on uploads for both quota filters: refuse an upload, or cut it off at the limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from martlet.http.environ import Environ, WSGIApp
from martlet.http.request import Request
from martlet.http.response import error_response, http_error
from proxy.middleware.write_denial import write_denial


class LimitedBody:
    """A body of unknown length that ends in 413 when it grows beyond ``room_bytes``."""

    def __init__(self, body: BinaryIO, room_bytes: int, sentence: str) -> None:
        self._body = body
        self._room = room_bytes
        self._sentence = sentence

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes of the body.

        :raises HTTPException: (413) the body is larger than the room.
        """
        # One byte beyond the room distinguishes a body that fits from a body that does not.
        most = self._room + 1
        return self._counted(self._body.read(most if size < 0 else min(size, most)))

    def readline(self, size: int = -1) -> bytes:
        """Read one line of the body, at most ``size`` bytes.

        :raises HTTPException: (413) the body is larger than the room.
        """
        most = self._room + 1
        return self._counted(self._body.readline(most if size < 0 else min(size, most)))

    def _counted(self, piece: bytes) -> bytes:
        self._room -= len(piece)
        if self._room < 0:
            raise http_error(413, self._sentence)
        return piece


def limit_upload(environ: Environ, room_bytes: int, sentence: str) -> bool:
    """Whether an upload fits; an upload of unknown length is accepted and cut off at the limit.

    :raises HTTPException: (400) the Content-Length is malformed.
    """
    req = Request(environ)
    if not req.is_chunked:
        return (req.content_length or 0) <= room_bytes
    if room_bytes < 0:
        return False
    environ["wsgi.input"] = LimitedBody(environ["wsgi.input"], room_bytes, sentence)
    return True


def refuse_upload(environ: Environ, info: Mapping[str, Any], sentence: str) -> WSGIApp:
    """Return 413, or the refusal of auth if the user may not write to the container.

    :param info: the container's info.
    """
    return write_denial(environ, lambda: info) or error_response(413, sentence)
