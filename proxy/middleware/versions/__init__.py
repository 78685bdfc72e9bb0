# SPDX-License-Identifier: Apache-2.0
"""Old versions of objects: object versioning, and Swift's older archive containers."""
