"""``martlet.conf``: the settings that are the same for all services of a cluster.

It has the sections and options of OpenStack Swift's ``swift.conf``, and ``[grid]``.
"""

from __future__ import annotations

import configparser
from dataclasses import dataclass, field
from pathlib import Path

from martlet.conf.constraints import Constraints
from martlet.conf.grid import GridConf
from martlet.conf.options import ConfigError, load_options, option, read_ini
from martlet.conf.storage_policies import StoragePolicy, read_policies

CONF_NAME = "martlet.conf"


@dataclass(frozen=True)
class HashOptions:
    """``[swift-hash]``: the salts of the path hash; after a change no stored data is found."""

    swift_hash_path_prefix: str = option("", "Put before a path before it is hashed")
    swift_hash_path_suffix: str = option("", "Put after a path before it is hashed")

    @classmethod
    def read(cls, path: Path) -> HashOptions:
        """Read the section as Swift does, so that an existing ``swift.conf`` gives the same hashes.

        Each byte of the file is one character of the salt (Latin-1), and ``%%`` stands for ``%``.

        :raises ConfigError: the file is missing, is not an ini file, or names no salt.
        """
        parser = configparser.ConfigParser()
        try:
            with path.open(encoding="latin-1") as stream:
                parser.read_file(stream)
            section = "swift-hash"
            prefix = parser.get(section, "swift_hash_path_prefix", fallback="")
            suffix = parser.get(section, "swift_hash_path_suffix", fallback="")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
        except configparser.Error as error:
            raise ConfigError(f"{path}: {error.message}".replace("\n", " ")) from None
        if not prefix and not suffix:
            names = "swift_hash_path_prefix or swift_hash_path_suffix"
            raise ConfigError(f"{path}: set {names} in section [swift-hash]")
        return cls(prefix, suffix)


@dataclass(frozen=True)
class ClusterConf:
    """The whole of ``martlet.conf``."""

    hash: HashOptions
    constraints: Constraints
    policies: tuple[StoragePolicy, ...]
    grid: GridConf = field(default_factory=GridConf)

    @property
    def default_policy(self) -> StoragePolicy:
        """The policy of containers that name none."""
        return next(p for p in self.policies if p.is_default)

    def policy_by_name(self, name: str) -> StoragePolicy | None:
        """The policy of that name or alias, in any case of letters."""
        wanted = name.upper()
        return next((p for p in self.policies if wanted in map(str.upper, p.names)), None)

    def policy_by_index(self, index: int) -> StoragePolicy | None:
        """The policy of that index."""
        return next((p for p in self.policies if p.index == index), None)

    @classmethod
    def load(cls, swift_dir: str | Path) -> ClusterConf:
        """Read ``martlet.conf`` in ``swift_dir``.

        :raises ConfigError: the file is missing, names no hash salt or no grid_secret, or has a bad
            section.
        """
        path = Path(swift_dir) / CONF_NAME
        salts = HashOptions.read(path)
        parser = read_ini(path, "latin-1")
        sections = {name: dict(parser.items(name)) for name in parser.sections()}
        load_options(HashOptions, sections.pop("swift-hash"), f"{path} [swift-hash]")
        limits = load_options(
            Constraints, sections.pop("swift-constraints", {}), f"{path} [swift-constraints]"
        )
        grid = sections.pop("grid", {})
        policies = read_policies(path, sections)
        return cls(salts, limits, policies, GridConf.read(grid, f"{path} [grid]"))
