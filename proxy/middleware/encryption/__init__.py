# SPDX-License-Identifier: Apache-2.0
"""Encryption at rest, and the keys for it."""
