"""Networks of the nemesis: one for each host, joined by a bridge, and packets that get lost.

The nemesis starts itself again in namespaces of networks, mounts and processes. The kernel removes
all of it when the first process in there ends, also by ``kill -9``: no network, no mount and no
server is left.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from martlet.service.child_process import start_child

_ENTERED = "MARTLET_NEMESIS_NETWORK"
_PREFIX = "10.99.0."
_BRIDGE = "nemesis"
_OWN_ADDRESS = f"{_PREFIX}254"
#: Answers to no host: frames to it get lost, as in a broken network.
_NOWHERE = "02:00:00:00:00:fe"
#: The rules of a host come before the delivery to its own addresses, so that they can drop it.
_OWN_RULES = (
    ("rule", "add", "pref", "100", "table", "local"),
    ("rule", "del", "pref", "0"),
)
_SPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_TRIAL = (
    f"ip link add {_BRIDGE} type bridge && ip netns add host1 &&"
    " ip link add to-host1 type veth peer name eth0 netns host1"
)
# The shell stays, since the first process of a namespace must wait for those without a parent.
_PREPARE = f"""\
mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up &&
ip {" ".join(_OWN_RULES[0])} && ip {" ".join(_OWN_RULES[1])} || exit 2
"$0" "$@"
exit $?
"""


def missing() -> str:
    """The reason why this user cannot make networks here; empty if they can be made."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return "networks need root, unshare and ip"
    command = ["unshare", *_SPACES, "sh", "-c", _PREPARE, "sh", "-c", _TRIAL]
    trial = subprocess.run(command, capture_output=True, text=True, check=False)
    # In a container root may lack the permission, and a kernel may lack bridges.
    return f"no networks: {trial.stderr.strip()}" if trial.returncode else ""


def enter_own_networks() -> bool:
    """Start again in namespaces of our own, if this user may make them; return if it is so."""
    if os.environ.get(_ENTERED):
        # A shell that starts a command in the background lets it ignore this signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return True
    if reason := missing():
        print(f"nemesis: no faults of the network: {reason}", file=sys.stderr)
        return False
    command = ["unshare", *_SPACES, "sh", "-c", _PREPARE, sys.executable, *sys.argv]
    os.environ[_ENTERED] = "yes"
    child = start_child(command, signal_mask=(), own_group=True)
    # The first process of a namespace ignores signals, and so does unshare.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.killpg(child.pid, signal.SIGINT))
    sys.exit(child.wait())


def address_of(host: int) -> str:
    """The address of a host, by its number from 1."""
    return f"{_PREFIX}{host}"


def in_network_of(host: int) -> list[str]:
    """The words before a command that is to run in the network of a host."""
    return ["ip", "netns", "exec", f"host{host}"]


class Networks:
    """The networks of the hosts. This process reaches all of them, whatever they lose."""

    def __init__(self, count: int) -> None:
        self.hosts = range(1, count + 1)
        self._lost: Counter[tuple[int, int]] = Counter()

    def make(self) -> None:
        """Make the bridge, and a network with one address for each host."""
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_OWN_ADDRESS}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for host in self.hosts:
            name = f"host{host}"
            _ip("netns", "add", name)
            _ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"to-{name}", "master", _BRIDGE, "up")
            self.change(host, "addr", "add", f"{address_of(host)}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                self.change(host, "link", "set", device, "up")
            for rule in _OWN_RULES:
                self.change(host, *rule)

    def remove(self) -> None:
        """Remove the networks of hosts without processes, and the bridge."""
        for host in self.hosts:
            _ip("netns", "del", f"host{host}")
        _ip("link", "del", _BRIDGE)

    def change(self, host: int, *words: str) -> None:
        """Run a command of ``ip`` in the network of a host."""
        _ip("-n", f"host{host}", *words)

    def lose(self, ways: Iterable[tuple[int, int]]) -> None:
        """Lose all packets from the first to the second host of each pair, in silence."""
        for way in ways:
            self._lost[way] += 1
            if self._lost[way] == 1:
                address = address_of(way[1])
                nowhere = ("lladdr", _NOWHERE, "dev", "eth0", "nud", "permanent")
                self.change(way[0], "neigh", "replace", address, *nowhere)

    def restore(self, ways: Iterable[tuple[int, int]]) -> None:
        """End one ``lose`` of these pairs."""
        for way in ways:
            self._lost[way] -= 1
            if not self._lost[way]:
                self.change(way[0], "neigh", "del", address_of(way[1]), "dev", "eth0")


def both_ways(some: Iterable[int], others: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Every pair of one of ``some`` and one of ``others``, in both directions."""
    others = list(others)
    for one in some:
        for other in others:
            yield from ((one, other), (other, one))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
