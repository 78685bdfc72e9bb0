# SPDX-License-Identifier: Apache-2.0
"""The backend request about a version that the query names."""

from __future__ import annotations

from collections.abc import Mapping

from martlet.http.environ import Environ
from martlet.http.response import http_error
from proxy.middleware.versions.container_lookup import ContainerLookup
from proxy.middleware.versions.query import RequestedObject
from proxy.replicas.versions import VERSION_ID, VersionRequest


def owner_request(
    containers: ContainerLookup,
    environ: Environ,
    target: RequestedObject,
    headers: Mapping[str, str] | None = None,
) -> VersionRequest:
    """A request about the version of ``target``, which only the owner may make.

    :param headers: for the object servers; the default names the version.
    :raises HTTPException: 400 if the container never had versions, 503 if that is unknown.
    """
    if not containers.is_versioned(environ, target.account, target.container):
        raise http_error(400, "version-aware operations require that the container is versioned")
    return VersionRequest(
        environ["PATH_INFO"], headers or {VERSION_ID: target.version}, owner_only=True
    )
