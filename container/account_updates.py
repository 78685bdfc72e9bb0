# SPDX-License-Identifier: Apache-2.0
"""Updates of an account with the totals of containers: one request to each replica.

A single container is a PUT, as in OpenStack Swift. Several are an UPDATE (wire-account.md). A
server that has no such method gets a PUT for each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from container.info import ContainerInfo
from container.report_answer import NO_ANSWER, REPORTED_AT, Answer, read_answer
from martlet.http.backend_client import Address, BackendClient, BackendError, BackendExchange
from martlet.log import get_logger
from martlet.words.names import quote_path

#: The server does not know the method, or refuses a container among those of the request.
_SINGLY = (400, 405, 413)


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
    extra_headers: Mapping[str, str],
) -> list[Answer]:
    """Send a container's state to all replicas in parallel; return their answers.

    Failures are logged; the caller handles them.
    """
    exchanges = [_start_put(client, replica, info, extra_headers) for replica in replicas]
    return [_finish(exchange) for exchange in exchanges]


def send_together(
    client: BackendClient,
    replicas: Sequence[AccountReplica],
    infos: Sequence[ContainerInfo],
    extra_headers: Mapping[str, str],
) -> list[Answer]:
    """Send the states of containers of one account to all its replicas; answers as above."""
    rows = [
        {
            "name": info.container,
            "put_timestamp": info.put_timestamp,
            "delete_timestamp": info.delete_timestamp,
            "object_count": info.object_count,
            "bytes_used": info.bytes_used,
            "storage_policy_index": info.storage_policy_index,
            "reported_at": info.read_at,
        }
        for info in infos
    ]
    body = json.dumps(rows).encode()
    headers = {"Content-Type": "application/json", "User-Agent": _agent(), **extra_headers}
    exchanges = [
        _start(client, replica, "UPDATE", f"/{infos[0].account}", headers, body)
        for replica in replicas
    ]
    answers = [_finish(exchange) for exchange in exchanges]
    return [
        _one_by_one(client, replica, infos, extra_headers) if answer.status in _SINGLY else answer
        for replica, answer in zip(replicas, answers, strict=True)
    ]


def _one_by_one(
    client: BackendClient,
    replica: AccountReplica,
    infos: Sequence[ContainerInfo],
    extra_headers: Mapping[str, str],
) -> Answer:
    """Send a PUT for each container; return the last answer that is not good, or 201.

    A container that the server refuses does not keep the others from it.
    """
    result = Answer(201)
    for info in infos:
        answer = _finish(_start_put(client, replica, info, extra_headers))
        if not answer.is_taken:
            result = answer
        if answer.status in (503, 507):  # it does not answer the others either
            break
    return result


def _start_put(
    client: BackendClient,
    replica: AccountReplica,
    info: ContainerInfo,
    extra_headers: Mapping[str, str],
) -> BackendExchange | None:
    headers = {
        "X-Put-Timestamp": info.put_timestamp,
        "X-Delete-Timestamp": info.delete_timestamp,
        "X-Object-Count": str(info.object_count),
        "X-Bytes-Used": str(info.bytes_used),
        "X-Backend-Storage-Policy-Index": str(info.storage_policy_index),
        REPORTED_AT: info.read_at,
        "User-Agent": _agent(),
        **extra_headers,
    }
    return _start(client, replica, "PUT", f"/{info.account}/{info.container}", headers, b"")


def _start(
    client: BackendClient,
    replica: AccountReplica,
    method: str,
    names: str,
    headers: Mapping[str, str],
    body: bytes,
) -> BackendExchange | None:
    path = quote_path(f"/{replica.device}/{replica.partition}{names}")
    try:
        return client.start(replica.address, method, path, headers, body)
    except BackendError as error:
        _log_failure(error)
        return None


def _finish(exchange: BackendExchange | None) -> Answer:
    answer = read_answer(exchange, _log_failure)
    if exchange is None or answer is NO_ANSWER:
        return answer
    if answer.status >= 300 and answer.status not in (404, 405):
        _log_failure(f"{exchange.address[0]}:{exchange.address[1]} answered {answer.status}")
    return answer


def _agent() -> str:
    return f"container-server {os.getpid()}"


def _log_failure(reason: object) -> None:
    get_logger("martlet.container").warning("account update failed, to be repeated: %s", reason)
