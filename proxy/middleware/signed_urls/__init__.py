# SPDX-License-Identifier: Apache-2.0
"""Requests authorized by a signature instead of a token: temporary URLs and form posts."""
