# SPDX-License-Identifier: Apache-2.0
"""Entry points of the container server: the command and PasteDeploy's factory."""

from __future__ import annotations

import sys

from martlet.http.environ import WSGIApp


def app_factory(global_conf: dict[str, str], **local_conf: str) -> WSGIApp:
    """The factory of ``use = egg:martlet#container``.

    :raises ConfigError: a section cannot be used.
    """
    from container.app import ContainerServer

    return ContainerServer.from_conf(global_conf, local_conf)


def _start_background(app: WSGIApp) -> None:
    from container.app import ContainerServer

    while not isinstance(app, ContainerServer):
        app = app.app  # type: ignore[attr-defined]  # a filter of the pipeline
    app.reporter.start()
    app.feeder.start()


def preload() -> None:
    """Load what the service imports when it starts."""
    from martlet.service.preload import STORAGE_FILTERS, load_service

    load_service("container.app", *STORAGE_FILTERS)


def main(argv: list[str] | None = None) -> int:
    """Run the command ``martlet-container-server``; return its exit status."""
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from martlet.service.server import StorageServerOptions, run_service

    return run_service(
        "martlet-container-server",
        "Serves container listings and metadata.",
        _start_background,
        argv=argv,
        kind=StorageServerOptions,
    )


if __name__ == "__main__":
    sys.exit(main())
