# SPDX-License-Identifier: Apache-2.0
"""The head of a request, by the grammar of RFC 9112. No I/O."""

from __future__ import annotations

import re
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from martlet.http.header_names import lower_name
from martlet.wsgi.limits import Limits

# A token, or bytes beyond ASCII: metadata may have names in UTF-8.
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z\x80-\xff]+")
# With such a character in stored metadata, no client of a server could read the header.
_FORBIDDEN_IN_VALUE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_REQUEST_LINE = re.compile(rb"([A-Za-z_-]{1,32}) ([^ \x00-\x1f\x7f]+) HTTP/1\.([01])")
# With bytes beyond ASCII: a domain that stands for a container has the container's name.
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=%\[\]:\x80-\xff]*")
_ABSOLUTE_FORM = re.compile(r"(?i:https?)://([^/?]+)(/[^?]*)?(\?.*)?")
#: A longer line is not kept: 2048 of these take a megabyte.
_KNOWN_FIELD_BYTES_MAX = 256
_NO_WISHES: frozenset[str] = frozenset()


class BadRequestError(Exception):
    """The request violates the grammar or a limit: the status and the sentence for the client."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Head(NamedTuple):
    """The head of a request, parsed and checked.

    :param target: path and query as sent; the authority of an absolute form is the Host.
    :param headers: by lower-case name, repeats joined with commas.
    :param length: bytes of the body; None for a chunked one.
    """

    method: str
    target: str
    is_http_11: bool
    headers: dict[str, str]
    length: int | None
    is_kept: bool
    asks_to_keep: bool
    expects_continue: bool


def check_start(data: bytes | bytearray, limits: Limits, start: int = 0) -> None:
    """Refuse early the start of a head that no further bytes can make valid.

    :param start: the line ends before this position have been checked.
    :raises BadRequestError: 400 or 414.
    """
    end = data.find(b"\n")
    if (end < 0 and len(data) > limits.request_line + 1) or end > limits.request_line + 1:
        sentence = f"Request line longer than {limits.request_line} bytes"
        raise BadRequestError(HTTPStatus.REQUEST_URI_TOO_LONG, sentence)
    # Each line feed from ``start`` on has a CR before it. A search for those without takes longer.
    if data.count(b"\n", start) != data.count(b"\r\n", max(0, start - 1)):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "A line must end with CR and LF")
    if len(data) > limits.head_bytes:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "The headers are too long")


def parse_head(data: bytes, limits: Limits) -> Head:
    """Parse the head of a request; ``data`` is without the empty line at its end.

    :raises BadRequestError: 400, 414 or 501.
    """
    check_start(data + b"\r\n", limits)
    first, *lines = data.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed request line")
    is_http_11 = match[3] == b"1"
    headers = parse_fields(lines, limits)
    target = _origin_form(match[2].decode("latin-1"), headers)
    _check_host(headers, is_http_11)
    length = _body_length(headers, is_http_11)
    wishes = _wishes(headers["connection"]) if "connection" in headers else _NO_WISHES
    # RFC 9110, 10.1.1: another expectation may be ignored; OpenStack Swift does so.
    is_asked = is_http_11 and headers.get("expect", "").lower() == "100-continue"
    return Head(
        method=match[1].decode("ascii"),
        target=target,
        is_http_11=is_http_11,
        headers=headers,
        length=length,
        is_kept="close" not in wishes and (is_http_11 or "keep-alive" in wishes),
        asks_to_keep="keep-alive" in wishes,
        expects_continue=is_asked and length != 0,
    )


def _wishes(connection: str) -> frozenset[str]:
    return frozenset(wish.strip() for wish in connection.lower().split(","))


def parse_fields(lines: list[bytes], limits: Limits) -> dict[str, str]:
    """Parse header or trailer lines into values by lower-case name.

    :raises BadRequestError: 400: one is malformed or too long, or there are too many.
    """
    if len(lines) > limits.header_count:
        sentence = f"More than {limits.header_count} headers"
        raise BadRequestError(HTTPStatus.BAD_REQUEST, sentence)
    headers: dict[str, str] = {}
    for line in lines:
        if len(line) > limits.header_line:
            sentence = f"Header line longer than {limits.header_line} bytes"
            raise BadRequestError(HTTPStatus.BAD_REQUEST, sentence)
        field = _known_field(line) if len(line) <= _KNOWN_FIELD_BYTES_MAX else _field(line)
        if field is None:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed header line")
        name, value = field
        if name in headers:
            if name == "host":
                raise BadRequestError(HTTPStatus.BAD_REQUEST, "More than one Host")
            value = f"{headers[name]},{value}"
        headers[name] = value
    return headers


def _field(line: bytes) -> tuple[str, str] | None:
    """The name of a header line in lower case, and the value; None if it is malformed."""
    name, colon, raw_value = line.partition(b":")
    value = raw_value.strip(b" \t").decode("latin-1")
    if not colon or not _NAME.fullmatch(name) or not _is_field_value(value):
        return None
    return lower_name(name.decode("latin-1")), value


#: The same for lines that come again with the next request. Bounded: clients choose the lines.
_known_field = lru_cache(2048)(_field)


def _is_field_value(value: str) -> bool:
    return (value.isascii() and value.isprintable()) or not _FORBIDDEN_IN_VALUE.search(value)


def _origin_form(target: str, headers: dict[str, str]) -> str:
    """Reduce the absolute form (for forward proxies) and ``*`` (OPTIONS); RFC 9112, 3.2."""
    if target[0] == "/":
        return target
    if target == "*":
        return "/"
    match = _ABSOLUTE_FORM.fullmatch(target)
    if match is None or "host" not in headers:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed request target")
    headers["host"] = match[1]
    return (match[2] or "/") + (match[3] or "")


def _check_host(headers: dict[str, str], is_http_11: bool) -> None:
    host = headers.get("host")
    if host is None and is_http_11:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "No Host")
    if host is not None and not _HOST.fullmatch(host):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed Host")


def _body_length(headers: dict[str, str], is_http_11: bool) -> int | None:
    length = headers.get("content-length")
    encoding = headers.get("transfer-encoding")
    if length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed Content-Length")
        if encoding is not None:
            sentence = "Content-Length and Transfer-Encoding are not allowed together"
            raise BadRequestError(HTTPStatus.BAD_REQUEST, sentence)
    if encoding is None:
        return int(length or 0)
    if not is_http_11:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding")
    if encoding.lower() != "chunked":
        sentence = "The only supported Transfer-Encoding is chunked"
        raise BadRequestError(HTTPStatus.NOT_IMPLEMENTED, sentence)
    return None
