# SPDX-License-Identifier: Apache-2.0
"""The process of a Python service: start, workers, reload on SIGHUP, calls to slow disks."""
