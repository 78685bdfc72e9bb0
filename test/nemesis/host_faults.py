"""Faults between hosts: split networks, lost packets, hosts that are alone or slow."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable

from fault import End, Fault
from hosts import HostsCluster
from networks import both_ways
from processes import process_tree

from cluster.layout import KINDS

#: How long at least a host is alone, and how long other packets are lost. A proxy waits ten seconds
#: for an answer before it writes elsewhere.
_ALONE_SECONDS = (32.0, 40.0)
_LOST_SECONDS = (3.0, 25.0)
#: Between two changes of a link that flaps.
_FLAP_SECONDS = (0.2, 3.0)
#: A slow host works and rests for so long, in turn.
_SLOW_SECONDS = (0.02, 0.3)

Ways = list[tuple[int, int]]


class HostFaults:
    """The faults of the hosts of a cluster. All clients reach all proxies meanwhile."""

    def __init__(self, cluster: HostsCluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._networks = cluster.networks
        self._chance = chance

    def all(self) -> list[Fault]:
        """All of them; one that can be made in several ways is there several times."""
        return [
            Fault("split network", self._split),
            Fault("split network", self._split),
            Fault("one-way loss", self._lose_one_way),
            Fault("flapping link", self._flap),
            Fault("lonely host", self._isolate),
            Fault("slow host", self._slow_down),
        ]

    def _host(self) -> int:
        return self._chance.choice(self._cluster.hosts)

    def _split(self) -> End:
        """Split the hosts in two parts: halves, or some that are fewer."""
        hosts = list(self._cluster.hosts)
        self._chance.shuffle(hosts)
        size = self._chance.randint(1, len(hosts) // 2)
        return self._lost(both_ways(hosts[:size], hosts[size:]), _LOST_SECONDS)

    def _lose_one_way(self) -> End:
        """Lose what one host sends to some others: requests arrive there, answers do not."""
        host = self._host()
        others = [other for other in self._cluster.hosts if other != host]
        some = self._chance.sample(others, self._chance.randint(1, len(others)))
        return self._lost(((host, other) for other in some), _LOST_SECONDS)

    def _isolate(self) -> End:
        """Leave a host alone, for longer than the other faults last."""
        return self._lost(self._all_ways_of(self._host()), _ALONE_SECONDS)

    def _lost(self, ways: Iterable[tuple[int, int]], seconds: tuple[float, float]) -> End:
        """Lose packets; the end waits until it has lasted for a random time."""
        lost = list(ways)
        until = time.monotonic() + self._chance.uniform(*seconds)
        self._networks.lose(lost)

        def end() -> None:
            time.sleep(max(0.0, until - time.monotonic()))
            self._networks.restore(lost)

        return end

    def _all_ways_of(self, host: int) -> Ways:
        return list(both_ways([host], (other for other in self._cluster.hosts if other != host)))

    def _flap(self) -> End:
        """Take the link of a host away and give it back, at random times."""
        ways = self._all_ways_of(self._host())
        chance = random.Random(self._chance.random())

        def flap(pause: Callable[[float], bool]) -> None:
            is_over = False
            while not is_over:
                self._networks.lose(ways)
                is_over = pause(chance.uniform(*_FLAP_SECONDS))
                self._networks.restore(ways)
                is_over = is_over or pause(chance.uniform(*_FLAP_SECONDS))

        return _in_thread(flap)

    def _slow_down(self) -> End:
        """Stop the storage servers of a host most of the time: each answer comes late."""
        host = self._host()
        names = [f"{kind}-server-node{host}" for kind in KINDS]
        works, rests = _SLOW_SECONDS

        def flicker(pause: Callable[[float], bool]) -> None:
            is_over = False
            while not is_over:
                pids = [pid for name in names for pid in process_tree(self._cluster.pid_of(name))]
                _send(pids, signal.SIGSTOP)
                is_over = pause(rests)
                _send(pids, signal.SIGCONT)
                is_over = is_over or pause(works)

        return _in_thread(flicker)


def _in_thread(work: Callable[[Callable[[float], bool]], None]) -> End:
    """Start ``work``; it gets a pause of some seconds, which is true if its end has come."""
    is_over = threading.Event()
    thread = threading.Thread(target=work, args=(is_over.wait,))
    thread.start()

    def end() -> None:
        is_over.set()
        thread.join()

    return end


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # killed by another fault
