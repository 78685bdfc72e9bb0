# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be used for TLS are refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import Authority
from cryptography.hazmat.primitives import serialization

from martlet.tls.contexts import client_context, server_context


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one = authority.issue("127.0.0.1", name="one")
    two = authority.issue("127.0.0.1", name="two")
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.touch()
    server_context(one.certificate, one.key)
    cases = [
        (one.certificate, two.key, f"{two.key} is not the key of the certificate"),
        (missing, one.key, f"cannot read {missing}: No such file"),
        (one.certificate, missing, f"cannot read {missing}: No such file"),
        (empty, one.key, "is no certificate or key in PEM"),
        (one.certificate, empty, "is no certificate or key in PEM"),
    ]
    for certificate, key, reason in cases:
        with pytest.raises(ValueError, match=reason):
            server_context(certificate, key)
    with pytest.raises(ValueError, match=f"cannot read {missing}"):
        client_context(missing)
    with pytest.raises(ValueError, match=f"{empty} has no certificate in PEM"):
        client_context(empty)


def test_a_key_with_a_password(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("127.0.0.1")
    key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"a password"),
    )
    issued.key.write_bytes(encrypted)
    with pytest.raises(ValueError, match="the private key is encrypted"):
        server_context(issued.certificate, issued.key)
