# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-account-replicator``."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the replicator until a stop signal, or once; return the exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from account.database import AccountDatabase
    from replicator.command import run

    return run(argv, "account", AccountDatabase)


if __name__ == "__main__":
    sys.exit(main())
