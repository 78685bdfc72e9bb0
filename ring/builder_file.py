# SPDX-License-Identifier: Apache-2.0
"""The builder file: OpenStack Swift's, a protocol-2 pickle of plain data (doc/formats/ring.md).

Data that ``plain_pickle`` accepts is checked field by field before use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import uuid
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ring.builder import RingBuilder
from ring.devices import DEVICE_TIER_LENGTH, Device, checked_device
from ring.errors import BuilderFileError, DeviceError
from ring.file_format import PART_POWER_MAX, REPLICAS_MAX
from ring.files import make_like, replace_file
from ring.move_ages import HOURS_MAX
from ring.plain_pickle import load_plain
from ring.table import Table

FILE_BYTES_MAX = 2**31
_REQUIRED = ("part_power", "replicas", "min_part_hours", "parts", "devs", "version")


def load_builder(path: Path) -> RingBuilder:
    """Load the builder from ``path``.

    :raises BuilderFileError: missing, unreadable, damaged, or not plain data.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise BuilderFileError(f"{path}: too big for a builder file")
        raw = path.read_bytes()
    except OSError as error:
        raise BuilderFileError(f"{path}: {error.strerror}") from error
    try:
        return decode_builder(raw)
    except BuilderFileError as error:
        raise BuilderFileError(f"{path}: {error}") from error


def save_builder(builder: RingBuilder, path: Path) -> None:
    """Replace ``path`` durably; for a symbolic link, its target.

    :raises OSError: the old file is unchanged.
    """
    if builder.builder_id is None:
        builder.builder_id = uuid.uuid4().hex
    replace_file(path.resolve(), encode_builder(builder))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock ``path`` against other ring builders until the block ends or the process dies.

    :raises BuilderFileError: another one has the lock, or the folder cannot be written.
    """
    real = path.resolve()  # one file with two names is one builder
    if not real.name or real.is_dir():
        raise BuilderFileError(f"{path}: a folder, not a builder file")
    try:
        handle = _open_lock(real.with_name(f".{real.name}.lock"))
    except OSError as error:
        raise BuilderFileError(f"{path}: cannot be locked: {error.strerror}") from error
    try:
        make_like(handle, real)  # a user who may change the builder file may lock it
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuilderFileError(f"{path}: another ring builder is using it") from None
        yield
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError:
        # Read access is enough for a lock, except on NFS.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def encode_builder(builder: RingBuilder) -> bytes:
    """The bytes of a builder file."""
    return pickle.dumps(
        {
            "part_power": builder.part_power,
            "next_part_power": builder.next_part_power,
            "replicas": builder.replicas,
            "min_part_hours": builder.min_part_hours,
            "parts": builder.partitions,
            "devs": builder.devs,
            "devs_changed": builder.devs_changed,
            "dev_id_bytes": builder.dev_id_bytes,
            "version": builder.version,
            "overload": builder.overload,
            "_replica2part2dev": builder.table or None,
            "_last_part_moves_epoch": builder.moves_epoch,
            "_last_part_moves": array("B", builder.hours_since_move),
            "_last_part_gather_start": builder.gather_start,
            "_dispersion_graph": builder.dispersion_graph,
            "dispersion": builder.dispersion,
            # The same objects as in "devs": OpenStack Swift looks for these objects.
            "_remove_devs": [builder.devs[dev_id] for dev_id in builder.removed_ids],
            "id": builder.builder_id,
        },
        protocol=2,
    )


def decode_builder(raw: bytes) -> RingBuilder:
    """Decode the bytes of a builder file.

    :raises BuilderFileError: with the error in the message.
    """
    try:
        state = load_plain(raw)
    except ValueError as error:
        raise BuilderFileError(f"not a builder file: {error}") from error
    if not isinstance(state, dict):
        raise BuilderFileError("not a builder file: it is not a dictionary")
    missing = [key for key in _REQUIRED if key not in state]
    if missing:
        raise BuilderFileError(f"not a builder file: it lacks {', '.join(missing)}")
    try:
        return _builder_of(state)
    except (TypeError, ValueError, OverflowError, DeviceError) as error:
        raise BuilderFileError(f"not a valid builder file: {error}") from error


def _builder_of(state: Mapping[str, Any]) -> RingBuilder:
    part_power = _number(state, "part_power", 0, PART_POWER_MAX)
    _number(state, "parts", 1 << part_power, 1 << part_power)
    devs = _devices(state["devs"])
    next_part_power = state.get("next_part_power")
    if next_part_power is not None:
        _number(state, "next_part_power", part_power, PART_POWER_MAX)
    graph = state.get("_dispersion_graph") or {}
    if not isinstance(graph, dict) or not all(map(_is_proper_count, graph.items())):
        raise ValueError("_dispersion_graph is not a dictionary of tiers and numbers")
    builder_id = state.get("id")
    if not isinstance(builder_id, str | None):
        raise ValueError("id is not text")
    dispersion = state.get("dispersion")
    return RingBuilder(
        part_power=part_power,
        replicas=_real(state["replicas"], "replicas", 1, REPLICAS_MAX),
        min_part_hours=_number(state, "min_part_hours", 0, 2**31),
        devs=devs,
        table=_table(state.get("_replica2part2dev"), 1 << part_power, devs),
        version=_number(state, "version", 0, 2**63),
        devs_changed=bool(state.get("devs_changed")),
        overload=_real(state.get("overload", 0.0), "overload", 0, 1e9),
        dispersion=None if dispersion is None else _real(dispersion, "dispersion", 0, 1e9),
        dispersion_graph=graph,
        removed_ids=_removed_ids(state.get("_remove_devs") or [], devs),
        hours_since_move=_ages(state.get("_last_part_moves"), 1 << part_power),
        moves_epoch=_number(state, "_last_part_moves_epoch", 0, 2**63, default=0),
        gather_start=_number(state, "_last_part_gather_start", 0, 2**32, default=0),
        next_part_power=next_part_power,
        builder_id=builder_id,
    )


def _is_proper_count(item: tuple[object, object]) -> bool:
    """Whether a tier and its counts have the form that ``dispersion`` writes."""
    tier, counts = item
    return (
        isinstance(tier, tuple)
        and 0 < len(tier) <= DEVICE_TIER_LENGTH
        and all(isinstance(part, str if place == 2 else int) for place, part in enumerate(tier))
        and isinstance(counts, list)
        and all(type(count) is int for count in counts)
    )


def _number(
    state: Mapping[str, Any], key: str, lowest: int, highest: int, default: int | None = None
) -> int:
    value = state.get(key)
    if value is None and default is not None:
        return default
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{key} is {value!r}, not a whole number from {lowest} to {highest}")
    return value


def _real(value: object, key: str, lowest: float, highest: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} is {value!r}, not a number")
    if not lowest <= value <= highest:
        raise ValueError(f"{key} is {value!r}, not {lowest:g} to {highest:g}")
    return float(value)


def _devices(raw: object) -> list[Device | None]:
    if not isinstance(raw, list):
        raise ValueError("devs is not a list")
    devs: list[Device | None] = []
    for number, dev in enumerate(raw):
        # Builders of old tools have no region.
        device = None if dev is None else checked_device({"region": 1, "parts": 0, **dev})
        if device is not None and (device["id"] != number or type(device["parts"]) is not int):
            raise ValueError(f"device {number} has id {device['id']}, parts {device['parts']!r}")
        devs.append(device)
    return devs


def _table(raw: object, partitions: int, devs: list[Device | None]) -> Table:
    """The checked assignments; every row but the last is whole, every id is a device."""
    if raw is None:
        return []
    if not isinstance(raw, list) or len(raw) > REPLICAS_MAX:
        raise ValueError("_replica2part2dev is not a list of rows")
    if len(raw) > 1 and isinstance(raw[-1], array) and not raw[-1]:
        raw = raw[:-1]  # OpenStack Swift writes it for a fraction below one partition
    for number, row in enumerate(raw):
        if not isinstance(row, array) or row.typecode not in ("H", "I"):
            raise ValueError(f"row {number} of _replica2part2dev is not an array of device ids")
        is_last = number == len(raw) - 1
        if len(row) != partitions and not (is_last and 0 < len(row) < partitions):
            raise ValueError(f"row {number} of _replica2part2dev has {len(row)} partitions")
        for dev_id in set(row):
            if dev_id >= len(devs) or devs[dev_id] is None:
                raise ValueError(f"row {number} of _replica2part2dev names device {dev_id}")
    return raw


def _removed_ids(raw: object, devs: list[Device | None]) -> list[int]:
    ids = []
    for dev in raw if isinstance(raw, list) else [None]:
        dev_id = dev.get("id") if isinstance(dev, dict) else None
        if type(dev_id) is not int or not 0 <= dev_id < len(devs) or devs[dev_id] is None:
            raise ValueError("_remove_devs names a device that does not exist")
        ids.append(dev_id)
    return ids


def _ages(raw: object, partitions: int) -> bytearray:
    if raw is None:
        return bytearray(partitions)
    # A list after OpenStack Swift raised the partition power.
    if not isinstance(raw, array | list) or len(raw) != partitions:
        raise ValueError("_last_part_moves does not have one byte per partition")
    if any(type(age) is not int or not 0 <= age <= HOURS_MAX for age in raw):
        raise ValueError("_last_part_moves has values that are not hours")
    return bytearray(raw)
