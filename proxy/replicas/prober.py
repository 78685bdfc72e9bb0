# SPDX-License-Identifier: Apache-2.0
"""Probes suppressed devices, so that no client's request has to try them.

A probe is a HEAD for a name that no client can use. A device that works answers 404. One that is
not mounted, full or stuck answers 507. This module uses only the standard library: under eventlet's
monkey patch the threads are green.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from martlet.http.backend_client import BackendClient, BackendError
from martlet.log import fields
from martlet.words.timestamp import Timestamp
from proxy.replicas.health import DeviceHealth
from proxy.replicas.nodes import node_name
from ring.ring import Node

#: The pause before the first probe of a suppressed device, seconds.
PAUSE_SECONDS = 1.0
#: Each further pause is longer by this factor, up to PAUSE_SECONDS_MAX.
PAUSE_GROWTH = 1.5
PAUSE_SECONDS_MAX = 10.0

_HEADERS = {"X-Backend-Storage-Policy-Index": "0", "User-Agent": "proxy-server probe"}
#: The path after the partition. Accounts, containers and objects of clients never have these names.
_NAMES = {"Account": ".probe", "Container": ".probe/.probe", "Object": ".probe/.probe/.probe"}
#: The answer of a device that works and whose rate limit is reached.
_BUSY = 529


class Prober:
    """Probes suppressed devices, each in a thread that ends when the device works again."""

    def __init__(
        self,
        client: BackendClient,
        health: DeviceHealth,
        logger: logging.Logger,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._health = health
        self._logger = logger
        self._sleep = sleep
        self._watched: set[tuple[str, int, str]] = set()
        #: The last return of each device (time.monotonic()), and the pause before it.
        self._returned: dict[tuple[str, int, str], tuple[float, float]] = {}

    def watch(self, node: Node, server_type: str) -> None:
        """Probe a device that has just become suppressed until it answers."""
        key = node["ip"], node["port"], node["device"]
        if key in self._watched:
            return
        self._watched.add(key)
        threading.Thread(
            target=self._run, args=(node, server_type, key), name="prober", daemon=True
        ).start()

    def _run(self, node: Node, server_type: str, key: tuple[str, int, str]) -> None:
        pause = self._first_pause(key)
        try:
            while True:
                self._sleep(pause)
                if not self._health.is_suppressed(node):
                    return  # a client's request has ended the suppression
                if self._answers(node, server_type):
                    break
                self._health.note_deaf(node)
                pause = max(pause, min(pause * PAUSE_GROWTH, PAUSE_SECONDS_MAX))
        finally:
            self._watched.discard(key)
        self._returned[key] = time.monotonic(), pause
        self._health.forgive(node)
        self._logger.warning("event=device_back %s", fields(device=node_name(node)))

    def _first_pause(self, key: tuple[str, int, str]) -> float:
        """The pause before the first probe, longer if the device failed again soon."""
        returned_at, pause = self._returned.get(key, (0.0, 0.0))
        interval = self._health.interval
        if pause and time.monotonic() - returned_at < interval:
            return min(2 * pause, interval)
        return min(PAUSE_SECONDS, interval)

    def _answers(self, node: Node, server_type: str) -> bool:
        path = f"/{node['device']}/0/{_NAMES[server_type]}"
        headers = {**_HEADERS, "X-Timestamp": Timestamp.now().normal}
        try:
            response = self._client.request((node["ip"], node["port"]), "HEAD", path, headers)
            response.close()
        except BackendError:
            return False
        return response.status < 500 or response.status == _BUSY
