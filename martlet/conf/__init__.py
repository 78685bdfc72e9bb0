# SPDX-License-Identifier: Apache-2.0
"""Configuration files: options, limits, ``martlet.conf``, storage policies, sync realms."""
