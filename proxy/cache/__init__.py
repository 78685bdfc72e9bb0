# SPDX-License-Identifier: Apache-2.0
"""The proxy's cache: memcached where it is configured, else memory shared by invalidation only."""
