# SPDX-License-Identifier: Apache-2.0
"""The container service: which objects a container has; it reports its totals to the account."""
