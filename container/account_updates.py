# SPDX-License-Identifier: Apache-2.0
"""Updates of an account with the totals of a container: one PUT to each replica."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from container.database import ContainerInfo
from martlet.http.backend_client import Address, BackendClient, BackendError, BackendExchange
from martlet.log import get_logger
from martlet.words.names import quote_path


@dataclass(frozen=True, slots=True)
class AccountReplica:
    """The location of one replica of an account."""

    address: Address
    device: str
    partition: str


def send_to_account(
    client: BackendClient,
    replicas: Sequence[AccountReplica],
    info: ContainerInfo,
    extra_headers: dict[str, str],
) -> list[int]:
    """Send a container's state to all replicas in parallel; return the statuses, 503 for no answer.

    Failures are logged; the caller handles them.
    """
    headers = {
        "X-Put-Timestamp": info.put_timestamp,
        "X-Delete-Timestamp": info.delete_timestamp,
        "X-Object-Count": str(info.object_count),
        "X-Bytes-Used": str(info.bytes_used),
        "X-Backend-Storage-Policy-Index": str(info.storage_policy_index),
        "User-Agent": f"container-server {os.getpid()}",
        **extra_headers,
    }
    exchanges = [_start(client, replica, info, headers) for replica in replicas]
    return [_finish(exchange) for exchange in exchanges]


def _start(
    client: BackendClient, replica: AccountReplica, info: ContainerInfo, headers: dict[str, str]
) -> BackendExchange | None:
    path = f"/{replica.device}/{replica.partition}/{info.account}/{info.container}"
    try:
        return client.start(replica.address, "PUT", quote_path(path), headers)
    except BackendError as error:
        _log_failure(error)
        return None


def _finish(exchange: BackendExchange | None) -> int:
    if exchange is None:
        return 503
    try:
        response = exchange.response()
    except BackendError as error:
        exchange.abort()
        _log_failure(error)
        return 503
    response.close()
    if response.status >= 300 and response.status != 404:
        _log_failure(f"{exchange.address[0]}:{exchange.address[1]} answered {response.status}")
    return response.status


def _log_failure(reason: object) -> None:
    get_logger("martlet.container").warning("account update failed, to be repeated: %s", reason)
