# SPDX-License-Identifier: Apache-2.0
"""Configuration files: options, the cluster's ``martlet.conf``, storage policies, sync realms."""
