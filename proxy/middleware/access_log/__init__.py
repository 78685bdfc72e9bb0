# SPDX-License-Identifier: Apache-2.0
"""The access log: a line and metrics for each request."""
