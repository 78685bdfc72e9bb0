# SPDX-License-Identifier: Apache-2.0
"""The modules of a service, loaded once in the process that the service will be a fork of."""

from __future__ import annotations

import importlib
import importlib.metadata

from martlet.service.green import patch_standard_library

#: What every Python service imports when it starts, or one module that imports it.
_MODULES = (
    "martlet.grid.hub_loop",
    "martlet.metrics.of_service",
    "martlet.recon.figures",
    "martlet.service.gate",
    "martlet.service.hub_socket",
    "martlet.service.server",
    "paste.deploy.loadwsgi",
)
#: The filters of a storage service.
STORAGE_FILTERS = ("martlet.filters.healthcheck", "martlet.recon.filter")


def load_service(*modules: str) -> None:
    """Load these modules and all that every service imports when it starts."""
    patch_standard_library()
    for name in (*_MODULES, *modules):
        importlib.import_module(name)


def load_filters() -> None:
    """Load the factory of every filter."""
    ours = importlib.metadata.distribution("martlet").entry_points
    for factory in ours.select(group="paste.filter_factory"):
        factory.load()
