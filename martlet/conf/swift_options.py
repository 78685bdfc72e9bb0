# SPDX-License-Identifier: Apache-2.0
"""Options of OpenStack Swift that martlet does not have, and the reason for each.

Operators bring configuration files of Swift. An option that has no effect here does not prevent the
start: it is logged at the start, one line for each. An option whose absence would be noticed too
late is refused, with the reason. An option in none of the tables is taken for a typing error.
doc/swift-options.md shows the tables, which a test checks. The names are those of Swift 2.38.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

_PROCESS = "systemd sets this for a service (User=, Nice=, IOSchedulingClass=)"
_LOG = "the log goes to standard error, which systemd stores"
_STATSD = "only proxy-logging sends metrics: see its access_log_statsd_* options"
_NO_FALLOCATE = "account and container databases are small and grow by themselves"
_NO_SHARD_CACHE = "the proxy reads shard ranges anew for each listing"
_NO_SHARD_SKIP = "recheck_updating_shard_ranges alone decides"
_ONE_SHRINKS = "one shard of a container shrinks at a time"
_ALL_REPLICAS = "all replicas of a shard get its rows before it is used"
_SHARDS_COMMAND = "the command martlet shards shows the progress"
_NO_EC = "there are no erasure coded policies"
RANDOM = "replicas are read in random order, one after the other"
_OWN_LOG = "account and container servers log requests in one fixed format"
_NO_RSYNC = "whole databases are sent in requests"
_DEFAULT_LOG_LEVEL = "the option of [DEFAULT] applies"
_EVENTLET = "there is nothing to adjust here"

#: Section -> option, which may end in ``*`` -> why it has no effect.
WITHOUT_EFFECT: dict[str, dict[str, str]] = {
    # In every section.
    "": {
        "user": _PROCESS,
        "nice_priority": _PROCESS,
        "ionice_class": _PROCESS,
        "ionice_priority": _PROCESS,
        "log_name": _LOG,
        "log_facility": _LOG,
        "log_address": _LOG,
        "log_udp_host": _LOG,
        "log_udp_port": _LOG,
        "log_custom_handlers": _LOG,
        "log_max_line_length": _LOG,
        "log_statsd_*": _STATSD,
        "statsd_emit_legacy": _STATSD,
        "statsd_label_mode": _STATSD,
        "statsd_user_label_*": _STATSD,
    },
    "DEFAULT": {
        "bind_timeout": "a port in use is an error immediately",
        "keep_idle": _EVENTLET,
        "eventlet_debug": _EVENTLET,
        "log_headers": "access_log_headers of proxy-logging logs them",
        "log_format": _OWN_LOG,
        "log_anonymization_method": _OWN_LOG,
        "log_anonymization_salt": _OWN_LOG,
        "trans_id_suffix": "transaction ids have no suffix",
        "disable_fallocate": _NO_FALLOCATE,
        "fallocate_reserve": _NO_FALLOCATE,
        "db_preallocation": _NO_FALLOCATE,
        "db_query_logging": "queries are not logged",
        "allowed_sync_hosts": "it is an option of [app:container-server] and [container-sync]",
    },
    "app:proxy-server": {
        "read_affinity": RANDOM,
        "timing_expiry": RANDOM,
        "concurrent_gets": RANDOM,
        "concurrency_timeout": RANDOM,
        "write_affinity": "all replicas are written in parallel",
        "write_affinity_node_count": "all replicas are written in parallel",
        "write_affinity_handoff_delete_count": "all replicas are written in parallel",
        "concurrent_ec_extra_requests": _NO_EC,
        "write_legacy_ec_crc": _NO_EC,
        "object_chunk_size": "bodies are forwarded in the pieces in which they arrive",
        "account_existence_skip_cache_pct": "recheck_account_existence alone decides",
        "container_existence_skip_cache_pct": "recheck_container_existence alone decides",
        "recheck_listing_shard_ranges": _NO_SHARD_CACHE,
        "container_updating_shard_ranges_skip_cache_pct": _NO_SHARD_SKIP,
        "container_listing_shard_ranges_skip_cache_pct": _NO_SHARD_CACHE,
        "namespace_avg_backend_fetch_time": _NO_SHARD_CACHE,
        "namespace_cache_tokens_per_session": _NO_SHARD_CACHE,
        "stale_worker_timeout": "it is an option of [DEFAULT]",
        "auto_create_account_prefix": "it is an option of [swift-constraints] in martlet.conf",
    },
    "app:account-server": {
        "replication_server": "every server replicates",
        "stale_worker_timeout": "it is an option of [DEFAULT]",
        "auto_create_account_prefix": "it is an option of [swift-constraints] in martlet.conf",
    },
    "app:container-server": {
        "replication_server": "every server replicates",
        "stale_worker_timeout": "it is an option of [DEFAULT]",
        "allow_versions": "versioned_writes of the proxy decides",
        "auto_create_account_prefix": "it is an option of [swift-constraints] in martlet.conf",
    },
    "account-replicator": {
        "rsync_module": _NO_RSYNC,
        "rsync_compress": _NO_RSYNC,
        "db_preallocation": _NO_FALLOCATE,
        "handoff_delete": "a hand-off is removed when all primaries have everything in it",
        "run_pause": "interval is its newer name",
    },
    "container-replicator": {
        "rsync_module": _NO_RSYNC,
        "rsync_compress": _NO_RSYNC,
        "db_preallocation": _NO_FALLOCATE,
        "handoff_delete": "a hand-off is removed when all primaries have everything in it",
        "run_pause": "interval is its newer name",
    },
    "account-auditor": {"log_level": _DEFAULT_LOG_LEVEL},
    "container-auditor": {"log_level": _DEFAULT_LOG_LEVEL},
    "container-sharder": {
        "log_level": _DEFAULT_LOG_LEVEL,
        "shard_shrink_point": "shrink_threshold is its newer name",
        "shard_shrink_merge_point": "expansion_limit is its newer name",
        "shard_scanner_batch_size": "all ranges of a container are found at once",
        "max_expanding": _ONE_SHRINKS,
        "max_shrinking": _ONE_SHRINKS,
        "shard_replication_quorum": _ALL_REPLICAS,
        "existing_shard_replication_quorum": _ALL_REPLICAS,
        "internal_client_conf_path": "it sends requests to the servers itself",
        "request_tries": "a pass is repeated after its interval",
        "recon_candidates_limit": _SHARDS_COMMAND,
        "recon_sharded_timeout": _SHARDS_COMMAND,
        "container_sharding_timeout": _SHARDS_COMMAND,
        "stats_interval": "each pass logs what it did",
        "periodic_warnings_interval": "each pass logs what it did",
        "broker_timeout": "databases wait for each other for 25 s",
        "concurrency": "the devices of a host are worked on in parallel",
        "databases_per_second": "containers_per_second is its name here",
        "reclaim_age": "that of the container-replicator applies",
        "per_diff": "cleave_row_batch_size bounds a request",
        "max_diffs": "cleave_batch_size bounds a pass",
        "rsync_module": _NO_RSYNC,
        "rsync_compress": _NO_RSYNC,
        "db_preallocation": _NO_FALLOCATE,
        "handoffs_only": "hand-offs are not sharded",
        "handoff_delete": "hand-offs are not sharded",
        "run_pause": "interval is its newer name",
    },
    "account-reaper": {"log_level": _DEFAULT_LOG_LEVEL},
    "object-expirer": {
        "round_robin_task_cache_size": "the rows of a container's deletes are sent together",
        "auto_create_account_prefix": "it is an option of [swift-constraints] in martlet.conf",
    },
    "filter:proxy-logging": {
        "access_log_name": _LOG,
        "access_log_route": _LOG,
        "access_log_facility": _LOG,
        "access_log_address": _LOG,
        "access_log_udp_host": _LOG,
        "access_log_udp_port": _LOG,
        "statsd_emit_buffer_xfer_bytes_seconds": "bytes are counted at the end of a request",
        "storage_domain": "the log shows the path after domain_remap",
    },
    "filter:tempauth": {
        "fernet_key_*": "tokens are signed with token_secret, or with a shared secret",
        "active_fernet_key_id": "tokens are signed with token_secret, or with a shared secret",
    },
    "filter:s3api": {
        "allow_no_owner": "ACLs of S3 are ACLs of containers",
        "check_bucket_owner": "each account has its own buckets, so no other owner's are found",
        "auth_pipeline_check": "the place of the filter is not checked",
        "force_swift_request_proxy_log": "the second proxy-logging logs the requests that it makes",
    },
    "filter:recon": {
        "recon_lock_path": "each file of figures is its own lock",
    },
}

_TLS = "martlet does not support TLS: put a proxy with TLS in front of it"

#: Section -> option -> why it is refused, although Swift has it.
REFUSED: dict[str, dict[str, str]] = {
    "DEFAULT": {"cert_file": _TLS, "key_file": _TLS},
    "filter:s3api": {"s3_acl": "ACLs of single objects and users are not supported"},
    "app:proxy-server": {
        "require_proxy_protocol": "the PROXY protocol is not supported: a proxy in front of this "
        "one must not send it",
    },
}

#: Options of [app:proxy-server] that are also read in [DEFAULT], where Swift's sample has them.
PROXY_DEFAULTS = (
    "admin_key",
    "cors_allow_origin",
    "cors_expose_headers",
    "disallowed_sections",
    "expose_info",
    "strict_cors_mode",
)


def without_effect(section: str, name: str) -> str | None:
    """The reason why an option of Swift has no effect; None for any other option."""
    for pattern, reason in _entries(section):
        if fnmatchcase(name, pattern):
            return reason
    return None


def _entries(section: str) -> Iterator[tuple[str, str]]:
    yield from WITHOUT_EFFECT.get(section, {}).items()
    yield from WITHOUT_EFFECT[""].items()
