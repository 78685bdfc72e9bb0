# SPDX-License-Identifier: Apache-2.0
"""The container sharder: splits containers with many rows, and joins small shards again."""
