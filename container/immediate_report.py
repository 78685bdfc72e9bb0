# SPDX-License-Identifier: Apache-2.0
"""Telling the account replicas that a request names of a container's new state, during the request.

The proxy names them when a container is created or deleted. Replicas that miss this update get it
from the reporter.
"""

from __future__ import annotations

import re

from container.account_updates import AccountReplica, send_to_account
from container.info import ContainerInfo
from martlet.conf.options import is_true
from martlet.http.backend_client import BackendClient
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import quote_path

_PORT = re.compile(r"[0-9]{1,5}", re.ASCII).fullmatch


def report_to_account(client: BackendClient, req: Request, info: ContainerInfo) -> bool:
    """Send the state of a container to each account replica that the request names.

    Returns True if it names one, and all of them have accepted this state.

    :raises HTTPException: 400 if the request names them in a malformed way, 404 if each of them
        answers that there is no such account.
    """
    replicas = _account_replicas(req)
    if not replicas:
        return False
    extra = {
        "X-Trans-Id": req.headers.get("x-trans-id", "-"),
        "Referer": f"{req.method} {quote_path(req.path)}",
    }
    if is_true(req.headers.get("x-account-override-deleted")):
        extra["X-Account-Override-Deleted"] = "yes"
    answers = send_to_account(client, replicas, info, extra)
    if all(answer.status == 404 for answer in answers):
        raise http_error(404)
    return all(answer.is_taken for answer in answers)


def _account_replicas(req: Request) -> list[AccountReplica]:
    """
    :raises HTTPException: 400 if the lists do not match or an address is malformed.
    """
    partition = req.headers.get("x-account-partition", "")
    hosts = [h.strip() for h in req.headers.get("x-account-host", "").split(",")]
    devices = [d.strip() for d in req.headers.get("x-account-device", "").split(",")]
    if len(hosts) != len(devices):
        raise http_error(400, "X-Account-Host and X-Account-Device differ in length")
    replicas = []
    for host, device in zip(hosts, devices, strict=True) if partition else ():
        ip, _, port = host.rpartition(":")
        if not ip or not _PORT(port) or not 0 < int(port) < 65536:
            raise http_error(400, "X-Account-Host is not a list of ip:port")
        replicas.append(AccountReplica((ip.strip("[]"), int(port)), device, partition))
    return replicas
