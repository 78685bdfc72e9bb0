# SPDX-License-Identifier: Apache-2.0
"""Entry points of the account server: the command and PasteDeploy's factory."""

from __future__ import annotations

import sys

from martlet.http.environ import WSGIApp


def app_factory(global_conf: dict[str, str], **local_conf: str) -> WSGIApp:
    """The factory of ``use = egg:martlet#account``.

    :raises ConfigError: a section cannot be used.
    """
    from account.app import AccountServer

    return AccountServer.from_conf(global_conf, local_conf)


def preload() -> None:
    """Load what the service imports when it starts."""
    from martlet.service.preload import STORAGE_FILTERS, load_service

    load_service("account.app", *STORAGE_FILTERS)


def main(argv: list[str] | None = None) -> int:
    """Run the command ``martlet-account-server``; return its exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from martlet.service.server import StorageServerOptions, run_service

    return run_service(
        "martlet-account-server",
        "Serves account listings and metadata.",
        argv=argv,
        kind=StorageServerOptions,
    )


if __name__ == "__main__":
    sys.exit(main())
