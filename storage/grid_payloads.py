# SPDX-License-Identifier: Apache-2.0
"""Requests and answers as payloads of the grid (doc/formats/grid-messages.md)."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

import msgpack  # type: ignore[import-untyped]

from martlet.grid.errors import Code
from martlet.grid.handlers import GridCall, HandlerError
from martlet.http.environ import Environ
from martlet.http.header_names import lower_name
from martlet.http.headers import environ_key
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.names import str_to_wsgi

#: The largest number of a partition.
PARTITION_MAX = 2**32 - 1
#: Headers about the connection: no request has them, and no answer but that of HEAD.
_OF_CONNECTION = frozenset(
    {"connection", "content-length", "date", "expect", "host", "transfer-encoding"}
)
# As on HTTP: metadata may have names in UTF-8. With "_" two names would be the same variable.
_NAME = re.compile(r"[!#$%&'*+\-.^`|~0-9A-Za-z\x80-\xff]+").fullmatch
_VALUE = re.compile(r"(?![ \t])[\t\x20-\x7e\x80-\xff]*(?<![ \t])").fullmatch
_PATH = re.compile(r"/[\x21-\x7e]*", re.ASCII).fullmatch

_pack = msgpack.Packer(autoreset=True, use_bin_type=True).pack


def pack(*elements: Any) -> bytes:
    """The payload of these elements."""
    payload: bytes = _pack(elements)
    return payload


def unpack(payload: bytes, count: int = 0) -> list[Any]:
    """The first ``count`` elements of a payload, 0: all. Arrays are lists, maps tuples of pairs.

    :raises HandlerError: it is no such array.
    """
    try:
        value = msgpack.unpackb(payload, raw=False, object_pairs_hook=tuple)
    except (ValueError, TypeError) as error:  # msgpack's own errors are of these
        raise bad_payload(f"it is not MessagePack: {type(error).__name__}") from None
    if type(value) is not list or len(value) < count:
        raise bad_payload(f"it is not an array of {count} elements")
    return value if len(value) == count or not count else value[:count]


def bad_payload(sentence: str) -> HandlerError:
    """The end of a request whose payload is wrong."""
    return HandlerError(Code.BAD_PAYLOAD, sentence)


def check_place(device: Any, partition: Any) -> None:
    """
    :raises HandlerError: they are no name of a device and no number of a partition.
    """
    if type(device) is not str or not device or "/" in device:
        raise bad_payload("the device is not a name")
    if type(partition) is not int or not 0 <= partition <= PARTITION_MAX:
        raise bad_payload("the partition is not a number of 32 bits")


def read_request(method: str, call: GridCall) -> Request:
    """The request of a payload: device, partition, path, headers, body.

    :raises HandlerError: the payload is wrong.
    """
    device, partition, path, headers, body = unpack(call.payload, 5)
    check_place(device, partition)
    if type(path) is not str or _PATH(path) is None:
        raise bad_payload("the path is not quoted")
    if type(body) is not bytes:
        raise bad_payload("the body is not bytes")
    bare, _, query = path.partition("?")
    environ: Environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": str_to_wsgi(f"/{device}/{partition}") + _unquoted(bare),
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": call.connection.peer[0],
        "wsgi.input": BytesIO(body),
        "wsgi.url_scheme": "http",
    }
    if body or method in ("PUT", "POST"):
        environ["CONTENT_LENGTH"] = str(len(body))
    _add_headers(environ, headers)
    return Request(environ)


def _unquoted(path: str) -> str:
    return unquote_to_bytes(path).decode("latin-1") if "%" in path else path


def _add_headers(environ: Environ, headers: Any) -> None:
    if type(headers) is not tuple:
        raise bad_payload("the headers are not a map")
    for name, value in headers:
        if type(name) is not str or _NAME(name) is None or lower_name(name) in _OF_CONNECTION:
            raise bad_payload(f"a request has no header {str(name)[:64]!r}")
        if type(value) is not str or _VALUE(value) is None:
            raise bad_payload(f"the value of the header {name[:64]!r} is wrong")
        key = environ_key(name)
        if key in environ:
            raise bad_payload(f"the header {name[:64]!r} occurs twice")
        environ[key] = value


def pack_answer(call: GridCall, method: str, response: Response) -> bytes:
    """The payload of an answer: status, headers, body. The body is not an iterator.

    :raises HandlerError: it is larger than the peer accepts.
    """
    body, is_head = response.body, method == "HEAD"
    headers = {
        lowered: value
        for name, value in response.headers.as_list()
        if (lowered := lower_name(name)) not in _OF_CONNECTION
    }
    if is_head:
        headers["content-length"] = response.headers.get("content-length", str(len(body)))
        body = b""
    payload = pack(response.status, headers, body)
    bytes_max = call.connection.session.peer.max_payload
    if len(payload) > bytes_max:
        sentence = f"the answer has {len(payload)} bytes; {bytes_max} are accepted"
        raise HandlerError(Code.TOO_LARGE, sentence)
    return payload
