# SPDX-License-Identifier: Apache-2.0
"""Web features in front of Swift's API: static sites, domains as accounts, Flash policies."""
