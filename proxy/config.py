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

    conn_timeout: float = option(0.5, "Longest wait for a connection to a storage server", "s")
    node_timeout: float = option(10.0, "Longest wait for a read from or a write to one", "s")
    recoverable_node_timeout: float | None = option(
        None, "The same for reading an object, which another replica has; empty: node_timeout", "s"
    )
    post_quorum_timeout: float = option(
        0.5, "How long to wait for the remaining replicas once the outcome is decided", "s"
    )
    backend_pool_size: int = option(64, "Idle connections kept for each storage server's address")
    client_chunk_size: int = option(65536, "Bytes read from a client at a time", "bytes")
    error_suppression_interval: float = option(
        60.0,
        "Failures are forgotten so long after the last one. A device that failed too often is left "
        "alone until it answers a probe; 0: never",
        "s",
    )
    error_suppression_limit: int = option(10, "Failures that a device may have before that")
    error_doubt_interval: float = option(
        86400.0, "How long reads prefer other replicas to one that may have missed writes", "s"
    )
    request_node_count: str = option(
        "2 * replicas", "Devices tried for one request: a number, or 'N * replicas'"
    )
    rebalance_missing_suppression_count: int = option(
        1, "How many 404s of primaries say nothing, since a rebalance may have moved the data"
    )
    sorting_method: str = option(
        "shuffle", "Order in which replicas are read: shuffle; timing and affinity mean the same"
    )
    log_handoffs: bool = option(True, "Log requests that need more hand-offs than expected")
    recheck_account_existence: int = option(60, "Longest age of cached account information", "s")
    recheck_container_existence: int = option(60, "The same for containers", "s")
    allow_account_management: bool = option(False, "Let authorized users PUT and DELETE accounts")
    account_autocreate: bool = option(False, "Create an account at the first write to it")
    max_containers_per_account: int = option(
        0, "Containers an account may have; more are refused with 403. 0: any number"
    )
    max_containers_whitelist: list[str] = option(
        [], "Accounts without that limit, separated by commas"
    )
    allow_open_expired: bool = option(
        False, "Let X-Open-Expired: true open objects that have expired but are still on disk"
    )
    deny_host_headers: list[str] = option(
        [], "Host headers that are refused with 403, separated by commas"
    )
    cors_allow_origin: list[str] = option(
        [], "Origins allowed beside those that the container allows"
    )
    cors_expose_headers: list[str] = option(
        [], "Headers that answers to other origins expose besides the usual"
    )
    strict_cors_mode: bool = option(True, "Give CORS headers only to origins that are allowed")
    swift_owner_headers: list[str] = option(_OWNER_HEADERS, "Headers that only owners see and set")
    expose_info: bool = option(True, "Answer /info")
    disallowed_sections: list[str] = option(
        ["swift.auto_create_account_prefix", "swift.valid_api_versions"],
        "Sections kept out of /info, as section.key",
    )
    internal_pipeline: bool = option(
        False, "No outside client reaches this pipeline: required filters are not put into it"
    )
    admin_key: str = option("", "Key that signs requests for the admin part of /info; empty: none")

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
