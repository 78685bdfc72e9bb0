# SPDX-License-Identifier: Apache-2.0
"""The web in front of Swift's API: static sites, domains as accounts, Flash policies."""
