# SPDX-License-Identifier: Apache-2.0
"""``martlet recon``: questions to all storage servers of a cluster, and tables of the answers."""
