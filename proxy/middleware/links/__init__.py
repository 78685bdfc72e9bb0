# SPDX-License-Identifier: Apache-2.0
"""Server-side copies, symlinks, and quoted ETags."""
