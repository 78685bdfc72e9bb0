# SPDX-License-Identifier: Apache-2.0
"""The storage servers of the other hosts: whether they and this host accept each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster.check.finding import Finding, error
from martlet.conf.cluster import CONF_NAME, ClusterConf
from martlet.conf.options import ConfigError
from martlet.grid.connecting import connect
from martlet.grid.errors import GridRefusedError
from martlet.grid.options import Options
from martlet.http.backend_client import Address, BackendError
from martlet.recon.ask import AT_ONCE_MAX
from martlet.tls.tls_socket import HandshakeError

_SECONDS = 2.0


def check_peers(swift_dir: Path, peers: Iterable[Address]) -> Iterator[Finding]:
    """Log in to each server as a service would. One that is down or does not answer is left out."""
    try:
        grid = ClusterConf.load(swift_dir).grid
        secure = grid.secure()
    except (ConfigError, ValueError, OSError):
        return  # the service has said so

    def refusal(peer: Address) -> str | None:
        try:
            connect(peer, grid.secrets, Options(), _SECONDS, _SECONDS, secure).sock.close()
        except BackendError as problem:
            is_refused = isinstance(problem, GridRefusedError)
            if is_refused or isinstance(problem.__cause__, HandshakeError):
                return problem.reason
        return None

    # Servers of OpenStack Swift have no grid.
    asked = sorted({peer for peer in peers if peer[0] not in grid.plain_http})
    with ThreadPoolExecutor(AT_ONCE_MAX) as threads:
        reasons = list(threads.map(refusal, asked))
    for (ip, port), reason in zip(asked, reasons, strict=True):
        if reason is not None:
            yield error(
                swift_dir / CONF_NAME,
                f"no login to the server at {ip}:{port}: {reason}. The secret and TLS in [grid] "
                "must be those of the other hosts",
            )
