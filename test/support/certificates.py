"""Certificates for tests, made when they are needed."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key in files."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs the certificates of servers."""

    def __init__(
        self, directory: Path, name: str = "authority", parent: Authority | None = None
    ) -> None:
        """:param parent: signs its certificate; without it the authority does."""
        self.directory = directory
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        signer = parent or self
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = signer._builder(name, self._key, DAY).add_extension(constraints, critical=True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        self._certificate = builder.sign(signer._key, hashes.SHA256())
        #: The file for ``grid_tls_ca``.
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, *hosts: str, name: str = "server", lifetime: datetime.timedelta = DAY
    ) -> Certificate:
        """A new certificate for IP addresses and names; a negative lifetime: it has expired.

        It replaces the files of one of the same name.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = self._builder(name, key, lifetime).add_extension(names, critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        made = Certificate(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return made

    def _builder(
        self, subject: str, key: ec.EllipticCurvePrivateKey, lifetime: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        public = key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(self.name))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
