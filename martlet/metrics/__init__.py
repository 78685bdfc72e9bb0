# SPDX-License-Identifier: Apache-2.0
"""``GET /metrics`` of the Python services, in the text format of Prometheus (doc/metrics.md)."""
