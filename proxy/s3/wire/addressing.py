# SPDX-License-Identifier: Apache-2.0
"""The bucket and the key that a request names, in its path or in its host."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

from martlet.words.names import BadNameError, check_text, wsgi_to_str
from proxy.s3.wire.errors import S3Error

KEY_BYTES_MAX = 1024
_DNS_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_BAD_DOTS = re.compile(r"\.\.|-\.|\.-")
_ANY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}", re.ASCII)


class Address(NamedTuple):
    """Text, both empty for the service itself."""

    bucket: str
    key: str
    is_in_host: bool = False


def address_of(host: str, path: str, domains: Sequence[str]) -> Address:
    """The address of a request.

    :param host: the Host header.
    :param path: PATH_INFO, a WSGI string.
    :param domains: the part of ``host`` after the bucket, in lower case.
    :raises S3Error: the path is not UTF-8 or has a NUL.
    """
    try:
        text = check_text(wsgi_to_str(path))
    except BadNameError:
        raise S3Error("InvalidURI") from None
    bucket = bucket_in_host(host, domains)
    if bucket:
        return Address(bucket, text.removeprefix("/"), True)
    bucket, _, key = text.removeprefix("/").partition("/")
    return Address(bucket, key)


def bucket_in_host(host: str, domains: Sequence[str]) -> str:
    """The bucket before one of the domains, empty without one."""
    name = host_name(host) if domains else ""
    for domain in domains:
        if name.endswith(f".{domain}"):
            return name[: -len(domain) - 1]
    return ""


def host_name(host: str) -> str:
    """The Host header in lower case without its port."""
    name, colon, port = host.lower().rpartition(":")
    is_port = bool(colon) and (port.isdecimal() or not port)
    return name if is_port else host.lower()


def is_bucket_name(name: str, must_suit_dns: bool) -> bool:
    """Whether a bucket may have this name."""
    if not must_suit_dns:
        return _ANY_NAME.fullmatch(name) is not None
    if not _DNS_NAME.fullmatch(name) or ("." in name and _BAD_DOTS.search(name)):
        return False
    if not name.replace(".", "").isdecimal():
        return True
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return True
    return False


def check_key(key: str) -> None:
    """:raises S3Error: the key is too long."""
    size = len(key.encode("utf-8"))
    if size > KEY_BYTES_MAX:
        fields = {"Size": str(size), "MaxSizeAllowed": str(KEY_BYTES_MAX)}
        raise S3Error("KeyTooLongError", fields=fields)
