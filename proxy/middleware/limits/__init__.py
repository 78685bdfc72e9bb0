# SPDX-License-Identifier: Apache-2.0
"""Refusals by rule: quotas, rate limits, forbidden names, read-only accounts."""
