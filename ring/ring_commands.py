# SPDX-License-Identifier: Apache-2.0
"""The commands of martlet-ring-builder that assign partitions and write ring files."""

from __future__ import annotations

import argparse
import stat
import sys
import time
from datetime import timedelta
from pathlib import Path

from ring.builder import RebalanceResult, RingBuilder
from ring.builder_file import encode_builder, save_builder
from ring.devices import format_device
from ring.errors import BuilderError, RingFileError
from ring.file_format import encode_ring, read_ring
from ring.files import replace_file
from ring.progress import ProgressBar
from ring.weight_balance import BALANCE_MAX

EXIT_SUCCESS, EXIT_WARNING, EXIT_ERROR = 0, 1, 2
# The change of balance or dispersion, percent, that justifies a new ring.
WORTHWHILE_PERCENT = 1.0
# The imbalance, percent, above which another rebalance after min_part_hours is recommended.
TOLERABLE_BALANCE_PERCENT = 5.0
MIN_PART_HOURS_DEFAULT = 24


def create(options: argparse.Namespace, builder_path: Path) -> int:
    """Create a builder file; return the exit status."""
    if builder_path.exists():
        raise BuilderError(f"{builder_path} exists already: remove it first if it is not needed")
    builder = RingBuilder.create(options.part_power, options.replicas, options.min_part_hours)
    keep_backup(builder_path, encode_builder(builder))
    save_builder(builder, builder_path)
    return EXIT_SUCCESS


def rebalance(
    options: argparse.Namespace, builder: RingBuilder, builder_path: Path, ring_path: Path
) -> int:
    """Assign partitions and write both files; return the exit status."""
    _refuse_newer_ring(options, builder, ring_path)
    devs_changed = builder.devs_changed
    before = (builder.balance(), builder.dispersion)
    replicas_before = sum(map(len, builder.table))
    wait_seconds = builder.seconds_until_move()
    bar = ProgressBar(sys.stderr, "Rebalancing")
    try:
        result = builder.rebalance(seed=options.seed or options.seed_argument, progress=bar)
    finally:
        bar.close()
    if options.debug:
        print("\n".join(_wanted(builder)))
    # Fewer replicas change the ring at once, even if no partition may move.
    is_cut = sum(map(len, builder.table)) < replicas_before
    if not (result.moved_partitions or result.removed_devices or is_cut or options.force):
        print("No partitions could be reassigned.")
        if wait_seconds:
            print(
                "The time between rebalances must be at least min_part_hours: "
                f"{builder.min_part_hours} hours ({timedelta(seconds=wait_seconds)} remaining)"
            )
        else:
            print("There is no need to do so at this time")
        return EXIT_WARNING
    if not (options.force or devs_changed or _is_worthwhile(before, result)):
        print("Not saved: it did not change at least 1% (--force saves it).")
        return EXIT_WARNING
    builder.validate()
    ring = encode_ring(builder.ring_data(), ring_path.name, options.format_version)
    keep_backup(ring_path, ring)
    keep_backup(builder_path, encode_builder(builder))
    # The builder first: a ring can be written from it again, but not vice versa.
    save_builder(builder, builder_path)
    replace_file(ring_path, ring)
    print(
        f"Reassigned {result.changed_replicas} "
        f"({100.0 * result.changed_replicas / builder.partitions:.2f}%) partitions. "
        f"Balance is now {result.balance:.2f}.  Dispersion is now {result.dispersion:.2f}"
    )
    return _advice(builder, result)


def _wanted(builder: RingBuilder) -> list[str]:
    return [
        f"DEBUG: {format_device(device)} holds {device.get('parts', 0)}, "
        f"wants {device.get('parts_wanted', 0):+d}"
        for device in builder.devices()
    ]


def _is_worthwhile(before: tuple[float, float | None], result: RebalanceResult) -> bool:
    balance, dispersion = before
    return (
        abs(balance - result.balance) >= WORTHWHILE_PERCENT
        or balance == result.balance == BALANCE_MAX
        or dispersion is None
        or abs(dispersion - result.dispersion) >= WORTHWHILE_PERCENT
    )


def _advice(builder: RingBuilder, result: RebalanceResult) -> int:
    """Print advice about dispersion or imbalance; return the exit status."""
    if result.dispersion > 0:
        print(
            f"NOTE: Dispersion of {result.dispersion:.6f} indicates some parts are not optimally "
            "dispersed: the weights do not allow it (an overload may), or partitions may not "
            "move yet."
        )
        return EXIT_WARNING
    is_off = result.balance > TOLERABLE_BALANCE_PERCENT
    if is_off and result.balance / 100 > builder.overload:
        print(
            f"NOTE: Balance of {result.balance:.2f} indicates you should push this ring, wait at "
            f"least {builder.min_part_hours} hours, and rebalance/repush."
        )
        return EXIT_WARNING
    return EXIT_SUCCESS


def write_ring(options: argparse.Namespace, builder: RingBuilder, ring_path: Path) -> int:
    """Write the ring of a builder unchanged; return the exit status."""
    _refuse_newer_ring(options, builder, ring_path)
    builder.validate()
    data = builder.ring_data()
    if options.dev_id_bytes:
        data.widen_ids(options.dev_id_bytes)
    ring = encode_ring(data, ring_path.name, options.format_version)
    keep_backup(ring_path, ring)
    replace_file(ring_path, ring)
    return EXIT_SUCCESS


def write_builder(options: argparse.Namespace, builder_path: Path, ring_path: Path) -> int:
    """Create a builder from the data in a ring; return the exit status."""
    if builder_path.exists():
        raise BuilderError(f"{builder_path} exists already: it is not overwritten")
    hours = options.min_part_hours
    if hours is None:
        hours = MIN_PART_HOURS_DEFAULT
        print(
            f"WARNING: min_part_hours is set to {hours}, which may not be its old value",
            file=sys.stderr,
        )
    save_builder(RingBuilder.from_ring(read_ring(ring_path), hours), builder_path)
    return EXIT_SUCCESS


def version(ring_path: Path) -> int:
    """Print the versions of a ring file; return the exit status."""
    ring = read_ring(ring_path)
    print(
        f"{ring_path}: Serialization version: {ring.format_version} "
        f"({ring.dev_id_bytes}-byte IDs), build version: {ring.version or 0}"
    )
    return EXIT_SUCCESS


def _refuse_newer_ring(options: argparse.Namespace, builder: RingBuilder, ring_path: Path) -> None:
    """Refuse to replace a newer ring: a builder from a backup must not undo later changes."""
    try:
        ring = read_ring(ring_path)
    except RingFileError:
        return  # there is none yet, or a damaged one, which may be replaced
    if not options.force and (ring.version or 0) > builder.version:
        raise BuilderError(
            f"{ring_path} has version {ring.version}, the builder is older ({builder.version}): "
            "find the right builder, or use --force"
        )


def keep_backup(path: Path, content: bytes) -> None:
    """Write ``content`` to backups/ first, under the time and the name of ``path``."""
    folder = path.parent / "backups"
    try:
        folder.mkdir()
    except FileExistsError:
        pass
    else:  # a user who may write here may write backups
        folder.chmod(stat.S_IMODE(path.parent.stat().st_mode))
    try:
        replace_file(folder / f"{time.time():.6f}.{path.name}", content, like=path)
    except OSError as error:
        raise BuilderError(f"{folder}: no backup can be written: {error.strerror}") from error
