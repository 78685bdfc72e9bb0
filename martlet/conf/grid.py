# SPDX-License-Identifier: Apache-2.0
"""``[grid]`` of ``martlet.conf``: how the servers of a cluster recognize each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from martlet.conf.options import ConfigError, load_options, option
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets

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

    def __post_init__(self) -> None:
        """:raises ValueError: a secret could be read in several ways."""
        for name in ("grid_secret", "grid_secret_previous"):
            if not _IS_PLAIN(getattr(self, name)):
                raise ValueError(f"{name} may have ASCII letters, digits and {_OTHERS} alone")


@dataclass(frozen=True)
class GridConf:
    """The section as the services use it; without it there is no secret."""

    secrets: Secrets = field(default_factory=Secrets)
    plain_http: PlainHttp = field(default_factory=PlainHttp)
    checksum: bool = False

    @classmethod
    def read(cls, values: Mapping[str, str], where: str) -> GridConf:
        """Read the section.

        :raises ConfigError: it has no secret, or an option cannot be used.
        """
        options = load_options(GridOptions, values, where)
        try:
            return cls(
                Secrets.parse(options.grid_secret, options.grid_secret_previous),
                PlainHttp(options.grid_plain_http),
                options.grid_checksum,
            )
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
