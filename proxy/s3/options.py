# SPDX-License-Identifier: Apache-2.0
"""The options of ``[filter:s3api]``; names are OpenStack Swift's where the meaning is the same."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option

_AT_LEAST_ONE = (
    "max_bucket_listing",
    "max_parts_listing",
    "max_multi_delete_objects",
    "multi_delete_concurrency",
    "max_upload_part_num",
    "allowable_clock_skew",
)
_AT_LEAST_ZERO = ("min_segment_size", "replaced_parts_delay")
_LEAST_LOGGING_BYTES = 1024 * 1024


@dataclass(frozen=True)
class S3Options:
    """``[filter:s3api]``."""

    storage_domain: list[str] = option(
        [], "Domains whose first label is a bucket, for requests in virtual-host style"
    )
    website_domain: list[str] = option(
        [], "Domains whose first label is a bucket, for its website; needs one namespace"
    )
    location: str = option("us-east-1", "The region: of buckets, and in signatures of version 4")
    bucket_namespace: str = option(
        "account", "Where names of buckets are unique: account or cluster"
    )
    dns_compliant_bucket_names: bool = option(
        True, "Refuse names of buckets that cannot be a part of a host name"
    )
    max_bucket_listing: int = option(1000, "Most entries in a listing of a bucket")
    max_parts_listing: int = option(1000, "Most entries in a listing of parts")
    max_multi_delete_objects: int = option(1000, "Most objects in one multi-object delete")
    multi_delete_concurrency: int = option(
        128, "Objects, or parts of an upload, that one request deletes in parallel"
    )
    max_upload_part_num: int = option(
        1000, "The highest number of a part; not above max_manifest_segments of slo"
    )
    replaced_parts_delay: int = option(
        600,
        "How long parts of a multipart upload stay after its object was replaced or deleted, for "
        "clients that still read it; the expirer deletes them",
        "s",
    )
    min_segment_size: int = option(5242880, "The least size of a part but the last", "bytes")
    yield_frequency: float = option(
        10.0, "Longest silence before white space is sent in a long copy or completion", "s"
    )
    allow_multipart_uploads: bool = option(True, "Allow multipart uploads")
    allowable_clock_skew: int = option(
        900, "Most difference between the time of a request and the server's", "s"
    )
    cors_preflight_allow_origin: list[str] = option(
        [],
        "Origins whose scripts may send requests to buckets whose account is not known before; "
        "* stands for any text",
    )
    allow_customer_keys_over_http: bool = option(
        False,
        "Accept keys of clients (SSE-C) over connections without TLS; else a request needs "
        "X-Forwarded-Proto: https",
    )
    logging_dir: str = option(
        "", "Directory of lines of access logs that are not delivered yet; empty: there are no logs"
    )
    logging_interval: float = option(300.0, "From one delivery of access logs to the next", "s")
    logging_bytes_max: int = option(
        268435456, "Most bytes of lines in logging_dir; further ones are lost", "bytes"
    )
    ratelimit_as_client_error: bool = option(
        False, "Answer requests over a rate limit with 429 in place of 503"
    )

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in _AT_LEAST_ZERO:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} may not be negative")
        self._check_logging()
        if self.yield_frequency <= 0:
            raise ValueError("yield_frequency must be above 0")
        if self.bucket_namespace not in ("account", "cluster"):
            raise ValueError("bucket_namespace must be account or cluster")
        if any(origin.count("*") > 1 for origin in self.cors_preflight_allow_origin):
            raise ValueError("an origin of cors_preflight_allow_origin may have one * only")
        if self.website_domain and self.bucket_namespace != "cluster":
            raise ValueError("website_domain needs bucket_namespace = cluster")
        if not self.location:
            raise ValueError("location may not be empty")

    def _check_logging(self) -> None:
        if self.logging_dir and not self.logging_dir.startswith("/"):
            raise ValueError("logging_dir must be an absolute path")
        if not 0 < self.logging_interval <= 86400:
            raise ValueError("logging_interval must be above 0 and at most 86400")
        if self.logging_bytes_max < _LEAST_LOGGING_BYTES:
            raise ValueError(f"logging_bytes_max must be at least {_LEAST_LOGGING_BYTES}")
