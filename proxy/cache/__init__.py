# SPDX-License-Identifier: Apache-2.0
"""The proxy's cache: memcached if configured, else process memory with shared invalidation."""
