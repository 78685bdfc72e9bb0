# SPDX-License-Identifier: Apache-2.0
"""The entry point ``martlet-proxy-server``."""

from __future__ import annotations

import sys


def preload() -> None:
    """Load what the service imports when it starts."""
    from martlet.service.preload import load_filters, load_service

    load_service("proxy.app", "proxy.required_filters")
    load_filters()


def main(argv: list[str] | None = None) -> int:
    """Run the service with the conf named on the command line; returns the exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from martlet.service.server import run_service
    from proxy.required_filters import insert_required_filters

    return run_service(
        "martlet-proxy-server",
        "Serves the Swift API.",
        argv=argv,
        complete_pipeline=insert_required_filters,
    )


if __name__ == "__main__":
    sys.exit(main())
