# SPDX-License-Identifier: Apache-2.0
"""The account service: the containers of each account, with their objects and bytes."""
