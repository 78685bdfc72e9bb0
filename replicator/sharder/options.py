# SPDX-License-Identifier: Apache-2.0
"""The options of the container sharder; their names are OpenStack Swift's."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option
from replicator.options import PriorityOptions


@dataclass(frozen=True)
class SharderOptions(PriorityOptions):
    """``[container-sharder]``."""

    interval: float = option(30.0, "Time between two starts of a pass", "s")
    auto_shard: bool = option(True, "Shard and shrink containers without a command")
    shard_container_threshold: int = option(1_000_000, "Objects from which a container is sharded")
    rows_per_shard: int = option(0, "Objects of a new shard; 0: half of the threshold")
    minimum_shard_size: int = option(
        0, "Least objects of the last new shard; 0: a fifth of rows_per_shard"
    )
    shrink_threshold: int = option(
        0, "Objects up to which a shard is joined with a neighbour; 0: a tenth of the threshold"
    )
    expansion_limit: int = option(
        0, "Most objects of two shards that are joined, fewer than the threshold; 0: 3/4 of it"
    )
    cleave_batch_size: int = option(2, "Most ranges of a container given to shards in a pass")
    cleave_row_batch_size: int = option(1000, "Most rows in one request")
    containers_per_second: float = option(
        50.0, "Most changed containers read in a second; 0: no limit", "1/s"
    )
    recon_cache_path: str = option(
        "", "Directory for the figures of passes; empty: that of [filter:recon]"
    )
    conn_timeout: float = option(0.5, "Longest wait for a connection to a server", "s")
    node_timeout: float = option(30.0, "Longest wait for a server's answer", "s")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        self.check_above_zero(
            "interval",
            "shard_container_threshold",
            "cleave_batch_size",
            "cleave_row_batch_size",
            "conn_timeout",
            "node_timeout",
        )
        for name in (
            "rows_per_shard",
            "minimum_shard_size",
            "shrink_threshold",
            "expansion_limit",
            "containers_per_second",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if self.joined_max >= self.shard_container_threshold:
            raise ValueError("expansion_limit must be less than shard_container_threshold")

    @property
    def rows(self) -> int:
        """The objects of a new shard."""
        return self.rows_per_shard or max(1, self.shard_container_threshold // 2)

    @property
    def rows_min(self) -> int:
        """The least objects of the last new shard."""
        return self.minimum_shard_size or max(1, self.rows // 5)

    @property
    def shrink_max(self) -> int:
        """The objects up to which a shard is joined with a neighbour."""
        return self.shrink_threshold or self.shard_container_threshold // 10

    @property
    def joined_max(self) -> int:
        """The most objects of two shards that are joined."""
        return self.expansion_limit or self.shard_container_threshold * 3 // 4
