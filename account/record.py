# SPDX-License-Identifier: Apache-2.0
"""A container's row in its account, and the merge of two rows of one container."""

from __future__ import annotations

from typing import NamedTuple

from martlet.words.timestamp import Timestamp

COUNT_MAX = 2**63 - 1


class Record(NamedTuple):
    """A row of the container table; fields in the order of its columns after ROWID."""

    name: str
    put_timestamp: str
    delete_timestamp: str
    object_count: int
    bytes_used: int
    deleted: int
    storage_policy_index: int


def make_record(
    name: str,
    timestamps: tuple[Timestamp, Timestamp],
    object_count: int,
    bytes_used: int,
    storage_policy_index: int,
) -> Record:
    """Make a row; ``timestamps`` are of the last PUT and the last DELETE.

    The container counts as deleted if the DELETE is the later one and it holds no objects.
    """
    put, delete = timestamps
    deleted = int(delete > put and not object_count)
    return Record(
        name,
        put.internal,
        delete.internal,
        object_count,
        bytes_used,
        deleted,
        storage_policy_index,
    )


def merge_records(stored: Record, update: Record) -> Record:
    """The row after an update: the later of each timestamp, and the totals that arrived last.

    Totals have no timestamp, as in OpenStack Swift. Every replica of the container repeats its
    report until it is accepted, so the row follows the container.
    """
    return make_record(
        stored.name,
        (
            max(Timestamp(stored.put_timestamp), Timestamp(update.put_timestamp)),
            max(Timestamp(stored.delete_timestamp), Timestamp(update.delete_timestamp)),
        ),
        update.object_count,
        update.bytes_used,
        update.storage_policy_index,
    )
