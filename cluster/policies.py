# SPDX-License-Identifier: Apache-2.0
"""The storage policies of a cluster: those in its ``martlet.conf``, and those of ``--policy``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cluster.errors import ClusterError
from cluster.layout import Home
from martlet.conf.cluster import CONF_NAME
from martlet.conf.constraints import Constraints
from martlet.conf.options import ConfigError, load_options, read_ini
from martlet.conf.storage_policies import POLICY_SECTION, StoragePolicy, read_policies

Sections = dict[str, dict[str, str]]

_PLAIN = read_policies("", {})
_HASH_SECTION = "swift-hash"
_LIMITS_SECTION = "swift-constraints"
_GRID_SECTION = "grid"


@dataclass(frozen=True)
class WantedPolicy:
    """A ``--policy NAME[:REPLICAS]``; ``replicas`` None keeps the present number."""

    name: str
    replicas: float | None = None


@dataclass(frozen=True)
class ClusterPolicies:
    """The policies, and the sections of ``martlet.conf`` but the hash salts."""

    policies: tuple[StoragePolicy, ...]
    sections: Sections
    wanted_replicas: dict[int, float]


def parse_wanted(text: str) -> WantedPolicy:
    """Parse a ``--policy``; the name is checked later.

    :raises ClusterError: it is not NAME or NAME:REPLICAS.
    """
    name, colon, number = text.partition(":")
    if not colon:
        return WantedPolicy(name)
    try:
        replicas = float(number)
    except ValueError:
        replicas = math.nan
    if not (math.isfinite(replicas) and replicas >= 1):
        raise ClusterError(f"--policy {text}: {number!r} is not a number of replicas, 1 or more")
    return WantedPolicy(name, replicas)


def read_cluster_policies(home: Home, wanted: Sequence[WantedPolicy]) -> ClusterPolicies:
    """Read the policies of the home, and append those of ``wanted`` that are missing.

    In a home without policies, the first wanted one is policy 0 and the default.

    :raises ClusterError: ``martlet.conf`` cannot be read, or a policy is invalid.
    """
    path = home.etc / CONF_NAME
    try:
        sections = _kept_sections(home) if path.exists() else {}
        limits = sections.get(_LIMITS_SECTION, {})
        load_options(Constraints, limits, f"{path} [{_LIMITS_SECTION}]")
        known = read_policies(path, named) if (named := _policy_sections(sections)) else ()
        names = [wish.name for wish in wanted] or [policy.name for policy in known or _PLAIN]
        lacking: dict[str, str] = {}
        for name in names:
            if _find(known, name) is None:
                lacking.setdefault(name.upper(), name)
        _add(sections, lacking.values())
        policies = read_policies(path, _policy_sections(sections))
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    return ClusterPolicies(policies, sections, _replicas(policies, wanted))


def _kept_sections(home: Home) -> Sections:
    """All sections but the hash salts, which are in ``cluster.json``."""
    parser = read_ini(home.etc / CONF_NAME, "latin-1")
    return {
        section: {name: " ".join(value.split()) for name, value in parser.items(section)}
        for section in parser.sections()
        if section != _HASH_SECTION
    }


def _policy_sections(sections: Sections) -> Sections:
    others = (_LIMITS_SECTION, _GRID_SECTION)
    return {name: values for name, values in sections.items() if name not in others}


def _add(sections: Sections, names: Iterable[str]) -> None:
    """Append policies to the existing ones, and make policy 0 the default if there is none."""
    titles = {int(found[1]): title for title in sections if (found := POLICY_SECTION.match(title))}
    for name in names:
        index = max(titles, default=-1) + 1
        titles[index] = f"storage-policy:{index}"
        sections[titles[index]] = {"name": name}
    if not any("default" in values for values in sections.values()):
        sections[titles[0]]["default"] = "yes"


def _find(policies: Sequence[StoragePolicy], name: str) -> StoragePolicy | None:
    named = (p for p in policies if name.upper() in map(str.upper, p.names))
    return next(named, None)


def _replicas(
    policies: Sequence[StoragePolicy], wanted: Sequence[WantedPolicy]
) -> dict[int, float]:
    replicas: dict[int, float] = {}
    for wish in wanted:
        policy = _find(policies, wish.name)
        if policy is None or wish.replicas is None:
            continue
        if replicas.setdefault(policy.index, wish.replicas) != wish.replicas:
            raise ClusterError(f"--policy {wish.name} is given with two numbers of replicas")
    return replicas


def object_ring_name(policy_index: int) -> str:
    """``object`` for policy 0, ``object-N`` for the others."""
    return f"object-{policy_index}" if policy_index else "object"
