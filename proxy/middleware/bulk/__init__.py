# SPDX-License-Identifier: Apache-2.0
"""Many objects in one request: archives that are unpacked, and bulk deletes."""
