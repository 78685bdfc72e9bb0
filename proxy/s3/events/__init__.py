# SPDX-License-Identifier: Apache-2.0
"""Notifications: events of objects, kept on disk until the webhook of their target has them."""
