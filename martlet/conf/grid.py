# SPDX-License-Identifier: Apache-2.0
"""``[grid]`` of ``martlet.conf``: how the servers of a cluster recognize each other."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from martlet.conf.options import ConfigError, load_options, option
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets
from martlet.tls.contexts import ClientTls, server_context

#: Every reader of ini files takes these as they stand.
_OTHERS = "+ - . / : = @ _"
_IS_PLAIN = re.compile(f"[A-Za-z0-9{re.escape(_OTHERS.replace(' ', ''))}]*", re.ASCII).fullmatch


@dataclass(frozen=True, repr=False)  # a secret must not get into a log
class GridOptions:
    """The section as it is written."""

    grid_secret: str = option("", "The secret of the cluster, or none")
    grid_secret_previous: str = option("", "Accepted, too, while the secret changes")
    grid_plain_http: list[str] = option([], "Addresses and networks that need no proof")
    grid_checksum: bool = option(False, "Whether each message between two servers has a checksum")
    grid_tls_cert: str = option("", "Certificate chain of this host's storage servers, PEM")
    grid_tls_key: str = option("", "Private key of that certificate, PEM, not encrypted")
    grid_tls_ca: str = option("", "Certificates of the authorities of all servers, PEM")

    def __post_init__(self) -> None:
        """:raises ValueError: a secret could be read in several ways."""
        for name in ("grid_secret", "grid_secret_previous"):
            if not _IS_PLAIN(getattr(self, name)):
                raise ValueError(f"{name} may have ASCII letters, digits and {_OTHERS} alone")
        if bool(self.grid_tls_cert) != bool(self.grid_tls_key):
            raise ValueError("grid_tls_cert and grid_tls_key must be set together")
        if self.grid_tls_cert and not self.grid_tls_ca:
            raise ValueError("grid_tls_cert needs grid_tls_ca: servers are clients of each other")


@dataclass(frozen=True)
class TlsFiles:
    """Names of files in PEM; a host without storage servers needs the authorities alone."""

    certificate: str
    key: str
    authorities: str


@dataclass(frozen=True)
class GridConf:
    """The section as the services use it; without it there is no secret."""

    secrets: Secrets = field(default_factory=Secrets)
    plain_http: PlainHttp = field(default_factory=PlainHttp)
    checksum: bool = False
    tls: TlsFiles | None = None

    def speaks_tls(self, ip: str) -> bool:
        """Whether the storage servers at an address speak TLS."""
        return self.tls is not None and ip not in self.plain_http

    def secure(self) -> ClientTls | None:
        """Begins TLS on connections of a client, except to the servers of OpenStack Swift.

        :raises ConfigError: the file of the authorities cannot be used.
        """
        if self.tls is None:
            return None
        try:
            return ClientTls(self.tls.authorities, self.plain_http.__contains__)
        except ValueError as error:
            raise ConfigError(f"grid_tls_ca: {error}") from None

    def server_context(self) -> ssl.SSLContext | None:
        """The context of a storage server; None: it speaks no TLS.

        :raises ConfigError: the certificate or the key is missing, or cannot be used.
        """
        if self.tls is None:
            return None
        if not self.tls.certificate:
            raise ConfigError("grid_tls_ca is set: a storage server needs grid_tls_cert, too")
        try:
            return server_context(self.tls.certificate, self.tls.key)
        except ValueError as error:
            raise ConfigError(f"grid_tls_cert, grid_tls_key: {error}") from None

    @classmethod
    def read(cls, values: Mapping[str, str], where: str) -> GridConf:
        """Read the section.

        :raises ConfigError: it has no secret, or an option cannot be used.
        """
        options = load_options(GridOptions, values, where)
        tls = None
        if options.grid_tls_ca:
            tls = TlsFiles(options.grid_tls_cert, options.grid_tls_key, options.grid_tls_ca)
        try:
            return cls(
                Secrets.parse(options.grid_secret, options.grid_secret_previous),
                PlainHttp(options.grid_plain_http),
                options.grid_checksum,
                tls,
            )
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
