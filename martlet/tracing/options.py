# SPDX-License-Identifier: Apache-2.0
"""The options of every filter that makes traces."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from martlet.conf.options import option

#: Spans in one message to the collector. Other requests of the process wait while it is encoded,
#: which takes about 2 ms.
BATCH_SPANS = 64


@dataclass(frozen=True)
class ExportOptions:
    """The way of spans to the collector."""

    endpoint: str = option(
        "http://127.0.0.1:4318/v1/traces", "URL of the collector, for OTLP over HTTP"
    )
    service_name: str = option("", "Name of the service in traces; empty: that of the program")
    export_timeout: float = option(5.0, "Longest wait for the collector's answer", "s")
    queue_size: int = option(2048, "Spans of a worker that wait for the collector; more are lost")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        url = urlsplit(self.endpoint)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("endpoint must be the URL of a collector, http://HOST:PORT/v1/traces")
        if self.export_timeout <= 0:
            raise ValueError("export_timeout must be above 0")
        if self.queue_size < BATCH_SPANS:
            raise ValueError(f"queue_size must be at least {BATCH_SPANS}")
