# SPDX-License-Identifier: Apache-2.0
"""The options of ``[app:proxy-server]``; names, meanings and defaults are OpenStack Swift's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from martlet.conf.options import option

_OWNER_HEADERS = [
    "x-container-read",
    "x-container-write",
    "x-container-sync-key",
    "x-container-sync-to",
    "x-account-meta-temp-url-key",
    "x-account-meta-temp-url-key-2",
    "x-container-meta-temp-url-key",
    "x-container-meta-temp-url-key-2",
    "x-account-access-control",
]


@dataclass(frozen=True)
class ProxyOptions:
    """The options of the proxy application."""

    conn_timeout: float = option(
        0.5,
        "The longest wait for a connection to a storage server, in seconds.",
        "s",
    )
    node_timeout: float = option(
        10.0,
        "The longest wait for each read from a storage server or write to it, in seconds.",
        "s",
    )
    recoverable_node_timeout: float | None = option(
        None,
        "The longest wait for each read of an object from a storage server, in seconds. It may be "
        "shorter than node_timeout, because another replica has the object. Empty means "
        "node_timeout.",
        "s",
    )
    post_quorum_timeout: float = option(
        0.5,
        "The wait for the remaining replicas after a quorum has decided the result, in seconds.",
        "s",
    )
    backend_pool_size: int = option(
        64,
        "The number of idle connections that are kept for each address of a storage server.",
    )
    client_chunk_size: int = option(
        65536,
        "The number of bytes that are read from a client at a time.",
        "bytes",
    )
    error_suppression_interval: float = option(
        60.0,
        "Failures of a device are forgotten this long after the last one, in seconds. A device "
        "that failed too often is avoided until it answers a probe. 0 means that no device is "
        "avoided.",
        "s",
    )
    error_suppression_limit: int = option(
        10,
        "The number of failures at which a device is still used. One more, and it is avoided.",
    )
    error_doubt_interval: float = option(
        86400.0,
        "A device that may have missed a write is read after the others for this long, in "
        "seconds. 0 means that it is not.",
        "s",
    )
    request_node_count: str = option(
        "2 * replicas",
        "The largest number of devices that are tried for one request: a number, or "
        "'N * replicas'.",
    )
    rebalance_missing_suppression_count: int = option(
        1,
        "The number of 404s of primaries that a read ignores, because a rebalance may have moved "
        "the data.",
    )
    sorting_method: str = option(
        "shuffle",
        "The order in which replicas are read, which is random: shuffle. OpenStack Swift's timing "
        "and affinity are accepted and mean the same.",
    )
    log_handoffs: bool = option(
        True,
        "Whether a request that needs more hand-offs than expected is logged.",
    )
    recheck_account_existence: int = option(
        60,
        "Cached information about an account is used for this long, in seconds.",
        "s",
    )
    recheck_container_existence: int = option(
        60,
        "Cached information about a container is used for this long, in seconds.",
        "s",
    )
    recheck_updating_shard_ranges: int = option(
        60,
        "Shard ranges of a container, to which writes send their rows, are used for this long, in "
        "seconds; 0: rows go to the container, which redirects them.",
        "s",
    )
    allow_account_management: bool = option(
        False,
        "Whether authorized users may PUT and DELETE accounts.",
    )
    account_autocreate: bool = option(
        False,
        "Whether the first write to an account creates it. If not, which is the default, an "
        "upload to a missing account is answered with 404.",
    )
    max_containers_per_account: int = option(
        0,
        "The number of containers that an account may have. One more is refused with 403. 0 means "
        "any number.",
    )
    max_containers_whitelist: list[str] = option(
        [],
        "The accounts to which max_containers_per_account does not apply, separated by commas.",
    )
    allow_open_expired: bool = option(
        False,
        "Whether the header X-Open-Expired: true opens an object that has expired but is still on "
        "disk.",
    )
    deny_host_headers: list[str] = option(
        [],
        "Requests for these hosts (Host header) are refused with 403. The names are separated by "
        "commas.",
    )
    cors_allow_origin: list[str] = option(
        [],
        "The origins that are allowed in addition to those of the container, separated by commas.",
    )
    cors_expose_headers: list[str] = option(
        [],
        "The headers that answers to other origins expose in addition to the standard ones, "
        "separated by commas.",
    )
    strict_cors_mode: bool = option(
        True,
        "Whether only allowed origins get CORS headers.",
    )
    swift_owner_headers: list[str] = option(
        _OWNER_HEADERS,
        "The headers that only the owner of an account can read and set, separated by commas.",
    )
    expose_info: bool = option(
        True,
        "Whether /info is answered.",
    )
    disallowed_sections: list[str] = option(
        ["swift.auto_create_account_prefix", "swift.valid_api_versions"],
        "The parts that are left out of /info, as section.key, separated by commas.",
    )
    internal_pipeline: bool = option(
        False,
        "Whether this pipeline is internal, so that no outside client reaches it. Required "
        "filters that are missing are then not added.",
    )
    admin_key: str = option(
        "",
        "The key that signs requests for the admin part of /info. Empty means that there is no "
        "such part.",
    )

    def __post_init__(self) -> None:
        if self.sorting_method not in ("shuffle", "timing", "affinity"):
            raise ValueError(f"sorting_method must be shuffle, not {self.sorting_method!r}")
        if self.client_chunk_size <= 0:
            raise ValueError("client_chunk_size must be positive")
        self.node_count(1)

    @property
    def read_timeout(self) -> float:
        """The timeout of a read that another replica could serve as well, seconds."""
        recoverable = self.recoverable_node_timeout
        return self.node_timeout if recoverable is None else recoverable

    def node_count(self, replicas: int) -> int:
        """The number of devices that one request may try, in a ring with ``replicas`` replicas."""
        return _node_count(self.request_node_count, replicas)


@lru_cache(64)  # every request calls it
def _node_count(text: str, replicas: int) -> int:
    number, _, unit = text.replace("*", " ").partition(" ")
    if not number.isdigit() or int(number) < 1 or unit.strip() not in ("", "replicas"):
        raise ValueError(f"request_node_count must be a number or 'N * replicas', not {text!r}")
    return int(number) * replicas if unit.strip() else int(number)
