# SPDX-License-Identifier: Apache-2.0
"""Filters for the pipeline of every service, and the reading of filter options."""
