# SPDX-License-Identifier: Apache-2.0
"""The manifest of a static large object: parsing a client's, writing and reading the stored one.

The stored manifest is a JSON list in the order of the bytes, as in OpenStack Swift:

    {"name": "/container/object", "hash": ETag, "bytes": size of the object, "content_type": ...,
     "last_modified": ..., "range": "first-last" if not all of it, "sub_slo": true if it is one}
    {"data": base64}

The ETag of the whole is the MD5 of the segments' ETags; a part counts as ``etag:first-last;``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from martlet.http.headers import Headers
from proxy.middleware.large_objects.byte_ranges import ByteRange, parse_ranges

_OBJECT_KEYS = frozenset({"path", "etag", "size_bytes", "range"})
_TOO_SMALL = "too small; each segment must be at least 1 byte."
_NO_OBJECT = "path does not refer to an object. Path must be of the form /container/object."
_SWIFT_BYTES = re.compile(r"\s*;\s*swift_bytes=(\d+)", re.ASCII)


class ManifestError(Exception):
    """A manifest is invalid; ``str()`` has a line for each error."""


@dataclass(frozen=True, slots=True)
class WantedSegment:
    """A segment as the client describes it.

    :param path: the path in the client's form.
    :param data: inline bytes; the other fields are then unset.
    :param range_text: such as ``5-9`` or ``-5``, empty for the whole object.
    """

    path: str = ""
    etag: str | None = None
    size: int | None = None
    range_text: str = ""
    data: bytes | None = None

    @property
    def name(self) -> str:
        """``/container/object``."""
        return "/" + self.path.lstrip("/")

    def range_within(self, size: int) -> ByteRange | None:
        """Return the range within an object of ``size`` bytes; None if it is not satisfiable."""
        if not self.range_text:
            return ByteRange(0, size - 1)
        ranges = parse_ranges(f"bytes={self.range_text}", size)
        return ranges[0] if ranges else None


def parse_wanted(text: bytes, own_name: str) -> list[WantedSegment]:
    """Return the segments that the body of a PUT names.

    :param own_name: ``/container/object`` of the manifest, which may not be a segment of itself.
    :raises ManifestError: it is not a manifest; every invalid segment has a line.
    """
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        raise ManifestError("Manifest must be valid JSON.\n") from None
    if not isinstance(items, list):
        raise ManifestError("Manifest must be a list.\n")
    problems: list[str] = []
    segments = []
    for index, item in enumerate(items):
        try:
            segments.append(_parse_item(item, own_name))
        except ManifestError as error:
            problems.append(f"Index {index}: {error}\n")
    if items and all(isinstance(item, dict) and "data" in item for item in items):
        problems.append("Inline data segments require at least one object-backed segment.\n")
    if problems:
        raise ManifestError("".join(problems))
    return segments


def _parse_item(item: Any, own_name: str) -> WantedSegment:
    if not isinstance(item, dict):
        raise ManifestError("not a JSON object")
    if "data" in item:
        _refuse_keys(item, frozenset({"data"}))
        return WantedSegment(data=_decode(item["data"]))
    if "path" not in item:
        raise ManifestError('expected keys to include one of "path" or "data"')
    _refuse_keys(item, _OBJECT_KEYS)
    path, etag = item["path"], item.get("etag")
    if not isinstance(path, str):
        raise ManifestError('"path" must be a string')
    if not isinstance(etag, str | None):
        raise ManifestError('"etag" must be a string or null (if provided)')
    range_text = _parse_range_text(item.get("range"))
    segment = WantedSegment(path, etag, _parse_size(item.get("size_bytes")), range_text)
    container, _, name = segment.name[1:].partition("/")
    if not container or not name or not _is_text(path):
        raise ManifestError(_NO_OBJECT)
    if segment.name == own_name:
        raise ManifestError("manifest must not include itself as a segment")
    if segment.size and segment.range_text and segment.range_within(segment.size) is None:
        raise ManifestError("unsatisfiable range")
    return segment


def _refuse_keys(item: dict[str, Any], known: frozenset[str]) -> None:
    extra = sorted(item.keys() - known)
    if extra:
        raise ManifestError("extraneous keys " + ", ".join(f'"{key}"' for key in extra))


def _decode(text: Any) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise ManifestError("data must be valid base64") from None
    if not data:
        raise ManifestError(_TOO_SMALL)
    return data


def _parse_size(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return int(value)
    except (ValueError, TypeError, OverflowError):
        raise ManifestError("invalid size_bytes") from None


def _parse_range_text(value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, str) and "," in value:
        raise ManifestError("multiple ranges (only one allowed)")
    if not isinstance(value, str) or parse_ranges(f"bytes={value}", 1) is None:
        raise ManifestError("invalid range")
    return value


def _is_text(path: str) -> bool:
    """Whether a path is valid text; JSON can express half a surrogate pair, which is not."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\x00" not in path


@dataclass(frozen=True, slots=True)
class Entry:
    """A segment as it is stored.

    :param name: ``/container/object``; empty for inline data.
    :param etag: ETag of the object, without quotes.
    :param size: size of the object, bytes.
    :param wanted: the range of its bytes that the segment uses.
    :param headers: those of the object, if it was just looked at.
    """

    name: str
    etag: str
    size: int
    wanted: ByteRange
    is_large: bool = False
    data: bytes | None = None
    content_type: str = ""
    last_modified: str = ""
    headers: Headers | None = field(default=None, compare=False)

    @property
    def length(self) -> int:
        """Number of bytes that it adds to the whole."""
        return self.wanted.length

    @property
    def is_whole(self) -> bool:
        """Whether the segment is the whole object."""
        return self.wanted == (0, self.size - 1)

    def as_stored(self) -> dict[str, Any]:
        """Return its element of the JSON list."""
        if self.data is not None:
            return {"data": base64.b64encode(self.data).decode("ascii")}
        stored: dict[str, Any] = {
            "name": self.name,
            "bytes": self.size,
            "hash": self.etag,
            "content_type": self.content_type,
            "last_modified": self.last_modified,
        }
        if not self.is_whole:
            stored["range"] = f"{self.wanted.first}-{self.wanted.last}"
        if self.is_large:
            stored["sub_slo"] = True
        return stored

    def as_wanted(self) -> dict[str, Any]:
        """Return the element that a client's manifest would have for it."""
        if self.data is not None:
            return self.as_stored()
        wanted: dict[str, Any] = {"path": self.name, "etag": self.etag, "size_bytes": self.size}
        if not self.is_whole:
            wanted["range"] = f"{self.wanted.first}-{self.wanted.last}"
        return wanted


def inline_entry(data: bytes) -> Entry:
    """Return the entry of inline bytes."""
    etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return Entry("", etag, len(data), ByteRange(0, len(data) - 1), data=data)


def load_entries(text: bytes) -> list[Entry]:
    """Return the entries of a stored manifest, including the formats of older Swift releases.

    :raises ManifestError: it is not a manifest.
    """
    try:
        return [_load_entry(item) for item in json.loads(text)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ManifestError(f"the stored manifest is damaged: {error!r}") from None


def _load_entry(item: Mapping[str, Any]) -> Entry:
    if "data" in item:
        return inline_entry(base64.b64decode(item["data"], validate=True))
    content_type = str(item.get("content_type") or "")
    size, is_large = int(item["bytes"]), bool(item.get("sub_slo", False))
    # In old manifests only the content type has the size of a large object.
    old_size = _SWIFT_BYTES.search(content_type)
    if old_size:
        size, is_large = int(old_size[1]), True
        content_type = _SWIFT_BYTES.sub("", content_type)
    wanted = ByteRange(0, size - 1)
    if item.get("range"):
        first, _, last = item["range"].partition("-")
        wanted = ByteRange(int(first), int(last))
    etag = str(item.get("hash") or "").strip('"')
    modified = str(item.get("last_modified") or "")
    name = str(item["name"])
    return Entry(name, etag, size, wanted, is_large, None, content_type, modified)


def large_etag(entries: list[Entry]) -> str:
    """Return the ETag of the whole, without quotes."""
    md5 = hashlib.md5(usedforsecurity=False)
    for entry in entries:
        text = entry.etag
        if entry.data is None and not entry.is_whole:
            text = f"{entry.etag}:{entry.wanted.first}-{entry.wanted.last};"
        md5.update(text.encode("utf-8"))
    return md5.hexdigest()


def large_size(entries: list[Entry]) -> int:
    """Return the size of the whole in bytes."""
    return sum(entry.length for entry in entries)
