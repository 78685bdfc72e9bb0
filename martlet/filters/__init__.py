# SPDX-License-Identifier: Apache-2.0
"""Filters for the pipeline of every service, and how a filter reads its options."""
