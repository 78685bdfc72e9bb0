# SPDX-License-Identifier: Apache-2.0
"""The outermost filters: transaction ids and errors, internal headers, cache, listing formats."""
