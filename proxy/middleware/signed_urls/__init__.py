# SPDX-License-Identifier: Apache-2.0
"""Requests that a signature allows in place of a token: temporary URLs and form posts."""
