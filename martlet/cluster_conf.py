"""``martlet.conf``: what all services of one cluster must agree on.

It has the sections and options of OpenStack Swift's ``swift.conf``.
"""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path

from martlet.config import ConfigError, load_options, option, parse_bool, read_ini
from martlet.constraints import Constraints

CONF_NAME = "martlet.conf"
_POLICY_SECTION = re.compile(r"^storage-policy:(\d+)$")


@dataclass(frozen=True)
class HashOptions:
    """``[swift-hash]``: salts of every placement; changing them loses all data from sight."""

    swift_hash_path_prefix: str = option("", "Put before a path before it is hashed")
    swift_hash_path_suffix: str = option("", "Put after a path before it is hashed")

    @classmethod
    def read(cls, path: Path) -> HashOptions:
        """Read the section as Swift does, so that a cluster's own ``swift.conf`` places the same.

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
class StoragePolicy:
    """One ``[storage-policy:N]`` section: objects of policy N use ring ``object-N``."""

    index: int
    name: str
    is_default: bool = False
    is_deprecated: bool = False


@dataclass(frozen=True)
class ClusterConf:
    """The whole of ``martlet.conf``."""

    hash: HashOptions
    constraints: Constraints
    policies: tuple[StoragePolicy, ...]

    @property
    def default_policy(self) -> StoragePolicy:
        """The policy of containers that name none."""
        return next(p for p in self.policies if p.is_default)

    def policy_by_name(self, name: str) -> StoragePolicy | None:
        """The policy of that name, in any case of letters."""
        wanted = name.upper()
        return next((p for p in self.policies if p.name.upper() == wanted), None)

    def policy_by_index(self, index: int) -> StoragePolicy | None:
        """The policy of that index."""
        return next((p for p in self.policies if p.index == index), None)

    @classmethod
    def load(cls, swift_dir: str | Path) -> ClusterConf:
        """Read ``martlet.conf`` in ``swift_dir``.

        :raises ConfigError: the file is missing, names no hash salt, or has a bad section.
        """
        path = Path(swift_dir) / CONF_NAME
        salts = HashOptions.read(path)
        parser = read_ini(path, "latin-1")
        sections = {name: dict(parser.items(name)) for name in parser.sections()}
        load_options(HashOptions, sections.pop("swift-hash"), f"{path} [swift-hash]")
        limits = load_options(
            Constraints, sections.pop("swift-constraints", {}), f"{path} [swift-constraints]"
        )
        return cls(salts, limits, _policies(path, sections))


def _policies(path: Path, sections: dict[str, dict[str, str]]) -> tuple[StoragePolicy, ...]:
    policies = []
    for name, values in sections.items():
        match = _POLICY_SECTION.match(name)
        if match is None:
            raise ConfigError(f"{path}: unknown section [{name}]")
        policies.append(_policy(f"{path} [{name}]", int(match.group(1)), values))
    if not any(p.index == 0 for p in policies):
        if policies:
            raise ConfigError(f"{path}: a [storage-policy:0] section is needed beside the others")
        policies.append(StoragePolicy(0, "Policy-0", is_default=True))
    if len({p.name.upper() for p in policies}) != len(policies):
        raise ConfigError(f"{path}: two storage policies have the same name")
    defaults = [p for p in policies if p.is_default]
    if not defaults and len(policies) == 1:
        return (StoragePolicy(0, policies[0].name, is_default=True),)
    if len(defaults) != 1 or defaults[0].is_deprecated:
        raise ConfigError(f"{path}: exactly one storage policy, not deprecated, must be default")
    return tuple(sorted(policies, key=lambda p: p.index))


def _policy(where: str, index: int, values: dict[str, str]) -> StoragePolicy:
    known = {"name", "default", "deprecated", "policy_type"}
    if unknown := set(values) - known:
        raise ConfigError(f"{where}: unknown option {sorted(unknown)[0]!r}")
    if values.get("policy_type", "replication") != "replication":
        raise ConfigError(f"{where}: policy_type {values['policy_type']!r} is not supported")
    try:
        return StoragePolicy(
            index,
            values.get("name", f"Policy-{index}"),
            parse_bool(values.get("default", "no")),
            parse_bool(values.get("deprecated", "no")),
        )
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
