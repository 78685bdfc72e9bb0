# SPDX-License-Identifier: Apache-2.0
"""Response headers that show the state of a container replica."""

from __future__ import annotations

from container.info import ContainerInfo
from martlet.http.environ import HeaderList
from martlet.http.response import Response, http_date, http_error
from martlet.words.timestamp import Timestamp
from storage.metadata import shown_metadata

_ZERO = "0000000000.00000"


def state_headers(info: ContainerInfo) -> HeaderList:
    """The headers of a container that exists."""
    headers = _backend_headers(info)
    put_timestamp = Timestamp(info.put_timestamp)
    headers += [
        ("X-Container-Object-Count", str(info.object_count)),
        ("X-Container-Bytes-Used", str(info.bytes_used)),
        ("X-Timestamp", Timestamp(info.created_at).normal),
        ("X-PUT-Timestamp", put_timestamp.normal),
        ("X-Backend-Sharding-State", info.sharding_state),
        ("Last-Modified", http_date(put_timestamp.ceil())),
    ]
    headers += shown_metadata(info.metadata)
    return headers


def not_found(info: ContainerInfo | None) -> Response:
    """404 with the state of a deleted container; None: there is no database."""
    response = http_error(404).response
    for name, value in _backend_headers(info):
        response.headers[name] = value
    return response


def _backend_headers(info: ContainerInfo | None) -> HeaderList:
    """Headers that the proxy compares between replicas."""
    stamps = (
        (info.created_at, info.put_timestamp, info.delete_timestamp, info.status_changed_at)
        if info is not None
        else (_ZERO,) * 4
    )
    names = ("Timestamp", "PUT-Timestamp", "DELETE-Timestamp", "Status-Changed-At")
    headers = [
        (f"X-Backend-{name}", Timestamp(stamp).internal)
        for name, stamp in zip(names, stamps, strict=True)
    ]
    policy = info.storage_policy_index if info is not None else 0
    headers.append(("X-Backend-Storage-Policy-Index", str(policy)))
    return headers
