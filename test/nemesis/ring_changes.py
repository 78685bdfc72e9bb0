"""Changes of the rings while clients write, as an operator makes them on several hosts.

A device in another region is added, then another device is drained; when the cluster is at rest
again it is removed, and so on. Only one change is under way at a time. Each change reaches half of
the hosts first, in half of the cases until the end of the round.
"""

from __future__ import annotations

import random
import subprocess
import sysconfig
import threading
import time
from pathlib import Path

from fault import End, Fault
from hosts import PORTS, HostsCluster
from networks import address_of, in_network_of

from cluster.layout import KINDS
from martlet.service.programs import find_object_server
from ring.builder_file import load_builder

RING_BUILDER = Path(sysconfig.get_path("scripts")) / "martlet-ring-builder"
#: Raised at most so often in a run: each time the partitions double.
_RAISES_MAX = 2
_RELINK_SECONDS_MAX = 240.0
_PAUSE_SECONDS = 1.0
_HALF_SECONDS = (0.0, 4.0)


class RingChanges:
    """The rings of a cluster on several hosts, and the next change of them."""

    def __init__(
        self, cluster: HostsCluster, chance: random.Random, in_rings: set[int], victim: int
    ) -> None:
        """
        :param in_rings: the hosts whose devices the rings have.
        :param victim: the host that may lose data; it stays in the rings.
        """
        self._cluster = cluster
        self._chance = chance
        self._in_rings = in_rings
        self._victim = victim
        self._drained: int | None = None
        self._region = 1
        self._raises = 0
        self._is_chosen = False

    def begin_round(self) -> None:
        """The cluster is at rest: the next change may be chosen."""
        self._is_chosen = False

    def chosen(self) -> None:
        """One of ``all`` is chosen for this round."""
        self._is_chosen = True

    def all(self) -> list[Fault]:
        """The changes that are possible now."""
        if self._is_chosen:
            return []
        changes = [Fault("weight in the rings", self._change_weight)]
        if self._raises < _RAISES_MAX:
            changes.append(Fault("part power raised", self._raise_part_power, ends_last=True))
        if self._drained is not None:
            return [*changes, Fault("drained device removed", self._remove)]
        if len(self._in_rings) < len(self._cluster.hosts):
            return [*changes, Fault("device in another region", self._add)]
        return [*changes, Fault("device drained", self._drain)]

    def _change_weight(self) -> End:
        """Take a third of the weight from a device; at the end it gets it back."""
        host = self._chance.choice(sorted(self._in_rings - {self._drained}))
        end = self._change("set_weight", _device(host), "67")

        def restore() -> None:
            end()
            self._build("set_weight", _device(host), "100")
            self._cluster.push_rings(self._cluster.hosts)

        return restore

    def _add(self) -> End:
        (host,) = set(self._cluster.hosts) - self._in_rings
        self._in_rings.add(host)
        self._region = 3 - self._region
        place = {
            kind: f"r{self._region}z{host}-{address_of(host)}:{PORTS[kind]}{_device(host)}"
            for kind in KINDS
        }
        return self._change("add", place, "100")

    def _drain(self) -> End:
        self._drained = self._chance.choice(sorted(self._in_rings - {self._victim}))
        end = self._change("set_weight", _device(self._drained), "0")
        for kind in KINDS:
            assert not self._partitions_of(self._drained, kind), kind
        return end

    def _remove(self) -> End:
        assert self._drained is not None
        host, self._drained = self._drained, None
        self._in_rings.remove(host)
        return self._change("remove", _device(host))

    def _change(self, *words: str | dict[str, str]) -> End:
        """Change all rings and copy them: to half of the hosts now, to the others then."""
        self._build(*words)
        hosts = list(self._cluster.hosts)
        self._chance.shuffle(hosts)
        self._cluster.push_rings(hosts[: len(hosts) // 2])
        if self._chance.random() < 0.5:
            return lambda: self._cluster.push_rings(hosts)
        time.sleep(self._chance.uniform(*_HALF_SECONDS))
        self._cluster.push_rings(hosts)
        return lambda: None

    def _build(self, *words: str | dict[str, str]) -> None:
        """Run a command on each builder; a mapping has a word for each kind."""
        for kind in KINDS:
            self._builder(kind, *(word if isinstance(word, str) else word[kind] for word in words))
            self._builder(kind, "pretend_min_part_hours_passed")
            self._builder(kind, "rebalance")

    def _builder(self, kind: str, *words: str) -> None:
        """
        :raises AssertionError: the command was refused; 1 means that there is something to read.
        """
        command = [str(RING_BUILDER), str(self._builder_path(kind)), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), (words, done.stdout, done.stderr)

    def _partitions_of(self, host: int, kind: str) -> int:
        devices = load_builder(self._builder_path(kind)).devices()
        return sum(device["parts"] for device in devices if device["ip"] == address_of(host))

    def _builder_path(self, kind: str) -> Path:
        return self._cluster.home / "etc" / f"{kind}.builder"

    def _raise_part_power(self) -> End:
        """Raise it beside the load and the other faults. The end waits for the last step."""
        self._raises += 1
        problems: list[str] = []
        chance = random.Random(self._chance.random())
        thread = threading.Thread(target=self._raise_step_by_step, args=(chance, problems))
        thread.start()

        def end() -> None:
            thread.join()
            assert not problems, problems

        return end

    def _raise_step_by_step(self, chance: random.Random, problems: list[str]) -> None:
        """doc/ring.md, "Raising the partition power"."""
        steps = (("prepare", "relink"), ("", "cleanup"), ("finish", ""))
        try:
            for prefix, relinker_step in steps:
                words = f"{prefix}_increase_partition_power".lstrip("_")
                self._builder("object", words)
                self._builder("object", "write_ring")
                hosts = list(self._cluster.hosts)
                chance.shuffle(hosts)
                self._cluster.push_rings(hosts[: len(hosts) // 2])
                time.sleep(chance.uniform(*_HALF_SECONDS))
                self._cluster.push_rings(hosts)
                if relinker_step:
                    self._relink(relinker_step)
        except (AssertionError, OSError) as error:
            problems.append(repr(error))

    def _relink(self, step: str) -> None:
        """Run a step on all hosts, again where it failed: a server may be down or a device away.

        :raises AssertionError: a host does not succeed in time.
        """
        deadline = time.monotonic() + _RELINK_SECONDS_MAX
        left = list(self._cluster.hosts)
        while left:
            commands = {host: self._relinker(step, host) for host in left}
            answers = {host: command.communicate() for host, command in commands.items()}
            left = [host for host, command in commands.items() if command.returncode]
            late = time.monotonic() > deadline
            assert not (left and late), {host: answers[host] for host in left}
            time.sleep(_PAUSE_SECONDS if left else 0)

    def _relinker(self, step: str, host: int) -> subprocess.Popen[str]:
        conf = str(self._cluster.etc_of(host) / "object-server.conf")
        command = [*in_network_of(host), find_object_server(), "relinker", step, conf, "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _device(host: int) -> str:
    return f"/d{host}"
