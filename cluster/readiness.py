# SPDX-License-Identifier: Apache-2.0
"""Checks whether a service is ready, by requests like those of a client or the proxy."""

from __future__ import annotations

import http.client

from cluster.ports import HOST
from cluster.services import Service

#: Account and user of the request that tests the cluster, and of the printed commands.
TRIAL_USER = "test:tester"
TRIAL_KEY = "testing"
AUTH_PATH = "/auth/v1.0"
_TIMEOUT_SECONDS = 2.0


def answers(service: Service) -> bool:
    """Whether the service answers a request, with any status."""
    return _request(service.port, "GET", "/healthcheck") is not None


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
    port: int, method: str, path: str, headers: dict[str, str] | None = None
) -> http.client.HTTPResponse | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        response.read()
        return response
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
