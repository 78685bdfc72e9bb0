# SPDX-License-Identifier: Apache-2.0
"""The directory of ``martlet.conf`` and the rings: that of an option, of the home, or of a host."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import Home
from martlet.conf.cluster import CONF_NAME, ClusterConf
from martlet.conf.options import ConfigError
from martlet.conf.storage_policies import StoragePolicy
from ring.errors import RingError
from ring.ring import Ring, RingSet, load_rings

SWIFT_DIR_DEFAULT = Path("/etc/martlet")
#: The servers of a cluster that store something.
KINDS = ("account", "container", "object")


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add ``-d`` to a command."""
    parser.add_argument(
        *("-d", "--swift-dir", "--swiftdir"),
        dest="swift_dir",
        type=Path,
        metavar="DIR",
        help="that of martlet.conf and the rings (default: that of the cluster in MARTLET_HOME, "
        f"else {SWIFT_DIR_DEFAULT})",
    )


def add_policy_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--policy`` to a command."""
    parser.add_argument(
        *("-P", "--policy", "--policy-name"),
        dest="policy",
        metavar="POLICY",
        help="storage policy of the objects, its name or its index (default: the default policy)",
    )


def swift_dir_of(home: Home, given: Path | None) -> Path:
    """The directory to use."""
    if given is not None:
        return given.absolute()
    return home.etc if (home.etc / CONF_NAME).exists() else SWIFT_DIR_DEFAULT


@dataclass(frozen=True)
class ClusterFiles:
    """``martlet.conf`` and the rings of a directory."""

    directory: Path
    conf: ClusterConf
    rings: RingSet

    @classmethod
    def load(cls, directory: Path) -> ClusterFiles:
        """Read them.

        :raises ClusterError: one of them cannot be used.
        """
        try:
            conf = ClusterConf.load(directory)
            rings = load_rings(directory, policies=[policy.index for policy in conf.policies])
        except (ConfigError, RingError, ValueError) as error:
            raise ClusterError(f"{error} (-d names another directory)") from None
        except OSError as error:
            raise ClusterError(f"{error.filename}: {error.strerror}") from None
        return cls(directory, conf, rings)

    def policy(self, text: str | None) -> StoragePolicy:
        """The storage policy of that name or index; None: the default one.

        :raises ClusterError: there is none.
        """
        if text is None:
            return self.conf.default_policy
        found = self.conf.policy_by_name(text)
        if found is None and text.isascii() and text.isdigit():
            found = self.conf.policy_by_index(int(text))
        if found is None:
            known = ", ".join(f"{policy.name} ({policy.index})" for policy in self.conf.policies)
            raise ClusterError(f"there is no storage policy {text!r}; there are: {known}")
        return found

    def ring(self, kind: str, policy_index: int = 0) -> Ring:
        """The ring of accounts, of containers, or of the objects of a policy."""
        if kind == "object":
            return self.rings.object_ring(policy_index)
        return self.rings.account if kind == "account" else self.rings.container
