# SPDX-License-Identifier: Apache-2.0
"""``martlet deploy``: the files of a new cluster of several hosts (doc/install.md)."""
