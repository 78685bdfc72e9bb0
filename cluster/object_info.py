# SPDX-License-Identifier: Apache-2.0
"""``martlet object-info PATH``: the content of a file with objects, from the file alone.

PATH is a large file (``large/<id>.data``), a segment of a bundle (``*.bundle``) or an object file
of OpenStack Swift. The content of the file decides which, not its name.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

from cluster.attributes import read_attribute
from cluster.errors import ClusterError
from cluster.object_info_record import (
    SEGMENT_MAGIC,
    UNIT,
    Metadata,
    Record,
    Segment,
    decode_metadata,
    parse_record,
    parse_segment,
    records,
)
from cluster.object_info_swift import joined_attributes, read_swift_metadata
from martlet.words.timestamp import Timestamp
from ring.errors import RingError
from ring.ring import load_rings

#: A report: texts and numbers by name, in sections; JSON as it is, or printed by ``as_text``.
Report = dict[str, object]

_LARGE_KEY = "user.martlet.metadata"
_POLICY = re.compile(r"(?:bundles|objects)(?:-([0-9]+))?\Z")
_LABELS = {
    "lsn": "LSN",
    "etag": "ETag",
    "content_type": "Content-Type",
    "content_length": "Content-Length",
}


@dataclass(frozen=True)
class Question:
    """The file, and what to report of it."""

    path: Path
    check_bytes: bool = True
    swift_dir: Path | None = None
    offset: int | None = None
    name: str | None = None


def object_info(question: Question) -> tuple[Report | list[Report], bool]:
    """The content of the file, and whether all checks passed.

    :raises ClusterError: the file cannot be read, is of an unknown kind, or is damaged.
    """
    path = question.path
    try:
        if not path.is_file():
            raise ClusterError(f"{path} is no file" if path.exists() else f"{path} does not exist")
        with path.open("rb") as file:
            is_segment = file.read(len(SEGMENT_MAGIC)) == SEGMENT_MAGIC
        is_other_named = question.offset is not None or question.name is not None
        if is_other_named and not is_segment:
            raise ClusterError("--offset and --name are for segments, and this is none")
        if is_segment:
            return _segment_info(question)
        if read_attribute(path, _LARGE_KEY) is not None:
            return _large_info(question)
        if read_attribute(path, "user.swift.metadata") is not None:
            return _swift_info(question)
    except OSError as error:
        raise ClusterError(f"{path} cannot be read: {error.strerror}") from None
    except ClusterError as error:
        raise ClusterError(f"{path}: {error}") from None
    raise ClusterError(f"{path} is no segment, and has no attribute with the metadata of an object")


def _large_info(question: Question) -> tuple[Report, bool]:
    path = question.path
    metadata = decode_metadata(
        joined_attributes(lambda name: read_attribute(path, name), _LARGE_KEY)
    )
    size = path.stat().st_size
    report = {"kind": "large file", **_described(metadata)}
    is_size_right = size == metadata.size
    report["content_length"] = (
        f"{metadata.size} (valid)"
        if is_size_right
        else f"{metadata.size} doesn't match file length of {size}"
    )
    is_etag_right = _check_etag(question, report, metadata.etag)
    report.update(_locations(question, metadata.name))
    return report, is_size_right and is_etag_right


def _described(metadata: Metadata) -> Report:
    """The fields that Swift's own tool shows of an object, in the same order."""
    report = _named(metadata.name)
    report["content_type"] = metadata.content_type
    for label in ("timestamp", "meta_timestamp", "type_timestamp"):
        report[label] = _moment(getattr(metadata, label))
    if metadata.delete_at:
        report["delete_at"] = metadata.delete_at
    return report | _sections({**metadata.system, **metadata.user}) | {"etag": metadata.etag}


def _named(name: str) -> Report:
    parts = name.split("/", 3)
    if len(parts) != 4 or parts[0] or not all(parts[1:]):
        raise ClusterError(f"the metadata are damaged: the name {name!r} is none of an object")
    return {"path": name, "account": parts[1], "container": parts[2], "object": parts[3]}


def _moment(timestamp: Timestamp) -> str:
    return f"{timestamp.isoformat} ({timestamp.internal})"


def _sections(headers: Mapping[str, str]) -> Report:
    """Headers by the kind of metadata."""
    prefixes = {
        "system_metadata": "x-object-sysmeta-",
        "transient_system_metadata": "x-object-transient-sysmeta-",
        "user_metadata": "x-object-meta-",
        "other_metadata": "",
    }
    sections: dict[str, dict[str, str]] = {section: {} for section in prefixes}
    for name, value in sorted(headers.items()):
        section = next(s for s, prefix in prefixes.items() if name.lower().startswith(prefix))
        sections[section][name] = value
    return dict(sections)


def _check_etag(question: Question, report: Report, etag: str) -> bool:
    """Report whether the ETag is the MD5 of the file."""
    if not question.check_bytes:
        report["etag"] = f"{etag} (not checked)"
        return True
    digest = md5(usedforsecurity=False)
    with question.path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    is_right = digest.hexdigest() == etag
    verdict = "(valid)" if is_right else f"doesn't match file hash of {digest.hexdigest()}"
    report["etag"] = f"{etag} {verdict}"
    return is_right


def _swift_info(question: Question) -> tuple[Report, bool]:
    path = question.path
    metadata = read_swift_metadata(lambda name: read_attribute(path, name))
    report: Report = {"kind": f"file of OpenStack Swift ({path.suffix.removeprefix('.')})"}
    name = metadata.pop("name", "")
    # A .meta holds what a POST changed, and no name.
    report |= _named(name) if name else {"path": "Not found in metadata"}
    report["hash"] = path.absolute().parent.name
    for header in ("Content-Type", "X-Timestamp"):
        value = metadata.pop(header, "")
        if header == "X-Timestamp" and value:
            report["timestamp"] = _timestamp_of(value)
        elif path.suffix == ".data":
            report["content_type"] = value or "Not found in metadata"
    etag, length = metadata.pop("ETag", ""), metadata.pop("Content-Length", "")
    report |= _sections(metadata)
    is_right = True
    if path.suffix == ".data":
        size = path.stat().st_size
        is_right = length == str(size)
        verdict = "(valid)" if is_right else f"doesn't match file length of {size}"
        report["content_length"] = f"{length} {verdict}"
        is_right = _check_etag(question, report, etag) and is_right
    if name:
        report.update(_locations(question, name))
    return report, is_right


def _timestamp_of(text: str) -> str:
    try:
        return _moment(Timestamp(text))
    except ValueError:
        raise ClusterError(f"the metadata are damaged: {text!r} is no timestamp") from None


def _locations(question: Question, name: str) -> Report:
    """Where the ring of the file's storage policy puts the object."""
    if question.swift_dir is None:
        return {}
    _, account, container, obj = name.split("/", 3)
    matches = (_POLICY.match(part) for part in reversed(question.path.absolute().parts))
    policy = next((int(match[1] or 0) for match in matches if match), 0)
    try:
        rings = load_rings(question.swift_dir)
        partition, nodes = rings.object_ring(policy).get_nodes(account, container, obj)
        handoffs = list(rings.object_ring(policy).get_more_nodes(partition))[: len(nodes)]
        digest = rings.hash_path.hexdigest(account, container, obj)
    except RingError as error:
        raise ClusterError(str(error)) from None
    except OSError as error:
        raise ClusterError(f"{error.filename}: {error.strerror}") from None
    return {
        "partition": partition,
        "hash": digest,
        "nodes": [f"{node['ip']}:{node['port']} {node['device']}" for node in nodes],
        "handoffs": [f"{node['ip']}:{node['port']} {node['device']}" for node in handoffs],
    }


def _segment_info(question: Question) -> tuple[Report | list[Report], bool]:
    with question.path.open("rb") as file:
        # The mapping is closed when its last view is.
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    segment = parse_segment(data)
    if question.offset is not None or question.name is not None:
        return _record_info(question, data, segment)
    lines = list(_lines(data, segment))
    return lines, not any(line.get("damage") for line in lines)


def _lines(data: memoryview, segment: Segment) -> Iterator[Report]:
    for found in records(data, segment.salt):
        if isinstance(found, tuple):
            offset, length = found
            if offset + length == len(data):
                says = {"note": "no records: the rest of a write that was cut short, or damage"}
            else:
                says = {"damage": "no record can be read"}
            yield {"offset": offset, "type": f"{length} bytes", **says}
            continue
        line: Report = {
            "offset": found.offset,
            "lsn": found.lsn,
            "type": found.type_name,
            "timestamp": found.timestamp.internal,
            "size": found.size,
        }
        if found.flags:
            line["flags"] = ", ".join(found.flag_names)
        if found.has_metadata:
            try:
                line["name"] = found.metadata().name
            except ClusterError as error:
                line["damage"] = str(error)
        yield line


def _record_info(question: Question, data: memoryview, segment: Segment) -> tuple[Report, bool]:
    record = _find(question, data, segment)
    report: Report = {
        "kind": f"{record.type_name} record",
        "offset": record.offset,
        "lsn": record.lsn,
        "length": record.units * UNIT,
        "flags": ", ".join(record.flag_names) or "none",
        "policy": segment.policy,
        "partition": segment.partition,
        "hash": record.hash.hex(),
    }
    if record.versions > 1 or any(record.version_id):
        report["version_id"] = record.version_id.hex()
        report["versions"] = record.versions
        report["previous_version"] = record.previous
    if record.large_id:
        report["large_file"] = f"large/{record.large_id:016x}.data"
    is_right = True
    if record.has_metadata:
        report |= _described(record.metadata())
        report["content_length"] = record.size
        data_state = record.check_data() if question.check_bytes else "not checked"
        report["data"] = data_state
        is_right = not data_state.startswith("damaged")
        report.update(_locations(question, str(report["path"])))
    return report, is_right


def _find(question: Question, data: memoryview, segment: Segment) -> Record:
    if question.offset is not None:
        is_inside = 0 <= question.offset < len(data) and question.offset % UNIT == 0
        record = parse_record(data, question.offset) if is_inside else None
        if record is None or record.salt != segment.salt:
            raise ClusterError(f"at {question.offset} no record begins, or its header is damaged")
        return record
    newest = None
    for found in records(data, segment.salt):
        if isinstance(found, tuple) or not found.has_metadata:
            continue
        try:
            if found.metadata().name == question.name:
                newest = found
        except ClusterError:
            continue
    if newest is None:
        raise ClusterError(f"no record of {question.name} can be read in this segment")
    return newest


def as_text(report: Report | list[Report]) -> str:
    """A report as text: a line for each value, or a line for each record."""
    if isinstance(report, list):
        return "\n".join(_as_line(line) for line in report)
    lines = []
    for key, value in report.items():
        label = _LABELS.get(key, key.replace("_", " ").capitalize())
        if isinstance(value, dict):
            lines.append(f"{label}:")
            items = [f"  {name}: {_printable(text)}" for name, text in value.items()]
            lines += items or ["  No metadata found"]
        elif isinstance(value, list):
            lines.append(f"{label}:")
            lines += [f"  {item}" for item in value]
        else:
            lines.append(f"{label}: {_printable(value)}")
    return "\n".join(lines)


def _as_line(line: Report) -> str:
    columns = [f"{line['offset']:>10}", f"{line.get('lsn', ''):>8}", f"{line['type']:<17}"]
    columns += [str(line.get("timestamp", "")), f"{line.get('size', ''):>12}"]
    columns += [_printable(line[key]) for key in ("name", "flags", "note", "damage") if key in line]
    return " ".join(columns)


def _printable(value: object) -> str:
    """A text without control sequences for the terminal, which names and headers may contain."""
    text = str(value)
    return text if text.isprintable() else ascii(text)[1:-1]
