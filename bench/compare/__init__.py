# SPDX-License-Identifier: Apache-2.0
"""martlet beside other object stores on this machine: the same client, the same file system."""
