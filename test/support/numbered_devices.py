"""A ring of numbered devices, and a clock that a test sets."""

from __future__ import annotations

from typing import Any, cast

from proxy.replicas.health import DeviceHealth
from proxy.replicas.nodes import NodeQueue


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Ring:
    def __init__(self, devices: int, replicas: int) -> None:
        self.nodes = [node(i) for i in range(devices)]
        self.replicas = replicas

    @property
    def primaries(self) -> list[Any]:
        return self.nodes[: self.replicas]

    def get_more_nodes(self, partition: int) -> Any:
        return iter(self.nodes[self.replicas :])


def node(number: int) -> Any:
    return {"ip": "10.0.0.1", "port": 6000, "device": f"sd{number}"}


def queue_of(ring: Ring, health: DeviceHealth, limit: int, *, is_read: bool = False) -> NodeQueue:
    return NodeQueue(cast("Any", ring), 0, ring.primaries, health, limit, is_read=is_read)


def names(queue: Any) -> list[str]:
    return [n["device"] for n in queue]
