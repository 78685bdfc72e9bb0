# SPDX-License-Identifier: Apache-2.0
"""The proxy's answer to a request, by its path: account, container or object."""
