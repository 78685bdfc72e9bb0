# SPDX-License-Identifier: Apache-2.0
"""``[filter:proxy-logging]``."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option
from martlet.log import LEVELS
from proxy.middleware.access_log.template import AccessTemplate

_STATSD_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "COPY", "OPTIONS", "UPDATE"]


@dataclass(frozen=True)
class ProxyLoggingOptions:
    """``[filter:proxy-logging]``."""

    access_log_level: str = option(
        "", "Level of the access log; above INFO no lines are written. Empty: [DEFAULT] log_level"
    )
    reveal_sensitive_prefix: int = option(
        16,
        "How much of a token, and of a signature in a URL, is logged; of keys nothing is",
        "characters",
    )
    log_msg_template: str = option(
        "", "Form of a line, with {field} in it; empty: key=value fields (doc/filters.md)"
    )
    log_anonymization_method: str = option("MD5", "Digest of {field.anonymized}")
    log_anonymization_salt: str = option("", "Put before the value that is anonymized")
    access_log_headers: bool = option(False, "Log the headers of requests")
    access_log_headers_only: list[str] = option(
        [], "Of these only the headers named here; empty: all"
    )
    access_log_statsd_host: str = option("", "Where StatsD figures are sent; empty: nowhere")
    access_log_statsd_port: int = option(8125, "UDP port of StatsD")
    access_log_statsd_metric_prefix: str = option("", "Put before the names of figures")
    access_log_statsd_default_sample_rate: float = option(1.0, "Share of the figures sent, 0 to 1")
    access_log_statsd_sample_rate_factor: float = option(1.0, "Multiplies the share")
    log_statsd_valid_http_methods: list[str] = option(
        _STATSD_METHODS, "Methods with figures of their own; others are BAD_METHOD"
    )

    def __post_init__(self) -> None:
        if self.access_log_level and self.access_log_level.upper() not in LEVELS:
            raise ValueError(f"access_log_level must be one of {', '.join(LEVELS)}")
        if not 0.0 <= self.sample_rate <= 1.0:
            raise ValueError("the share of figures sent to StatsD must be from 0 to 1")
        self.template()

    @property
    def sample_rate(self) -> float:
        """The share of figures that are sent."""
        rate = self.access_log_statsd_default_sample_rate
        return rate * self.access_log_statsd_sample_rate_factor

    def template(self) -> AccessTemplate | None:
        """The form of a line; None for key=value fields.

        :raises ValueError: it cannot be used.
        """
        form = self.log_msg_template
        method, salt = self.log_anonymization_method, self.log_anonymization_salt
        checked = AccessTemplate(form, method, salt)
        return checked if form else None
