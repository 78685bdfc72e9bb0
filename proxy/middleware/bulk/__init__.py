# SPDX-License-Identifier: Apache-2.0
"""Many objects in one request: extraction of archives, and bulk deletes."""
