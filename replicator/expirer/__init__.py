# SPDX-License-Identifier: Apache-2.0
"""The object expirer: deletes objects whose X-Delete-At has passed (doc/expirer.md)."""
