# SPDX-License-Identifier: Apache-2.0
"""Objects that refer to other objects: server-side copies, symlinks; and quoted ETags."""
