# SPDX-License-Identifier: Apache-2.0
"""``[app:account-server]``."""

from __future__ import annotations

from dataclasses import dataclass

from storage.storage_server import StorageOptions


@dataclass(frozen=True)
class AccountOptions(StorageOptions):
    """Options of the account server; the container server has the same."""
