# SPDX-License-Identifier: Apache-2.0
"""The roles of each account prefix, from keystoneauth's section of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from proxy.middleware.auth.keystone_identity import Identity, read_roles
from proxy.middleware.auth.tempauth_users import Resellers


@dataclass(frozen=True, slots=True)
class PrefixRules:
    """The roles of one prefix, in lower case; the defaults are those of the options."""

    operator_roles: frozenset[str] = frozenset(("admin", "swiftoperator"))
    service_roles: frozenset[str] = frozenset()
    project_reader_roles: frozenset[str] = frozenset()


RULE_NAMES = tuple(field.name for field in fields(PrefixRules))


class AccountRules:
    """The prefixes that keystoneauth is responsible for, and the rules of each."""

    def __init__(self, prefix_list: str, values: Mapping[str, str]) -> None:
        """Read ``reseller_prefix`` and the options ``[PREFIX_]operator_roles`` and so on."""
        self._resellers = Resellers.from_options(prefix_list, {})
        self._rules = {p: _rules_of(p, values) for p in self._resellers.prefixes}

    def is_ours(self, account: str) -> bool:
        """Whether an account has one of the prefixes of this filter."""
        return self._resellers.prefix_of(account) is not None

    def rules_of(self, account: str) -> PrefixRules:
        """Return the rules of an account for which ``is_ours`` is true."""
        return self._rules[self._resellers.prefix_of(account) or ""]

    def is_account_of(self, identity: Identity, account: str) -> bool:
        """Whether the account belongs to the user's project, under its prefix."""
        project_id = identity.project_id  # None in tokens for a domain or for the system
        prefix = self._resellers.prefix_of(account)
        return None not in (project_id, prefix) and account == f"{prefix}{project_id}"

    def account_of(self, project_id: str) -> str:
        """The account of a project, under the first prefix."""
        return f"{self._resellers.first}{project_id}"

    @property
    def option_names(self) -> frozenset[str]:
        """The names of all possible options about roles."""
        prefixes = ("", *self._resellers.prefixes)
        return frozenset(_option(p, name) for p in prefixes for name in RULE_NAMES) | frozenset(
            RULE_NAMES
        )


def _rules_of(prefix: str, values: Mapping[str, str]) -> PrefixRules:
    """Return the rules of a prefix; an empty option counts as absent."""
    given = {}
    for name in RULE_NAMES:
        text = values.get(_option(prefix, name)) or values.get(name)
        if text:
            given[name] = read_roles(text)
    return PrefixRules(**given)


def _option(prefix: str, name: str) -> str:
    quoted = prefix or "''"
    return f"{quoted}{name}"
