# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-container-replicator``."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the replicator until a stop signal, or once; return the exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from container.database import ContainerDatabase
    from replicator.command import run

    return run(argv, "container", ContainerDatabase)


if __name__ == "__main__":
    sys.exit(main())
