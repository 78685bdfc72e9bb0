"""The faults of the nemesis: each begins, lasts for a while under load, and ends.

A fault that destroys data hits the *victim* alone, one of the four nodes: three replicas of each
object are on three nodes. All other faults may hit any node.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ill_disk import IllDisk
from killer import is_new
from processes import process_tree
from running_cluster import RunningCluster, await_true

NODES = 4
KINDS = ("account", "container", "object")
RING_BUILDER = Path(sysconfig.get_path("scripts")) / "martlet-ring-builder"
#: Bits that one fault flips, and sectors that it makes unreadable.
_FLIPS = 8
#: Random places in a file that are tried until one is in a body.
_TRIES = 100
#: How records are aligned, how each begins, and the bytes of its header (doc/formats/bundle.md).
_UNIT, _RECORD_MAGIC, _HEADER = 64, b"mrRC", 128
_SECTOR = 4096
#: Before the rule with which Linux delivers to its own addresses.
_RULE_PRIORITY = "10"


@dataclass(frozen=True)
class Fault:
    """A fault that can begin; what it begins returns the function that ends it."""

    name: str
    begin: Callable[[], Callable[[], None]]


class Faults:
    """The faults that this machine can make in a cluster."""

    def __init__(
        self,
        cluster: RunningCluster,
        chance: random.Random,
        victim: int,
        disk: IllDisk | None,
        has_network: bool,
    ) -> None:
        """
        :param victim: the number of the node, from 1.
        :param disk: below the device of the victim.
        :param has_network: the process has a network of its own, and may change its rules.
        """
        self._cluster = cluster
        self._chance = chance
        self._victim = victim
        self._disk = disk
        self._has_network = has_network
        self._lost: set[tuple[str, int]] = set()  # what is dropped now, and the node

    def destructive(self) -> Fault:
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
        return self._chance.choice(faults)

    def harmless(self) -> Fault:
        """A fault that destroys nothing: of a process, of the network, of the ring."""
        faults = [
            Fault("killed server", self._kill),
            Fault("killed server", self._kill),
            Fault("stopped server", self._stop_server),
            Fault("stopped node", self._stop_node),
            Fault("ring change", self._change_ring),
        ]
        if self._has_network:
            faults += [
                Fault("lost requests", lambda: self._lose("dport")),
                Fault("lost answers", lambda: self._lose("sport")),
            ]
        if self._disk is None:
            faults.append(Fault("missing device", self._unmount))
        return self._chance.choice(faults)

    def _node(self) -> int:
        return self._chance.randint(1, NODES)

    def _server(self) -> str:
        """A random service, also the proxy and the supervisors of the background jobs."""
        names = [f"{kind}-server-node{self._node()}" for kind in KINDS]
        return self._chance.choice([*names, "proxy-server", f"background-node{self._node()}"])

    def _device(self, node: int) -> Path:
        return self._cluster.home / "devices" / f"node{node}" / f"d{node}"

    def _kill(self) -> Callable[[], None]:
        service = self._server()
        tree = process_tree(self._cluster.pid_of(service))
        killed = self._chance.choice(tree)
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
        for rule in rules:
            subprocess.run(["ip", "rule", "add", *rule], check=True)

        def restore() -> None:
            self._lost.discard((end, node))
            for rule in rules:
                subprocess.run(["ip", "rule", "del", *rule], check=True)

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
        for file in self._chance.choices(files, k=_FLIPS) if files else []:
            with contextlib.suppress(FileNotFoundError), file.open("r+b", buffering=0) as handle:
                content = handle.read()
                choose = self._chance.choice((self._in_a_body, self._in_a_header))
                at = choose(content)
                if at is not None:
                    handle.seek(at)
                    (byte,) = handle.read(1)
                    handle.seek(at)
                    handle.write(bytes([byte ^ 1 << self._chance.randrange(8)]))
        return lambda: None

    def _in_a_body(self, content: bytes) -> int | None:
        """A random place in a body, which repeats its 32 bytes."""
        for _ in range(_TRIES):
            at = self._chance.randrange(len(content)) if content else 0
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
        return self._chance.choice(headers) + self._chance.randrange(_HEADER) if headers else None

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
        for path in self._chance.choices(segments, k=_FLIPS) if segments else []:
            sectors = path.stat().st_size // _SECTOR
            at = self._chance.randrange(max(1, sectors)) * _SECTOR
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
