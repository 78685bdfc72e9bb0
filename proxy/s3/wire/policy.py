# SPDX-License-Identifier: Apache-2.0
"""Bucket policies: what they say about a request. ``policy_text`` reads them.

`evaluate` is a pure function. A statement that denies wins over one that allows. If no statement
counts, the rights that the client has otherwise decide.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.s3.wire.patterns import Facts, Pattern
from proxy.s3.wire.policy_conditions import Condition

BUCKET_ARN = "arn:aws:s3:::"
#: Conditions on these, with fixed values, keep a statement for all clients from being public.
_NARROWING = frozenset(
    ["aws:sourceip", "aws:userid", "aws:username", "aws:principalarn", "aws:principalaccount"]
)
_NARROW_OPERATORS = frozenset(
    ["stringequals", "stringequalsignorecase", "stringlike", "arnequals", "arnlike", "ipaddress"]
)
#: Wider networks than these count as all addresses.
_WIDEST_V4, _WIDEST_V6 = 8, 32


class Decision(enum.Enum):
    """The word of a policy about a request."""

    ALLOW = "allow"
    DENY = "deny"
    NONE = "none"


class Client(NamedTuple):
    """The maker of a request: a user of an account, or no user if both are empty.

    :param user: the name in ARNs; unique in its account.
    :param grantee: the id in ACLs.
    """

    account: str = ""
    user: str = ""
    name: str = ""
    grantee: str = ""

    @property
    def arn(self) -> str:
        """The ARN, empty without a user."""
        end = f"user/{self.user}" if self.user else "root"
        return f"arn:aws:iam::{self.account}:{end}" if self.account else ""


#: The client of a request without a user.
NOBODY = Client()


@dataclass(frozen=True, slots=True)
class Principals:
    """The clients that a statement names: all, accounts, or users by their ARNs."""

    are_all: bool = False
    accounts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()

    def include(self, client: Client) -> bool:
        """Whether they include a client."""
        if self.are_all:
            return True
        return bool(client.account) and (
            client.account in self.accounts or client.arn in self.users
        )


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement; the flags ``but_…`` say that it means all but those.

    :param variables: condition keys without which it allows nothing.
    """

    is_deny: bool
    principals: Principals
    actions: frozenset[str]
    resources: tuple[Pattern, ...]
    conditions: tuple[Condition, ...] = ()
    variables: frozenset[str] = frozenset()
    but_principals: bool = False
    but_actions: bool = False
    but_resources: bool = False

    def applies(self, client: Client, action: str, resource: str, facts: Facts) -> bool:
        """Whether it counts for a request."""
        if not self.is_deny and any(len(facts.get(name, ())) != 1 for name in self.variables):
            return False
        return (
            (action in self.actions) is not self.but_actions
            and self.principals.include(client) is not self.but_principals
            and any(p.matches(resource, facts) for p in self.resources) is not self.but_resources
            and all(condition.holds(facts) for condition in self.conditions)
        )

    @property
    def is_public(self) -> bool:
        """Whether it allows something to all clients."""
        if self.is_deny or not (self.principals.are_all or self.but_principals):
            return False
        return not any(_narrows(condition) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.

    :param keys: all condition keys that it looks at.
    """

    statements: tuple[Statement, ...]
    keys: frozenset[str] = frozenset()

    @property
    def is_public(self) -> bool:
        """Whether it is public, by Amazon's definition."""
        return any(statement.is_public for statement in self.statements)


def evaluate(policy: Policy, client: Client, action: str, resource: str, facts: Facts) -> Decision:
    """The word of the policy about one action.

    :param action: in lower case, e.g. ``s3:getobject``.
    :param resource: the ARN of the bucket or object.
    :param facts: the values of condition keys.
    """
    decision = Decision.NONE
    for statement in policy.statements:
        if decision is Decision.ALLOW and not statement.is_deny:
            continue
        if statement.applies(client, action, resource, facts):
            if statement.is_deny:
                return Decision.DENY
            decision = Decision.ALLOW
    return decision


def combine(decisions: Iterable[Decision]) -> Decision:
    """The decision about a request that needs several actions: all of them must be allowed."""
    found: Sequence[Decision] = list(decisions)
    if Decision.DENY in found:
        return Decision.DENY
    is_allowed = bool(found) and all(decision is Decision.ALLOW for decision in found)
    return Decision.ALLOW if is_allowed else Decision.NONE


def _narrows(condition: Condition) -> bool:
    if condition.key not in _NARROWING or condition.operator not in _NARROW_OPERATORS:
        return False
    if condition.if_exists or condition.quantifier == "all":
        return False
    if condition.operator == "ipaddress":
        return all(_is_narrow(text) for text in condition.texts)
    return not any(set(text) & set("*?$") for text in condition.texts)


def _is_narrow(text: str) -> bool:
    network = ipaddress.ip_network(text, strict=False)
    return network.prefixlen >= (_WIDEST_V4 if network.version == 4 else _WIDEST_V6)
