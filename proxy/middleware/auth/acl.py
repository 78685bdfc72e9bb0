# SPDX-License-Identifier: Apache-2.0
"""Access control lists: the text of ``X-Container-Read`` / ``-Write``, and account ACLs in JSON.

A container ACL is a comma-separated list of

- groups and users: ``account``, ``account:user``, percent-encoded if they contain a comma;
- referrers, in read ACLs only: ``.r:*``, ``.r:host``, ``.r:.domain`` allow, ``.r:-host`` and
  ``.r:-.domain`` deny; the last that matches decides;
- ``.rlistings``: a client that a referrer rule admits may also list the container.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

#: Of a WSGI string. Other white space may be a byte of a character: à ends with that of a
#: no-break space.
_BLANKS = " \t"
_REFERRER_DESIGNATORS = (".r", ".ref", ".referer", ".referrer")
#: The lists of an account ACL, from most to least powerful.
ACCOUNT_ACL_KEYS = ("admin", "read-write", "read-only")
#: Where an account ACL is stored: the sysmeta name within the account's info.
ACCOUNT_ACL_SYSMETA = "core-access-control"


@dataclass(frozen=True, slots=True)
class ContainerAcl:
    """A parsed container ACL."""

    referrers: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AccountAcl:
    """A parsed account ACL: the groups that have each level of access."""

    admin: frozenset[str]
    read_write: frozenset[str]
    read_only: frozenset[str]


def clean_acl(header: str, value: str) -> str:
    """Return the ACL ``value`` of ``header`` in its short form.

    :raises ValueError: it is not a valid ACL; the message may be sent to the client.
    """
    is_write = "write" in header.lower()
    items = (item.strip(_BLANKS) for item in value.split(","))
    return ",".join(_clean_item(item, is_write) for item in items if item)


def _clean_item(item: str, is_write: bool) -> str:
    designator, colon, referrer = (part.strip(_BLANKS) for part in item.partition(":"))
    if not colon or not designator.startswith("."):
        return item
    if designator not in _REFERRER_DESIGNATORS:
        raise ValueError(f"Unknown designator {designator!r} in ACL: {item!r}")
    if is_write:
        raise ValueError(f"Referrers not allowed in write ACL: {item!r}")
    sign = "-" if referrer.startswith("-") else ""
    host = referrer.removeprefix("-").strip(_BLANKS)
    if host != "*":
        host = host.removeprefix("*").strip(_BLANKS)
    if host in ("", "."):
        raise ValueError(f"No host/domain value after referrer designation in ACL: {item!r}")
    return f".r:{sign}{host}"


@lru_cache(maxsize=1024)
def parse_acl(value: str | None) -> ContainerAcl:
    """Return the parts of a cleaned ACL; None and an empty text admit no users."""
    if not value:
        return ContainerAcl()
    referrers, groups = [], []
    for item in value.split(","):
        if item.startswith(".r:"):
            referrers.append(item[len(".r:") :])
        elif item:
            groups.append(unquote(item))
    return ContainerAcl(tuple(referrers), frozenset(groups))


def referrer_allowed(referrer: str | None, rules: tuple[str, ...]) -> bool:
    """Whether the rules admit the ``Referer`` of a request; the last matching rule decides."""
    if not rules:
        return False
    try:
        host = urlsplit(referrer or "").hostname or "unknown"
    except ValueError:  # malformed, e.g. half an IPv6 address
        host = "unknown"
    allowed = False
    for rule in rules:
        pattern = rule.removeprefix("-")
        if pattern in ("*", host) or (pattern.startswith(".") and host.endswith(pattern)):
            allowed = not rule.startswith("-")
    return allowed


def check_account_acl(value: str) -> str:
    """Return an account ACL as it is stored: ASCII JSON without spaces; empty text removes the ACL.

    :raises ValueError: it is not a valid account ACL; the message may be sent to the client.
    """
    if not value:
        return ""
    try:
        acl: Any = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(f"Syntax error in input ({value!r})") from None
    if not isinstance(acl, dict):
        raise ValueError(f"Syntax error in input ({value!r})")
    for key, grantees in acl.items():
        name = json.dumps(key)
        if key not in ACCOUNT_ACL_KEYS:
            raise ValueError(f"Key {name} not recognized")
        if not isinstance(grantees, list):
            raise ValueError(f"Value for key {name} must be a list")
        if not all(isinstance(grantee, str) for grantee in grantees):
            raise ValueError(f"Elements of {name} list must be strings")
    return format_account_acl(acl)


def format_account_acl(acl: dict[str, list[str]]) -> str:
    """Return the text of an account ACL in ``X-Account-Access-Control``."""
    return json.dumps(acl, ensure_ascii=True, separators=(",", ":"), sort_keys=True)


@lru_cache(maxsize=1024)
def parse_account_acl(stored: str | None) -> AccountAcl | None:
    """Return a stored account ACL, or None if there is none or it is damaged."""
    if not stored:
        return None
    try:
        acl = json.loads(check_account_acl(stored))
    except ValueError:
        return None
    lists = [frozenset(acl.get(key, ())) for key in ACCOUNT_ACL_KEYS]
    return AccountAcl(*lists) if any(lists) else None
