# SPDX-License-Identifier: Apache-2.0
"""The options of TLS in [grid] of martlet.conf."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import Authority
from tls_pairs import plain_pair

from martlet.conf.grid import GridConf
from martlet.conf.options import ConfigError
from martlet.tls.tls_socket import TlsSocket


def read(**options: object) -> GridConf:
    given = {name: str(value) for name, value in options.items()}
    return GridConf.read({"grid_secret": "none", **given}, "[grid]")


def test_without_tls() -> None:
    conf = read()
    assert (conf.secure(), conf.server_context()) == (None, None)


def test_with_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.issue("127.0.0.1")
    conf = read(grid_tls_cert=made.certificate, grid_tls_key=made.key, grid_tls_ca=authority.path)
    assert conf.server_context() is not None
    secure = conf.secure()
    assert secure is not None
    sock = secure(plain_pair()[0], ("127.0.0.1", 1))
    assert isinstance(sock, TlsSocket)


def test_servers_of_openstack_swift_speak_no_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    secure = read(grid_tls_ca=authority.path, grid_plain_http="127.0.0.0/8").secure()
    assert secure is not None
    plain = plain_pair()[0]
    assert secure(plain, ("127.0.0.1", 1)) is plain


def test_a_host_without_storage_servers_needs_no_certificate(tmp_path: Path) -> None:
    conf = read(grid_tls_ca=Authority(tmp_path).path)
    assert conf.secure() is not None
    with pytest.raises(ConfigError, match="a storage server needs grid_tls_cert"):
        conf.server_context()


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match="must be set together"):
        read(grid_tls_ca=missing, grid_tls_cert=missing)
    with pytest.raises(ConfigError, match="grid_tls_cert needs grid_tls_ca"):
        read(grid_tls_key=missing, grid_tls_cert=missing)
    conf = read(grid_tls_key=missing, grid_tls_cert=missing, grid_tls_ca=missing)
    with pytest.raises(ConfigError, match=f"grid_tls_ca: cannot read {missing}"):
        conf.secure()
    with pytest.raises(ConfigError, match=f"grid_tls_cert, grid_tls_key: cannot read {missing}"):
        conf.server_context()
