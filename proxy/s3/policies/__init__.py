# SPDX-License-Identifier: Apache-2.0
"""Bucket policies at work, in the check of the auth filters."""
