# SPDX-License-Identifier: Apache-2.0
"""The names of all metrics of the Python services, with a sentence for each (doc/metrics.md)."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

#: Name -> type, labels, sentence.
FAMILIES: dict[str, tuple[str, Sequence[str], str]] = {
    "martlet_build_info": ("gauge", ("service", "version"), "1, with the version that runs."),
    "martlet_workers": ("gauge", (), "Worker processes that serve now."),
    "martlet_requests_total": (
        "counter",
        ("method", "policy", "status"),
        "Requests that have ended.",
    ),
    "martlet_request_duration_seconds": (
        "histogram",
        ("method", "policy"),
        "Time from the head of a request to the end of its answer.",
    ),
    "martlet_suppressed_devices": (
        "gauge",
        ("device",),
        "Workers of the proxy that avoid this device because it failed.",
    ),
    "martlet_hints_waiting": ("gauge", (), "Hints for object servers that are not sent yet."),
    "martlet_notifications": (
        "gauge",
        ("target", "result"),
        "Notifications that the workers have sent, failed to send, or lost, since they started.",
    ),
    "martlet_notifications_waiting_bytes": (
        "gauge",
        ("target",),
        "Size of the notifications of this host that are not sent yet.",
    ),
    "martlet_s3_log_lines": (
        "gauge",
        ("result",),
        "Lines of access logs of buckets that the workers have stored or lost, and failed objects.",
    ),
    "martlet_ring_info": ("gauge", ("ring", "md5"), "1, with the MD5 of the ring file."),
    "martlet_ring_modified_timestamp_seconds": ("gauge", ("ring",), "Time of the ring file."),
    "martlet_device_usable": ("gauge", ("device",), "1 if the device is mounted, else 0."),
    "martlet_device_size_bytes": ("gauge", ("device",), "Size of the file system."),
    "martlet_device_free_bytes": ("gauge", ("device",), "Free space of the file system."),
    "martlet_device_inodes": ("gauge", ("device",), "Inodes of the file system."),
    "martlet_device_inodes_free": ("gauge", ("device",), "Free inodes of the file system."),
    "martlet_xfs_inode_cache_total": (
        "counter",
        ("device", "event"),
        "Look-ups in the inode cache of XFS; the event missed reads the disk.",
    ),
    "martlet_quarantined": (
        "gauge",
        ("kind", "policy"),
        "Databases, or objects of a policy, in quarantine on this host.",
    ),
    "martlet_pass_last_timestamp_seconds": (
        "gauge",
        ("task",),
        "End of the last pass of a background job of this host.",
    ),
    "martlet_pass_duration_seconds": ("gauge", ("task",), "Duration of that pass."),
    "martlet_pass_items": (
        "gauge",
        ("task", "result"),
        "What that pass attempted, found in sync, failed at, or left as hand-offs.",
    ),
    "martlet_container_databases": (
        "gauge",
        ("at_most_bytes",),
        "Container databases of this host up to that size, at the last pass of the auditor.",
    ),
    "martlet_container_database_largest_bytes": (
        "gauge",
        (),
        "The largest container database of this host.",
    ),
    "martlet_grid_connections": ("gauge", (), "Open connections of the grid, of all workers."),
    "martlet_grid_refused": (
        "gauge",
        (),
        "Requests and connections without a proof of the secret, since the workers started.",
    ),
    "martlet_grid_protocol_errors": (
        "gauge",
        (),
        "Connections of the grid that broke a rule of its format, since the workers started.",
    ),
}


def counter(name: str) -> CounterMetricFamily:
    """An empty family of counters."""
    _, labels, text = FAMILIES[name]
    return CounterMetricFamily(name.removesuffix("_total"), text, labels=labels)


def gauge(name: str) -> GaugeMetricFamily:
    """An empty family of gauges."""
    _, labels, text = FAMILIES[name]
    return GaugeMetricFamily(name, text, labels=labels)


def histogram(name: str) -> HistogramMetricFamily:
    """An empty family of histograms."""
    _, labels, text = FAMILIES[name]
    return HistogramMetricFamily(name, text, labels=labels)
