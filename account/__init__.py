# SPDX-License-Identifier: Apache-2.0
"""The account service: which containers an account has, and how much they hold."""
