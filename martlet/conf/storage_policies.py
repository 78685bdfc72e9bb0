# SPDX-License-Identifier: Apache-2.0
"""Storage policies: the ``[storage-policy:N]`` sections of ``martlet.conf``, with Swift's rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from martlet.conf.options import ConfigError, parse_bool

POLICY_SECTION = re.compile(r"storage-policy:(\d+)\Z")
# Names are sent in headers.
_NAME = re.compile(r"[-A-Za-z0-9]+\Z")
_LEGACY_NAME = "Policy-0"
_OPTIONS = {"name", "aliases", "default", "deprecated", "policy_type"}


@dataclass(frozen=True)
class StoragePolicy:
    """Objects of policy N use ring ``object-N``; a deprecated one takes no new container."""

    index: int
    name: str
    is_default: bool = False
    is_deprecated: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases; each, in any case of letters, means this policy."""
        return (self.name, *self.aliases)


def read_policies(
    path: object, sections: Mapping[str, Mapping[str, str]]
) -> tuple[StoragePolicy, ...]:
    """The policies of these sections by index; Policy-0 if there are no sections.

    :raises ConfigError: names ``path``, the section and the error.
    """
    policies: dict[int, StoragePolicy] = {}
    for section, values in sections.items():
        match = POLICY_SECTION.match(section)
        if match is None:
            raise ConfigError(f"{path}: unknown section [{section}]")
        policy = _policy(f"{path} [{section}]", int(match.group(1)), values)
        if policy.index in policies:
            raise ConfigError(f"{path}: two sections for storage policy {policy.index}")
        policies[policy.index] = policy
    if not policies:
        return (StoragePolicy(0, _LEGACY_NAME, is_default=True),)
    if 0 not in policies:
        raise ConfigError(f"{path}: a [storage-policy:0] section is required with other policies")
    names = [name.upper() for policy in policies.values() for name in policy.names]
    if len(set(names)) != len(names):
        raise ConfigError(f"{path}: two storage policies have the same name")
    if len(policies) == 1 and not policies[0].is_deprecated:
        only = policies[0]
        return (StoragePolicy(0, only.name, is_default=True, aliases=only.aliases),)
    defaults = [policy for policy in policies.values() if policy.is_default]
    if len(defaults) != 1 or defaults[0].is_deprecated:
        raise ConfigError(f"{path}: exactly one storage policy, not deprecated, must be default")
    return tuple(policies[index] for index in sorted(policies))


def _policy(where: str, index: int, values: Mapping[str, str]) -> StoragePolicy:
    if unknown := set(values) - _OPTIONS:
        raise ConfigError(f"{where}: unknown option {sorted(unknown)[0]!r}")
    if values.get("policy_type", "replication") != "replication":
        raise ConfigError(f"{where}: policy_type {values['policy_type']!r} is not supported")
    name = values.get("name", _LEGACY_NAME if index == 0 else "").strip()
    aliases = [alias.strip() for alias in values.get("aliases", "").split(",") if alias.strip()]
    for text in (name, *aliases):
        if not _NAME.match(text):
            raise ConfigError(f"{where}: {text!r} is not a name: letters, digits and - only")
        if index and text.upper() == _LEGACY_NAME.upper():
            raise ConfigError(f"{where}: the name {text} is reserved for storage policy 0")
    # A policy may list its own name among its aliases.
    others = dict.fromkeys(alias for alias in aliases if alias.upper() != name.upper())
    try:
        return StoragePolicy(
            index,
            name,
            parse_bool(values.get("default", "no")),
            parse_bool(values.get("deprecated", "no")),
            tuple(others),
        )
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
