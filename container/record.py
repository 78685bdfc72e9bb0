# SPDX-License-Identifier: Apache-2.0
"""An object's row, and which of two rows of one object wins.

A row is three values, each with a timestamp of its own: the data (size, etag, whether it is
deleted), the content type, and the time of the last metadata change. Each is decided by itself: the
later wins, and of two of the same time the greater value, so that rows may come in any order, and
again, on every replica, and the outcome is the same.

The three times share the column ``created_at``: the time of the data, then, where they differ, the
distances in 10 µs from data to content type and from there to metadata, in signed hexadecimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from martlet.words.timestamp import Timestamp

_PLAIN_LENGTH = len("1700000000.00000")
_PLAIN_TIME = re.compile(r"\d{10}\.\d{5}", re.ASCII).fullmatch
_ENCODED_TIMES = re.compile(
    r"([0-9._a-fA-F]+)([+-][0-9a-fA-F]{1,16})?([+-][0-9a-fA-F]{1,16})?", re.ASCII
)

_FIRST_DAY = date(1970, 1, 1)
_MINUTES = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(24 * 60)]
_SECONDS = [f"{second:02d}" for second in range(60)]

SIZE_MAX = 2**63 - 1

#: The version id of what is written without versioning, once the name has versions.
NULL = "null"
#: The version id of the row that says which version is current: its etag names it, or, as a
#: tombstone, that none from before its time is.
CURRENT = "current"


class InvalidRecord(ValueError):
    """A row that cannot be taken; the message is fit for the sender."""


class Record(NamedTuple):
    """A row of the object table, in the order of its columns behind ROWID."""

    name: str
    created_at: str
    size: int
    content_type: str
    etag: str
    deleted: int
    storage_policy_index: int
    #: Not a column of that table: of a name with versions, which one the row is about.
    version_id: str = ""


@dataclass(frozen=True, slots=True)
class Times:
    """The three times of a row."""

    data: Timestamp
    content_type: Timestamp
    metadata: Timestamp

    def encode(self) -> str:
        """The text for ``created_at``. An offset is kept in the first time only."""
        to_content_type = self.content_type.ticks - self.data.ticks
        to_metadata = self.metadata.ticks - self.content_type.ticks
        text = self.data.normal
        if self.data.offset:
            text += f"_{self.data.offset:x}"
        if to_content_type or to_metadata:
            text += f"{to_content_type:+x}{to_metadata:+x}"
        return text


def decode_times(created_at: str) -> Times:
    """The inverse of ``Times.encode``; the later two never lie before the first.

    :raises ValueError: the text is malformed.
    """
    match = _ENCODED_TIMES.fullmatch(created_at)
    if match is None:
        raise ValueError(f"not a row's timestamp: {created_at!r}")
    first, to_content_type, to_metadata = match.groups()
    data = content_type = metadata = Timestamp(first)
    if to_content_type:
        content_type = _at_distance(data, int(to_content_type, 16))
        metadata = content_type
    if to_metadata:
        metadata = _at_distance(content_type, int(to_metadata, 16))
    return Times(data, max(data, content_type), max(data, metadata))


def _at_distance(start: Timestamp, ticks: int) -> Timestamp:
    return Timestamp.from_ticks(max(0, start.ticks + ticks)) if ticks else start


def last_modified(created_at: str) -> str:
    """The time that a listing shows for a row, in ISO form."""
    if len(created_at) != _PLAIN_LENGTH:
        return decode_times(created_at).metadata.isoformat
    # The same as Timestamp(created_at).isoformat, for a listing of very many rows.
    day, second = divmod(int(created_at[:10]), 86400)
    minute, second = divmod(second, 60)
    return f"{_date_of(day)}T{_MINUTES[minute]}:{_SECONDS[second]}{created_at[10:]}0"


@lru_cache(4096)
def _date_of(day: int) -> str:
    """The date of a day since 1970."""
    return (_FIRST_DAY + timedelta(day)).isoformat()


def parse_record(item: Any) -> Record:
    """Check one row of an ``UPDATE`` and bring its three times together.

    :raises InvalidRecord: a field is missing or not of its type.
    """
    try:
        name = item["name"]
        size = item["size"]
        content_type = item["content_type"]
        etag = item["etag"]
        deleted = item.get("deleted", 0)
        policy = item.get("storage_policy_index", 0)
        created_at = item["created_at"]
        later = item.get("ctype_timestamp"), item.get("meta_timestamp")
        version = item.get("version_id") or ""
    except (TypeError, AttributeError, KeyError) as error:
        raise InvalidRecord(f"row without {error}") from None
    if not (type(name) is type(content_type) is type(etag) is type(created_at) is str and name):
        raise InvalidRecord("name, created_at, content_type and etag must be texts")
    if not (type(size) is type(policy) is int and 0 <= size <= SIZE_MAX and 0 <= policy < 2**31):
        raise InvalidRecord("size and storage_policy_index must be whole numbers, not negative")
    if deleted not in (0, 1):
        raise InvalidRecord("deleted must be 0 or 1")
    _check_texts(name, content_type, etag)
    if later != (None, None) or _PLAIN_TIME(created_at) is None:
        created_at = _join_times(created_at, *later)
    if "swift_bytes" in content_type:
        content_type = join_swift_bytes(*split_swift_bytes(content_type))
    if version:
        _check_version(version, created_at)
    return Record(name, created_at, size, content_type, etag, int(deleted), policy, version)


def _check_version(version: Any, created_at: str) -> None:
    if version in (NULL, CURRENT):
        return
    try:
        if Timestamp(version).internal == version <= decode_times(created_at).data.internal:
            return
    except (TypeError, ValueError):
        pass
    raise InvalidRecord("version_id must be null, current, or a timestamp not after created_at")


def _check_texts(*texts: str) -> None:
    for text in texts:
        if "\x00" in text:
            raise InvalidRecord("a text holds a NUL character")
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidRecord("a text is not valid UTF-8") from None


def _join_times(created_at: str, content_type_time: Any, metadata_time: Any) -> str:
    if not (isinstance(content_type_time, str | None) and isinstance(metadata_time, str | None)):
        raise InvalidRecord("ctype_timestamp and meta_timestamp must be texts or null")
    try:
        times = decode_times(created_at)
        content_type, metadata = times.content_type, times.metadata
        if content_type_time:
            content_type = metadata = Timestamp(content_type_time)
        if metadata_time:
            metadata = Timestamp(metadata_time)
    except ValueError as error:
        raise InvalidRecord(f"bad timestamp: {error}") from None
    data = times.data
    return Times(data, max(data, content_type), max(data, metadata)).encode()


def split_swift_bytes(content_type: str) -> tuple[str, str | None]:
    """A content type without its ``swift_bytes`` parameter, and that parameter's value.

    ``swift_bytes`` is the size to show for an object whose own size says nothing, a manifest say.
    """
    if "swift_bytes" not in content_type:
        return content_type, None
    kept, value = [], None
    for part in content_type.split(";"):
        name, equals, text = part.partition("=")
        if equals and name.strip().lower() == "swift_bytes":
            value = text.strip().strip('"')
        else:
            kept.append(part)
    return ";".join(kept).rstrip(), value


def join_swift_bytes(content_type: str, value: str | None) -> str:
    """The inverse of ``split_swift_bytes``, in the one form that is stored."""
    return f"{content_type};swift_bytes={value}" if value else content_type


def merge_records(one: Record, other: Record) -> Record:
    """The row that holds the winner of each of the three values; both are of the same object."""
    one_times, other_times = decode_times(one.created_at), decode_times(other.created_at)
    one_type, one_bytes = split_swift_bytes(one.content_type)
    other_type, other_bytes = split_swift_bytes(other.content_type)

    # swift_bytes stands in the content type, but it is a property of the data.
    one_data = one_times.data, one.deleted, one.etag, one.size, one_bytes or ""
    other_data = other_times.data, other.deleted, other.etag, other.size, other_bytes or ""
    data_time, deleted, etag, size, swift_bytes = max(one_data, other_data)
    type_time, content_type = max(
        (one_times.content_type, one_type), (other_times.content_type, other_type)
    )
    times = Times(data_time, type_time, max(one_times.metadata, other_times.metadata))
    stored_type = join_swift_bytes(content_type, swift_bytes)
    return Record(
        one.name,
        times.encode(),
        size,
        stored_type,
        etag,
        deleted,
        one.storage_policy_index,
        one.version_id,
    )
