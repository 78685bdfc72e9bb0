# SPDX-License-Identifier: Apache-2.0
"""The controllers, which answer requests: one each for accounts, containers and objects."""
