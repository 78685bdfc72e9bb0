# SPDX-License-Identifier: Apache-2.0
"""Facts about accounts and containers that the proxy looks up and caches."""
