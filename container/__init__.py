# SPDX-License-Identifier: Apache-2.0
"""The container service: the objects of each container, and reports of totals to the account."""
