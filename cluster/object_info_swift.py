# SPDX-License-Identifier: Apache-2.0
"""Reading object files of OpenStack Swift: ``<timestamp>.data``, ``.meta`` and ``.ts``.

Their metadata are a pickled dict in the extended attributes ``user.swift.metadata[N]``.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5

from cluster.errors import ClusterError
from ring.plain_pickle import load_plain

_KEY = "user.swift.metadata"
_CHECKSUM_KEY = "user.swift.metadata_checksum"
#: The first opcode of a pickle of bytes that Python 3 wrote.
_BY_PYTHON_3 = b"_codecs\nencode"


def read_swift_metadata(attribute: Callable[[str], bytes | None]) -> dict[str, str]:
    """The metadata of an object file; ``attribute`` reads an extended attribute.

    :raises ClusterError: they are missing or damaged, or are more than plain data.
    """
    raw = joined_attributes(attribute, _KEY)
    if not raw:
        raise ClusterError("the file has no metadata of Swift")
    checksum = attribute(_CHECKSUM_KEY)
    actual = md5(raw, usedforsecurity=False).hexdigest().encode()
    if checksum is not None and checksum != actual:
        raise ClusterError("the metadata are damaged: their checksum is wrong")
    try:
        loaded = load_plain(raw, with_bytes=True)
    except ValueError as error:
        raise ClusterError(f"the metadata cannot be read: {error}") from None
    if not isinstance(loaded, dict):
        raise ClusterError("the metadata are damaged: they are no dict")
    is_by_python_3 = _BY_PYTHON_3 in raw[:32]
    metadata = {}
    for key, value in loaded.items():
        # Python 2 kept header values in Latin-1, as they came, but the name in UTF-8.
        is_utf8 = is_by_python_3 or key == b"name"
        metadata[_text(key)] = _text(value, "utf-8" if is_utf8 else "latin-1")
    return metadata


def _text(value: object, encoding: str = "utf-8") -> str:
    if isinstance(value, bytes):
        return value.decode(encoding, "surrogateescape")
    return str(value)


def joined_attributes(attribute: Callable[[str], bytes | None], key: str) -> bytes:
    """The attributes ``key``, ``key1``, ``key2``, ... joined."""
    raw, number = b"", 0
    while piece := attribute(f"{key}{number or ''}"):
        raw += piece
        number += 1
    return raw
