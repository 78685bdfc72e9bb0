# SPDX-License-Identifier: Apache-2.0
"""``[filter:versioned_writes]``: object versioning and the two older modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import WSGIApp
from proxy.info_registry import register_info
from proxy.middleware.versions.legacy_versions import ALLOWED_FLAGS, LegacyVersions
from proxy.middleware.versions.object_versioning import ObjectVersioning


@dataclass(frozen=True)
class VersionedWritesOptions:
    """``[filter:versioned_writes]``."""

    allow_versioned_writes: bool = option(
        False, "X-Versions-Location and X-History-Location: old versions in another container"
    )
    allow_object_versioning: bool = option(
        False, "X-Versions-Enabled: versions that the object servers keep"
    )


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], WSGIApp]:
    """PasteDeploy's entry point."""
    options = load_filter_options(
        VersionedWritesOptions, "versioned_writes", global_conf, local_conf
    )
    if options.allow_versioned_writes:
        register_info("versioned_writes", allowed_flags=list(ALLOWED_FLAGS))
    if options.allow_object_versioning:
        register_info("object_versioning")

    def wrap(app: WSGIApp) -> WSGIApp:
        if options.allow_object_versioning:
            app = ObjectVersioning(app)
        return LegacyVersions(app, options.allow_versioned_writes)

    return wrap
