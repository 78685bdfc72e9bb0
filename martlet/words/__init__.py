# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the protocol: names and paths, timestamps."""
