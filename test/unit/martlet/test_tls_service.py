# SPDX-License-Identifier: Apache-2.0
"""A storage service over TLS with real processes: HTTP, the grid, a certificate that is renewed."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority, Certificate
from grid_peers import patient_client
from sample_service import Service, wait_until

from martlet.grid.http_login import Logins
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import BackendClient, BackendError, ConnectError
from martlet.tls.contexts import ClientTls

SECRET = "the-secret-of-this-cluster-0123456789"
SECRETS = Secrets.parse(SECRET)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Certificate:
    return authority.issue("127.0.0.1")


@pytest.fixture
def service(tmp_path: Path, authority: Authority, issued: Certificate) -> Iterator[Service]:
    service = Service(tmp_path, 2, kind="StorageServerOptions")
    service.write_grid(
        f"grid_secret = {SECRET}\ngrid_tls_cert = {issued.certificate}\n"
        f"grid_tls_key = {issued.key}\ngrid_tls_ca = {authority.path}\n"
    )
    service.write_conf(f"bind_port = {service.port}\nworkers = 2\n", word="swift")
    process = service.start(into_log=True)
    wait_until(lambda: is_serving(service, authority))
    yield service
    process.kill()
    process.wait()


def word(service: Service, authority: Authority) -> str:
    """The answer over a new connection."""
    login = Logins(SECRETS, PlainHttp())
    client = BackendClient(30, 30, start_login=login, secure=ClientTls(authority.path))
    try:
        address = ("127.0.0.1", service.port)
        return client.request(address, "GET", "/word", {}).body().decode()
    finally:
        client.close()


def is_serving(service: Service, authority: Authority) -> bool:
    try:
        return word(service, authority) == "swift"
    except BackendError:
        return False


def serial(service: Service, authority: Authority) -> str:
    """The number of the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=authority.path)
    with (
        socket.create_connection(("127.0.0.1", service.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        certificate = sock.getpeercert()
        assert certificate
        return str(certificate["serialNumber"])


def test_http_and_the_grid(service: Service, authority: Authority, tmp_path: Path) -> None:
    client = patient_client(SECRETS, secure=ClientTls(authority.path))
    assert int(client.request(("127.0.0.1", service.port), "pid", b"")) > 0
    client.close()
    with pytest.raises(ConnectError, match="its certificate is not accepted"):
        word(service, Authority(tmp_path, "other"))
    wait_until(lambda: "event=tls_refused" in service.log)
    assert "Traceback" not in service.log


def test_a_reload_takes_up_a_new_certificate(service: Service, authority: Authority) -> None:
    before = serial(service, authority)
    client = patient_client(SECRETS, secure=ClientTls(authority.path))
    address = ("127.0.0.1", service.port)
    first = client.request(address, "pid", b"")
    authority.issue("127.0.0.1")
    assert serial(service, authority) == before
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    wait_until(lambda: serial(service, authority) != before)
    wait_until(lambda: client.request(address, "pid", b"") != first)  # no request fails meanwhile
    client.close()


def test_a_reload_with_a_bad_certificate_changes_nothing(
    service: Service, authority: Authority, issued: Certificate
) -> None:
    before = serial(service, authority)
    issued.certificate.write_text("nix")
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "reload refused" in service.log)
    assert f"{issued.certificate} or {issued.key} is no certificate" in service.log
    assert serial(service, authority) == before
    assert is_serving(service, authority)
