# SPDX-License-Identifier: Apache-2.0
"""A cluster whose servers speak TLS, with certificates made as doc/tls.md says."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from certificates import Authority
from forked_passes import Pass, total_figures
from object_replicas import replicate_objects
from running_cluster import RunningCluster, await_true
from source_tree import ROOT
from swift_api import Account
from wsgi_calls import exchange, status_of

STORAGE = ("account-server", "container-server", "object-server")


def make_certificates(directory: Path, is_renewal: bool = False) -> None:
    """Run the commands of the page; a renewal keeps the authority."""
    text = (ROOT / "doc" / "tls.md").read_text()
    authority, server = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for command in [server] if is_renewal else [authority, server]:
        subprocess.run(["bash", "-ec", command], cwd=directory, check=True, capture_output=True)


def set_tls(cluster: RunningCluster, directory: Path, authorities: Path) -> None:
    conf = cluster.home / "etc" / "martlet.conf"
    text = conf.read_text()
    assert text.count("[grid]\n") == 1
    options = (
        f"grid_tls_cert = {directory / 'server.pem'}\ngrid_tls_key = {directory / 'server.key'}\n"
        f"grid_tls_ca = {authorities}\n"
    )
    conf.write_text(text.replace("[grid]\n", f"[grid]\n{options}"))


def strict_context(authorities: Path) -> ssl.SSLContext:
    """As that of a client of others, with Python 3.13."""
    context = ssl.create_default_context(cafile=authorities)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def serial(port: int, authorities: Path) -> str:
    """The number of the certificate that a new connection gets."""
    context = strict_context(authorities)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        certificate = sock.getpeercert()
        assert certificate
        return str(certificate["serialNumber"])


def has_another(port: int, authorities: Path, before: str) -> bool:
    try:
        return serial(port, authorities) != before
    except OSError:
        return False  # an old worker that is about to end


def log_of(cluster: RunningCluster, name: str) -> str:
    return (cluster.home / "logs" / f"{name}.log").read_text()


def use(account: Account, name: str) -> None:
    """Small and large objects, a listing, a DELETE."""
    assert account.call("PUT", name).status in (201, 202)
    for size in (0, 1000, 3 << 20):
        body = os.urandom(size)
        assert account.call("PUT", name, str(size), body=body).status == 201
        assert account.call("GET", name, str(size)).body == body
    account.await_names(sorted(["0", "1000", str(3 << 20)]), name)
    assert account.call("DELETE", name, "0").status == 204
    assert account.call("GET", name, "0").status == 404


def states_of(cluster: RunningCluster) -> dict[str, str]:
    """A busy server may miss the time-out of a question about its state."""
    return {name: one["state"] for name, one in cluster.services().items()}


def test_a_cluster_over_tls(new_cluster: Callable[..., RunningCluster], tmp_path: Path) -> None:
    make_certificates(tmp_path)
    authorities = tmp_path / "ca.pem"
    cluster = new_cluster().start()
    cluster.stop()
    set_tls(cluster, tmp_path, authorities)
    cluster.start().await_writes()
    account = Account(cluster.port)
    use(account, "c")
    context = strict_context(authorities)
    url = f"https://127.0.0.1:{cluster.storage_port('object')}/recon/grid"
    with urllib.request.urlopen(url, context=context, timeout=30) as answer:
        assert json.load(answer)["handshakes"] > 0
    await_true(lambda: states_of(cluster) == dict.fromkeys((*STORAGE, "proxy-server"), "ok"), "ok")
    ports = {name: cluster.storage_port(name.removesuffix("-server")) for name in STORAGE}
    for port in ports.values():
        answer = exchange(port, b"GET /healthcheck HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status_of(answer) == 503
    before = {name: serial(port, authorities) for name, port in ports.items()}
    make_certificates(tmp_path, is_renewal=True)
    for name, port in ports.items():
        os.kill(cluster.pid_of(name), signal.SIGHUP)
        await_true(partial(has_another, port, authorities, before[name]), "the new certificate")
    use(account, "d")

    def is_in_sync() -> bool:
        (figures,) = replicate_objects(cluster)
        return figures["in_sync"] == figures["partitions"] > 0

    # A pass repairs what a replica has missed, so that a later one finds all equal.
    await_true(is_in_sync, "a pass that finds all replicas equal")
    for kind in ("account", "container"):
        conf = str(cluster.home / "etc" / f"{kind}-server.conf")
        total_figures([Pass(f"replicator.{kind}_replicator", conf, "--once", "--json")])
    looked = [cluster.command("recon"), cluster.command("get-nodes", "--ask", "AUTH_test/d/1000")]
    assert [done.returncode for done in looked] == [0, 0], looked

    authorities.write_bytes(Authority(tmp_path, "other").path.read_bytes())
    os.kill(cluster.pid_of("proxy-server"), signal.SIGHUP)
    await_true(lambda: account.call("GET", "d").status == 503, "a proxy that accepts no server")
    why = "its certificate is not accepted: unable to get local issuer certificate"
    assert why in log_of(cluster, "proxy-server")
    await_true(lambda: "event=tls_refused" in log_of(cluster, "container-server"), "its refusal")
    assert "Traceback" not in log_of(cluster, "proxy-server") + log_of(cluster, "container-server")
