# SPDX-License-Identifier: Apache-2.0
"""Authentication and authorization: tempauth, Keystone, ACLs, container sync."""
