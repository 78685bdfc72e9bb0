# SPDX-License-Identifier: Apache-2.0
"""An object's row, and the merge of two rows of one object.

A row has three values, each with its own timestamp: the data (size, etag, whether it is deleted),
the content type, and the time of the last metadata change. They are merged separately. The later
value wins, and of two with the same time the greater value. So rows may arrive in any order and
repeatedly, and the result is the same on every replica.

The column ``created_at`` has all three times. The time of the data is first. If the times differ,
two distances in 10 µs follow, in signed hexadecimal: data to content type, and content type to
metadata.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from martlet.words.timestamp import Timestamp

#: Of a row's times in their usual form: all three are one.
PLAIN_LENGTH = len("1700000000.00000")
_PLAIN_TIME = re.compile(r"\d{10}\.\d{5}", re.ASCII).fullmatch
_ENCODED_TIMES = re.compile(
    r"([0-9._a-fA-F]+)([+-][0-9a-fA-F]{1,16})?([+-][0-9a-fA-F]{1,16})?", re.ASCII
)

_FIRST_DAY = date(1970, 1, 1)
_MINUTES = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(24 * 60)]
_SECONDS = [f"{second:02d}" for second in range(60)]

SIZE_MAX = 2**63 - 1

#: The version id of an object written without versioning, once the name has versions.
NULL = "null"
#: The version id of the row that sets the current version: its etag is the id of that version. As a
#: tombstone it says that no version from before its time is current.
CURRENT = "current"


class InvalidRecord(ValueError):
    """A row that cannot be accepted; the message may be sent to the client."""


class Record(NamedTuple):
    """A row of the object table; fields in the order of its columns after ROWID."""

    name: str
    created_at: str
    size: int
    content_type: str
    etag: str
    deleted: int
    storage_policy_index: int
    #: Not a column of that table: the version of the row, for a name with versions.
    version_id: str = ""


# Skips the arguments of the constructor; for many rows.
_new_record = tuple.__new__


@dataclass(frozen=True, slots=True)
class Times:
    """The three times of a row."""

    data: Timestamp
    content_type: Timestamp
    metadata: Timestamp

    def encode(self) -> str:
        """Encode the times for ``created_at``; only the first one keeps its offset."""
        to_content_type = self.content_type.ticks - self.data.ticks
        to_metadata = self.metadata.ticks - self.content_type.ticks
        text = self.data.normal
        if self.data.offset:
            text += f"_{self.data.offset:x}"
        if to_content_type or to_metadata:
            text += f"{to_content_type:+x}{to_metadata:+x}"
        return text


def decode_times(created_at: str) -> Times:
    """Decode ``created_at``, the inverse of ``Times.encode``; no time is before the first.

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


def data_time(created_at: str) -> str:
    """The time of the data, in the form that sorts by time as text."""
    if len(created_at) == PLAIN_LENGTH:
        return created_at
    return decode_times(created_at).data.internal


def last_modified(created_at: str) -> str:
    """The time that a listing shows for a row, in ISO form."""
    if len(created_at) != PLAIN_LENGTH:
        return decode_times(created_at).metadata.isoformat
    # The same as Timestamp(created_at).isoformat; the fast path of long listings.
    day, second = divmod(int(created_at[:10]), 86400)
    minute, second = divmod(second, 60)
    return f"{_date_of(day)}T{_MINUTES[minute]}:{_SECONDS[second]}{created_at[10:]}0"


@lru_cache(4096)
def _date_of(day: int) -> str:
    """The date of a day since 1970."""
    return (_FIRST_DAY + timedelta(day)).isoformat()


def parse_record(item: Any) -> Record:
    """Check one row of an ``UPDATE`` and join its three times.

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
    return record_of(name, (created_at, *later), size, content_type, etag, deleted, policy, version)


def record_of(
    name: Any,
    times: tuple[Any, Any, Any],
    size: Any,
    content_type: Any,
    etag: Any,
    deleted: Any,
    policy: Any,
    version: Any,
) -> Record:
    """Check the values of a row and join its times: of the data, content type and metadata.

    :raises InvalidRecord: a value is not of its type.
    """
    created_at, *later = times
    if not (type(name) is type(content_type) is type(etag) is type(created_at) is str and name):
        raise InvalidRecord("name, created_at, content_type and etag must be strings")
    if not (type(size) is type(policy) is int and 0 <= size <= SIZE_MAX and 0 <= policy < 2**31):
        raise InvalidRecord("size and storage_policy_index must be whole numbers, not negative")
    if deleted not in (0, 1):
        raise InvalidRecord("deleted must be 0 or 1")
    _check_texts(name, content_type, etag)
    if later != [None, None] or _PLAIN_TIME(created_at) is None:
        created_at = _join_times(created_at, *later)
    if "swift_bytes" in content_type:
        content_type = join_swift_bytes(*split_swift_bytes(content_type))
    if version:
        _check_version(version, created_at)
    return Record(name, created_at, size, content_type, etag, int(deleted), policy, version)


def plain_records(rows: list[Any], policy: int) -> list[Record] | None:
    """The records of rows in their usual form; None if one of them is not usual.

    Such rows have six values, or nine: with a version, and without other times. The values are
    checked column by column, which takes a third of the time of `record_of`. The texts come from a
    decoder of UTF-8.
    """
    lengths = set(map(len, rows)) if set(map(type, rows)) == {list} else set()
    if lengths not in ({6}, {9}):
        return None
    names, stamps, sizes, content_types, etags, deleted, *others = zip(*rows, strict=True)
    versions: Iterable[str] = itertools.repeat("")
    if others:
        *later, versions = others
        is_usual = all(times.count(None) == len(rows) for times in later)
        if not is_usual or not _are_plain_versions(versions, stamps):
            return None
    types = set(content_types) if set(map(type, content_types)) == {str} else {"\x00"}
    if set(map(type, (*names, *stamps, *etags))) != {str} or not all(names):
        return None
    if set(map(type, (*sizes, *deleted, policy))) != {int} or not 0 <= policy < 2**31:
        return None
    if min(sizes) < 0 or max(sizes) > SIZE_MAX or not set(deleted) <= {0, 1}:
        return None
    texts = "".join((*types, *names, *etags))
    if "\x00" in texts or "swift_bytes" in texts or not all(map(_PLAIN_TIME, set(stamps))):
        return None
    policies = itertools.repeat(policy)
    columns = names, stamps, sizes, content_types, etags, deleted, policies, versions
    return list(map(_new_record, itertools.repeat(Record), zip(*columns, strict=False)))


def _are_plain_versions(versions: Sequence[Any], stamps: Sequence[Any]) -> bool:
    """Whether these are ids as of writes, none of which is after its time."""
    if set(map(type, (*versions, *stamps))) != {str} or not all(map(_PLAIN_TIME, versions)):
        return False
    return all(map(operator.le, versions, stamps))


def _check_version(version: Any, created_at: str) -> None:
    if version in (NULL, CURRENT):
        return
    try:
        if _PLAIN_TIME(version) and _PLAIN_TIME(created_at) and version <= created_at:
            return
        if Timestamp(version).internal == version <= decode_times(created_at).data.internal:
            return
    except (TypeError, ValueError):
        pass
    raise InvalidRecord("version_id must be null, current, or a timestamp not after created_at")


def _check_texts(*texts: str) -> None:
    for text in texts:
        if "\x00" in text:
            raise InvalidRecord("a string contains a NUL character")
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidRecord("a string is not valid UTF-8") from None


def _join_times(created_at: str, content_type_time: Any, metadata_time: Any) -> str:
    if not (isinstance(content_type_time, str | None) and isinstance(metadata_time, str | None)):
        raise InvalidRecord("ctype_timestamp and meta_timestamp must be strings or null")
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
    """Split a content type from the value of its ``swift_bytes`` parameter.

    ``swift_bytes`` is the size to show for an object such as a manifest.
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
    """Join a content type and ``swift_bytes`` in the only form that is stored."""
    return f"{content_type};swift_bytes={value}" if value else content_type


def merge_records(one: Record, other: Record) -> Record:
    """Merge two rows of one object, or of one version: the winner of each of the three values.

    The storage policy is that of the data.
    """
    if one.created_at != other.created_at and _is_plain(one) and _is_plain(other):
        # The three times of each are one, and as text in order: the later row wins as a whole.
        return max(one, other, key=lambda row: row.created_at)
    return _merge_values(one, other)


def _is_plain(record: Record) -> bool:
    """Whether all times of a row are the same, and it has no ``swift_bytes``."""
    is_one_time = _PLAIN_TIME(record.created_at) is not None
    return is_one_time and "swift_bytes" not in record.content_type


def _merge_values(one: Record, other: Record) -> Record:
    one_times, other_times = decode_times(one.created_at), decode_times(other.created_at)
    one_type, one_bytes = split_swift_bytes(one.content_type)
    other_type, other_bytes = split_swift_bytes(other.content_type)

    # swift_bytes is a parameter of the content type, but a property of the data.
    one_data = one_times.data, one.deleted, one.etag, one.size, one_bytes or ""
    other_data = other_times.data, other.deleted, other.etag, other.size, other_bytes or ""
    data_time, deleted, etag, size, swift_bytes, policy = max(
        (*one_data, one.storage_policy_index), (*other_data, other.storage_policy_index)
    )
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
        policy,
        one.version_id,
    )
