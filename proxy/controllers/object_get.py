# SPDX-License-Identifier: Apache-2.0
"""The answer to a GET or HEAD of an object; its body continues from another replica if one fails.

The client already has the status and headers of the first replica. So the rest must be of the same
version (ETag), and begin at the byte where the first replica stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from martlet.http.backend_client import BackendError
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.delete_markers import MARKER_TYPE
from proxy.controllers.object_put import ONE_MESSAGE_BYTES_MAX
from proxy.headers import returned_headers
from proxy.replicas.fetch import Found, Search, Source, WholeResponse
from proxy.wire_headers import WireHeaders

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(?:\d+|\*)")
_BOUNDARY = re.compile(r'multipart/byteranges\s*;.*boundary="?([^";,\s]+)"?', re.IGNORECASE)


def response_of(
    req: Request, search: Search, source: Source | None, headers: dict[str, str]
) -> Response:
    """The response for the client.

    :param source: the device that has the object; None if there is none.
    :param headers: of the request that found it.
    :raises HTTPException: (503) no replica could continue a short body.
    """
    if source is None:
        answer = search.failure()
        return answered(answer.status, answer.headers, answer.body)
    found = source.response
    response = answered(found.status, found.headers)
    response.headers["Accept-Ranges"] = "bytes"
    length = found.headers.get("content-length", "")
    if length and found.status != 304:
        response.headers["Content-Length"] = length
    if req.method == "HEAD" or found.status == 304:
        found.close()
        response.app_iter = []
    elif isinstance(found, WholeResponse):
        response.body = found.body()
    elif length.isdigit() and int(length) <= ONE_MESSAGE_BYTES_MAX:
        try:
            response.body = b"".join(ObjectBody(search, source, headers))
        except BackendError:
            raise http_error(503) from None
    else:
        response.app_iter = ObjectBody(search, source, headers)
    return response


def answered(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    """The response for the client to a GET or HEAD, from an object server's answer."""
    response = Response(status, returned_headers(headers), body)
    # Go's HTTP library removes the type of a 304, so our object server sends it in this header.
    content_type = headers.get("content-type") or headers.get("x-backend-content-type")
    if content_type:
        response.headers["Content-Type"] = clean_content_type(content_type)
    return response


class ObjectBody:
    """Iterates over the body once; always call close().

    :raises BackendError: no replica could continue.
    """

    def __init__(self, search: Search, source: Source, headers: dict[str, str]) -> None:
        """``headers`` are those of the request that found ``source``."""
        self._search = search
        self._source = source
        self._headers = headers
        self._sent = 0
        first = source.response
        self._etag = first.headers.get("etag", "").strip('"')
        self._length = _length_of(first)
        self._range = _range_of(first)
        self._boundary = _boundary_of(first)

    def __iter__(self) -> Iterator[bytes]:
        chunks = self._source.response.iter_chunks()
        while True:
            try:
                for chunk in chunks:
                    self._sent += len(chunk)
                    yield chunk
                return
            except BackendError as error:
                core = self._search.core
                core.backends.failed(self._source.node, self._search.request, error)
                if self._length is not None and self._sent >= self._length:
                    return
                chunks = self._resume(error)

    def close(self) -> None:
        """Give up the unread rest."""
        self._source.response.close()

    def _resume(self, error: BackendError) -> Iterator[bytes]:
        if not self._etag or self._length is None:
            raise error  # without these, versions cannot be distinguished
        if self._boundary is not None:
            return self._resume_multipart(error)
        start, end = self._range or (0, self._length - 1)
        wanted = (start + self._sent, end)
        headers = self._without_conditions() | {"Range": f"bytes={wanted[0]}-{wanted[1]}"}
        while (source := self._search.find(WireHeaders(headers), self._etag)) is not None:
            if source.response.status == 206 and _range_of(source.response) == wanted:
                self._source = source
                return source.response.iter_chunks()
            source.response.close()
        raise error

    def _resume_multipart(self, error: BackendError) -> Iterator[bytes]:
        """The same ranges again without the bytes already sent, with the client's boundary.

        The rest of a multipart body is the same at every replica, if the boundaries have the same
        length.
        """
        known = self._boundary or b""
        while True:
            source = self._search.find(WireHeaders(self._headers), self._etag)
            if source is None:
                raise error
            other = _boundary_of(source.response)
            same_length = _length_of(source.response) == self._length
            if other is not None and same_length and len(other) == len(known):
                self._source = source
                chunks = replace_in_stream(source.response.iter_chunks(), other, known)
                return skip_bytes(chunks, self._sent)
            source.response.close()

    def _without_conditions(self) -> dict[str, str]:
        # They were true when the answer began. Now the ETag selects the version.
        return {k: v for k, v in self._headers.items() if not k.startswith("If-")}


def skip_bytes(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    """The stream without its first ``count`` bytes."""
    for chunk in chunks:
        if count >= len(chunk):
            count -= len(chunk)
        else:
            yield chunk[count:]
            count = 0


def replace_in_stream(chunks: Iterator[bytes], old: bytes, new: bytes) -> Iterator[bytes]:
    """The stream with ``new`` in place of ``old``, also if ``old`` spans two pieces."""
    held = b""
    for chunk in chunks:
        data = (held + chunk).replace(old, new)
        keep = _held_back(data, old)
        held = data[len(data) - keep :]
        if len(data) > keep:
            yield data[: len(data) - keep]
    if held:
        yield held


def _held_back(data: bytes, word: bytes) -> int:
    """The number of bytes at the end of ``data`` that may be the beginning of ``word``."""
    for count in range(min(len(word) - 1, len(data)), 0, -1):
        if word.startswith(data[-count:]):
            return count
    return 0


def _length_of(response: Found) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isdigit() else None


def _range_of(response: Found) -> tuple[int, int] | None:
    match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    return (int(match[1]), int(match[2])) if match else None


def _boundary_of(response: Found) -> bytes | None:
    match = _BOUNDARY.match(response.headers.get("content-type", ""))
    return match[1].encode("latin-1") if match else None


def clean_content_type(value: str) -> str:
    """A content type without Swift's internal parameters, such as swift_bytes.

    The type of a delete marker in an archive (legacy_versions.py) stays, since it is for clients.
    """
    if ";" not in value or value == MARKER_TYPE:
        return value
    first, *parameters = value.split(";")
    kept = [p for p in parameters if not p.strip().lower().startswith("swift_")]
    return ";".join([first, *kept])
