"""The faults of servers, devices and disks; those of networks and rings on a single host.

A fault that destroys data hits the *victim* alone, one of the nodes: three replicas of each object
are on three nodes. All other faults may hit any node.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fault import Fault
from host import proxy_of
from host_faults import HostFaults
from hosts import HostsCluster
from ill_disk import IllDisk
from killer import is_new
from networks import in_network_of
from processes import process_tree
from ring_changes import RING_BUILDER, RingChanges
from running_cluster import RunningCluster, await_true

from cluster.layout import KINDS

NODES = 4
#: Bits that one fault flips, and sectors that it makes unreadable.
_FLIPS = 8
#: Random places in a file that are tried until one is in a body.
_TRIES = 100
#: How records are aligned, how each begins, and the bytes of its header (doc/formats/bundle.md).
_UNIT, _RECORD_MAGIC, _HEADER = 64, b"mrRC", 128
_SECTOR = 4096
#: Before the rule with which Linux delivers to its own addresses.
_RULE_PRIORITY = "10"


class Faults:
    """The faults that this machine can make in a cluster."""

    def __init__(
        self,
        cluster: RunningCluster,
        chance: random.Random,
        victim: int,
        disk: IllDisk | None,
        has_network: bool,
        only: Sequence[str] = (),
    ) -> None:
        """
        :param cluster: if it is on several hosts, there are more faults.
        :param victim: the number of the node, from 1.
        :param disk: below the device of the victim.
        :param has_network: the process has a network of its own, and may change its rules.
        :param chance: decides on the faults, and no other draws from it but those of their times.
        :param only: the names of the faults to make; none for all of them.
        """
        self._cluster = cluster
        self.chance = chance
        self._details = random.Random()
        self._victim = victim
        self._disk = disk
        self._has_network = has_network
        self._only = only
        self._lost: set[tuple[str, int]] = set()  # what is dropped now, and the node
        self._hosts = cluster.hosts if isinstance(cluster, HostsCluster) else None
        if isinstance(cluster, HostsCluster):
            self._of_hosts = HostFaults(cluster, self._details)
            in_rings = set(range(1, NODES + 1))
            self._of_rings = RingChanges(cluster, self._details, in_rings, victim)

    def begin_round(self) -> None:
        """The cluster is at rest.

        The number of details, such as places in files, depends on what the cluster has done. They
        are drawn by themselves, so that the seed decides on the faults of all rounds.
        """
        self._details.seed(self.chance.random())
        if self._hosts:
            self._of_rings.begin_round()

    def choose(self) -> list[Fault]:
        """The faults of a round, first the one that destroys data."""
        chosen = [self._destructive()] if self.chance.random() < 0.6 else []
        chosen += [self._harmless() for _ in range(self.chance.randint(1, 4))]
        return [fault for fault in chosen if fault]

    def _destructive(self) -> Fault | None:
        """A fault that destroys data, or makes the disk of the victim ill."""
        faults = [Fault("flipped bits", self._flip_bits)]
        if self._disk is None:
            faults.append(Fault("replaced disk", self._replace_disk))
        else:
            faults += [
                Fault("bad sectors", self._bad_sectors),
                Fault("hanging disk", self._hang),
                Fault("full disk", self._fill),
            ]
        return self._one_of(faults)

    def _harmless(self) -> Fault | None:
        """A fault that destroys nothing: of a process, of the network, of the ring."""
        faults = [
            Fault("killed server", self._kill),
            Fault("killed server", self._kill),
            Fault("stopped server", self._stop_server),
            Fault("stopped node", self._stop_node),
        ]
        changes = self._of_rings.all() if self._hosts else []
        if self._hosts:
            faults += [*self._of_hosts.all(), *changes, *changes]
        else:
            faults.append(Fault("ring change", self._change_ring))
        if self._has_network:
            faults += [
                Fault("lost requests", lambda: self._lose("dport")),
                Fault("lost answers", lambda: self._lose("sport")),
            ]
        if self._disk is None:
            faults.append(Fault("missing device", self._unmount))
        choice = self._one_of(faults)
        if choice in changes:
            self._of_rings.chosen()
        return choice

    def _one_of(self, faults: list[Fault]) -> Fault | None:
        """One of the wanted ones; None if there is none."""
        wanted = [fault for fault in faults if not self._only or fault.name in self._only]
        return self.chance.choice(wanted) if wanted else None

    def _node(self) -> int:
        return self._details.randint(1, len(self._hosts) if self._hosts else NODES)

    def _server(self) -> str:
        """A random service, also a proxy and the supervisors of the background jobs.

        Object servers come more often: a crash of one is in the middle of a write.
        """
        names = [f"{kind}-server-node{self._node()}" for kind in (*KINDS, "object", "object")]
        proxy = proxy_of(self._node()) if self._hosts else "proxy-server"
        return self._details.choice([*names, proxy, f"background-node{self._node()}"])

    def _device(self, node: int) -> Path:
        return self._cluster.home / "devices" / f"node{node}" / f"d{node}"

    def _kill(self) -> Callable[[], None]:
        service = self._server()
        tree = process_tree(self._cluster.pid_of(service))
        killed = self._details.choice(tree)
        with contextlib.suppress(ProcessLookupError):
            os.kill(killed, signal.SIGKILL)
        if killed != tree[0]:
            return lambda: None
        return lambda: await_true(lambda: is_new(self._cluster, service, killed), service)

    def _stop_server(self) -> Callable[[], None]:
        return self._stopped([self._server()])

    def _stop_node(self) -> Callable[[], None]:
        node = self._node()
        services = [f"{kind}-server-node{node}" for kind in KINDS]
        return self._stopped([*services, f"background-node{node}"])

    def _stopped(self, services: list[str]) -> Callable[[], None]:
        pids = [pid for name in services for pid in process_tree(self._cluster.pid_of(name))]

        def send(number: signal.Signals) -> None:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

        send(signal.SIGSTOP)
        return lambda: send(signal.SIGCONT)

    def _unmount(self) -> Callable[[], None]:
        device = self._device(self._node())
        aside = self._cluster.home / f"aside-{device.name}"
        if not device.exists():  # another fault has taken it away
            return lambda: None
        device.rename(aside)
        return lambda: _move_back(aside, device)

    def _lose(self, end: str) -> Callable[[], None]:
        """Drop what goes to the servers of a node (``dport``), or what comes from them."""
        node = self._node()
        rules = [
            ["pref", _RULE_PRIORITY, "ipproto", "tcp", end, str(port), "blackhole"]
            for port in (self._cluster.storage_port(kind, node) for kind in KINDS)
        ]
        if (end, node) in self._lost:  # by another fault, which ends it
            return lambda: None
        self._lost.add((end, node))
        ip = [*(in_network_of(node) if self._hosts else ()), "ip", "rule"]
        for rule in rules:
            subprocess.run([*ip, "add", *rule], check=True)

        def restore() -> None:
            self._lost.discard((end, node))
            for rule in rules:
                subprocess.run([*ip, "del", *rule], check=True)

        return restore

    def _change_ring(self) -> Callable[[], None]:
        """Take a third of the weight from a device; at the end it gets it back."""
        device = self._device(self._node()).name
        self._set_weight(device, "67")
        return lambda: self._set_weight(device, "100")

    def _set_weight(self, device: str, weight: str) -> None:
        for kind in KINDS:
            builder = str(self._cluster.home / "etc" / f"{kind}.builder")
            for words in (
                ["set_weight", f"/{device}", weight],
                ["pretend_min_part_hours_passed"],
                ["rebalance"],
            ):
                done = subprocess.run(
                    [RING_BUILDER, builder, *words], capture_output=True, text=True, check=False
                )
                assert done.returncode in (0, 1), done.stderr

    def _flip_bits(self) -> Callable[[], None]:
        """Flip bits in files with objects, as they lie on the disk."""
        device = self._disk.backing if self._disk else self._device(self._victim)
        files = sorted(
            file for file in device.glob("bundles/**/*") if file.is_file() and file.stat().st_size
        )
        for file in self._details.choices(files, k=_FLIPS) if files else []:
            with contextlib.suppress(FileNotFoundError), file.open("r+b", buffering=0) as handle:
                content = handle.read()
                choose = self._details.choice((self._in_a_body, self._in_a_header))
                at = choose(content)
                if at is not None:
                    handle.seek(at)
                    (byte,) = handle.read(1)
                    handle.seek(at)
                    handle.write(bytes([byte ^ 1 << self._details.randrange(8)]))
        return lambda: None

    def _in_a_body(self, content: bytes) -> int | None:
        """A random place in a body, which repeats its 32 bytes."""
        for _ in range(_TRIES):
            at = self._details.randrange(len(content)) if content else 0
            if content[at : at + 32] == content[at + 32 : at + 64] != bytes(32):
                return at
        return None

    def _in_a_header(self, content: bytes) -> int | None:
        """A random place in the header of a record (doc/formats/bundle.md)."""
        headers = [
            at
            for at in range(0, len(content), _UNIT)
            if content[at : at + len(_RECORD_MAGIC)] == _RECORD_MAGIC
        ]
        return self._details.choice(headers) + self._details.randrange(_HEADER) if headers else None

    def _replace_disk(self) -> Callable[[], None]:
        """Take the disk away; at the end there is an empty one, which the operator adopts."""
        device = self._device(self._victim)
        old = self._cluster.home / f"old-{device.name}-{time.monotonic_ns()}"
        device.rename(old)

        def insert() -> None:
            shutil.rmtree(device, ignore_errors=True)
            device.mkdir()
            done = self._cluster.command("device", "adopt", str(device))
            assert done.returncode == 0, done.stderr
            shutil.rmtree(old)

        return insert

    def _bad_sectors(self) -> Callable[[], None]:
        assert self._disk
        segments = sorted(self._disk.backing.glob("bundles/*/*.bundle"))
        for path in self._details.choices(segments, k=_FLIPS) if segments else []:
            sectors = path.stat().st_size // _SECTOR
            at = self._details.randrange(max(1, sectors)) * _SECTOR
            self._disk.spoil(str(path.relative_to(self._disk.backing)), at, _SECTOR)
        return self._disk.heal

    def _hang(self) -> Callable[[], None]:
        assert self._disk
        self._disk.hang()
        return self._disk.heal

    def _fill(self) -> Callable[[], None]:
        assert self._disk
        self._disk.fill()
        return self._disk.heal


def _move_back(aside: Path, device: Path) -> None:
    """A server must not have made a directory in the place of a missing device."""
    assert not device.exists(), f"a server has made {device}"
    aside.rename(device)
