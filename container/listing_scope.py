# SPDX-License-Identifier: Apache-2.0
"""The names that a listing shows of a container that may be sharded."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from container.info import ContainerInfo
from container.shard_rows import UNSHARDED
from container.shard_spans import read_spans


class NamesGivenAway(Exception):
    """Rows of the names to be listed are in shards."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Restrictions of a listing, as its sender asks for them."""

    #: Nothing, if the container is sharded or about to be: its shards are asked then.
    unless_sharded: bool = False
    #: Only names between these bounds, whose rows are all here.
    own_names: tuple[str, str] | None = None

    def admits(self, connection: sqlite3.Connection, info: ContainerInfo) -> bool:
        """Whether rows are listed.

        :raises NamesGivenAway: rows between the bounds are in shards.
        """
        if info.is_deleted or (self.unless_sharded and info.sharding_state != UNSHARDED):
            return False
        if self.own_names is not None and read_spans(connection).gave_within(*self.own_names):
            raise NamesGivenAway
        return True


ANY_NAMES = Scope()
