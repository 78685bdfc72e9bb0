# SPDX-License-Identifier: Apache-2.0
"""``martlet check``: what is wrong with this host, before a service starts (doc/operations.md)."""
