"""Makes networks as the nemesis does, tries them, and prints the results as JSON.

With a word as argument it starts a program with that word in the network of a host, and waits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from hosts import clock_ahead
from networks import Networks, address_of, enter_own_networks, in_network_of

_PORT = 7000
#: How long a host waits for one that it cannot reach, and for one that it can, seconds.
_SECONDS_LOST, _SECONDS_MAX = 2.0, 60.0
_SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    server.accept()[0].send(b"yes")
"""
_ASK = """
import socket, sys
address = sys.argv[1], int(sys.argv[2])
with socket.create_connection(address, timeout=float(sys.argv[3])) as connection:
    assert connection.recv(3) == b"yes"
"""


class _Hosts:
    """Three hosts, each with a server that answers to everyone."""

    def __init__(self) -> None:
        self.networks = Networks(3)
        self.networks.make()
        self._servers = []
        for host in self.networks.hosts:
            code = ["-c", _SERVE, address_of(host), str(_PORT)]
            command = [*in_network_of(host), sys.executable, *code]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._servers.append(server)
            assert server.stdout
            assert server.stdout.readline() == "ready\n"

    def pairs(self, *lost: str) -> list[str]:
        """The pairs of hosts of which the first can ask the second.

        :param lost: those that should not; a busy machine needs patience with the others.
        """
        hosts = self.networks.hosts
        asking = {f"{a}{b}": self._ask(a, b, lost) for a in hosts for b in hosts if a != b}
        return [pair for pair, process in asking.items() if process.wait() == 0]

    def _ask(self, host: int, other: int, lost: Sequence[str]) -> subprocess.Popen[bytes]:
        seconds = _SECONDS_LOST if f"{host}{other}" in lost else _SECONDS_MAX
        code = ["-c", _ASK, address_of(other), str(_PORT), str(seconds)]
        command = [*in_network_of(host), sys.executable, *code]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        for server in self._servers:
            server.kill()
            server.wait()
        self.networks.remove()


def _clock(host: int, ahead: int) -> float:
    code = "import time; print(time.time(), time.monotonic())"
    command = [*in_network_of(host), sys.executable, "-c", code]
    plain, shifted = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split()
        for env in (clock_ahead(0), clock_ahead(ahead))
    )
    passed = float(shifted[1]) - float(plain[1])
    return round(float(shifted[0]) - float(plain[0]) - passed)


def main() -> None:
    """Print what gets through."""
    assert enter_own_networks()
    if len(sys.argv) > 1:
        Networks(1).make()
        code = ["-c", f"import time\nprint({sys.argv[1]!r}, flush=True)\ntime.sleep(600)"]
        subprocess.run([*in_network_of(1), sys.executable, *code], check=True)
    hosts = _Hosts()
    report: dict[str, object] = {"whole": hosts.pairs()}
    hosts.networks.lose([(1, 2)])
    hosts.networks.lose([(1, 2), (2, 1)])
    report["split"] = hosts.pairs("12", "21")
    hosts.networks.restore([(1, 2), (2, 1)])
    report["one way"] = hosts.pairs("12", "21")
    hosts.networks.restore([(1, 2)])
    report["healed"] = hosts.pairs()
    report["clocks"] = [_clock(1, ahead) for ahead in (60, -60)]
    hosts.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
