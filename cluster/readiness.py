# SPDX-License-Identifier: Apache-2.0
"""Checks whether a service is ready, by requests like those of a client or the proxy."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.ports import HOST
from cluster.services import Service
from martlet.conf.cluster import ClusterConf
from martlet.conf.options import ConfigError
from martlet.tls.contexts import client_context

#: Account and user of the request that tests the cluster, and of the printed commands.
TRIAL_USER = "test:tester"
TRIAL_KEY = "testing"
AUTH_PATH = "/auth/v1.0"
_TIMEOUT_SECONDS = 2.0


def storage_tls(home: Home) -> ssl.SSLContext | None:
    """The context to ask the storage services with; None: they speak no TLS.

    :raises ClusterError: ``martlet.conf`` cannot be used.
    """
    try:
        grid = ClusterConf.load(home.etc).grid
        return client_context(grid.tls.authorities) if grid.tls else None
    except (ConfigError, ValueError) as error:
        raise ClusterError(str(error)) from None


def answers(service: Service, pid: int, tls: ssl.SSLContext | None = None) -> bool:
    """Whether the service answers a request, with any status.

    A supervisor of background jobs must have started them. Whether one fails is no matter here.

    :param tls: of a client of the storage services; None: they speak no TLS.
    """
    if service.port is None:
        return read_jobs(service, pid) is not None
    context = None if service.is_front else tls
    return _request(service.port, "GET", "/healthcheck", context=context) is not None


def read_jobs(service: Service, pid: int) -> list[dict[str, Any]] | None:
    """The background jobs of a node from the status file of process ``pid`` (doc/background.md).

    None before that process has written the file.
    """
    if service.status_path is None:
        return None
    try:
        document = json.loads(service.status_path.read_bytes())
        return list(document["jobs"]) if document["pid"] == pid else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def serves_requests(proxy_port: int) -> bool:
    """Whether a user can log in and list the account through the proxy."""
    login = {"X-Auth-User": TRIAL_USER, "X-Auth-Key": TRIAL_KEY}
    answer = _request(proxy_port, "GET", AUTH_PATH, login)
    if answer is None or answer.status != 200:
        return False
    token = answer.headers.get("X-Auth-Token", "")
    storage_path = "/" + answer.headers.get("X-Storage-Url", "").split("/", 3)[-1]
    answer = _request(proxy_port, "GET", storage_path, {"X-Auth-Token": token})
    return answer is not None and 200 <= answer.status < 300


def _request(
    port: int,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> http.client.HTTPResponse | None:
    if context is None:
        connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECONDS)
    else:
        connection = http.client.HTTPSConnection(
            HOST, port, timeout=_TIMEOUT_SECONDS, context=context
        )
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
