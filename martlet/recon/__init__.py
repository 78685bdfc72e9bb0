# SPDX-License-Identifier: Apache-2.0
"""Figures about a server: the ``recon`` filter and its sources."""
