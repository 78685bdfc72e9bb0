# SPDX-License-Identifier: Apache-2.0
"""The other cluster of a container sync: objects there, over HTTP, with signed requests."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3

from martlet.conf.sync_realms import SyncTarget, sync_signature
from martlet.words.timestamp import Timestamp

_CHUNK_SECONDS = 60.0


class RemoteError(Exception):
    """The other cluster is out of reach, or refused the request."""


class Remote:
    """Requests to other clusters, through one of ``proxies`` if there are any."""

    def __init__(self, conn_timeout: float, proxies: Sequence[str] = ()) -> None:
        """``conn_timeout`` is in seconds."""
        settings: Any = {
            "timeout": urllib3.Timeout(connect=conn_timeout, read=_CHUNK_SECONDS),
            "retries": False,
            "maxsize": 16,
        }
        self._pools: list[urllib3.PoolManager] = [
            urllib3.ProxyManager(proxy, **settings) for proxy in proxies
        ] or [urllib3.PoolManager(**settings)]

    def written_at(
        self, target: SyncTarget, user_key: str, name: str, timestamp: str
    ) -> Timestamp | None:
        """The time of the object in the other cluster; None if it is missing or unknown.

        :raises RemoteError: the cluster is out of reach.
        """
        answer = self._send("HEAD", target, user_key, name, timestamp, {})
        try:
            return Timestamp(answer.headers["x-timestamp"]) if answer.status == 200 else None
        except (KeyError, ValueError):
            return None

    def put(
        self,
        target: SyncTarget,
        user_key: str,
        name: str,
        timestamp: str,
        headers: Mapping[str, str],
        body: Iterable[bytes],
    ) -> None:
        """Write an object; a newer one in the other cluster is no error.

        :raises RemoteError: the object may be missing there.
        """
        answer = self._send("PUT", target, user_key, name, timestamp, headers, body)
        if answer.status // 100 != 2 and answer.status != 409:  # there is a newer one
            raise RemoteError(f"PUT was answered {answer.status}")

    def delete(self, target: SyncTarget, user_key: str, name: str, timestamp: str) -> None:
        """Delete an object.

        :raises RemoteError: the object may still exist there.
        """
        answer = self._send("DELETE", target, user_key, name, timestamp, {})
        if answer.status // 100 != 2 and answer.status not in (404, 409):
            raise RemoteError(f"DELETE was answered {answer.status}")

    def _send(
        self,
        method: str,
        target: SyncTarget,
        user_key: str,
        name: str,
        timestamp: str,
        headers: Mapping[str, str],
        body: Iterable[bytes] | None = None,
    ) -> urllib3.BaseHTTPResponse:
        url = f"{target.url}/{quote(name)}"
        sent = {**headers, "X-Timestamp": timestamp, "User-Agent": "martlet-container-sync"}
        if target.realm:
            nonce = uuid.uuid4().hex
            path = urlsplit(url).path
            signature = sync_signature(method, path, timestamp, nonce, target.key, user_key)
            sent["X-Container-Sync-Auth"] = f"{target.realm} {nonce} {signature}"
        else:
            sent["X-Container-Sync-Key"] = user_key
        pool = random.choice(self._pools)
        try:
            return pool.request(method, url, headers=sent, body=body, redirect=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise RemoteError(f"{method} failed: {error}") from None
