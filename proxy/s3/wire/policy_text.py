# SPDX-License-Identifier: Apache-2.0
"""The text of a bucket policy: strict JSON. What is unknown in it is refused, never ignored.

The messages are those of Amazon S3 where it has one for the case.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from proxy.s3.wire.patterns import Pattern, wildcard
from proxy.s3.wire.policy import BUCKET_ARN, Policy, Principals, Statement
from proxy.s3.wire.policy_actions import ACTIONS, PREFIX, expand
from proxy.s3.wire.policy_conditions import ConditionError, check_key, parse_conditions

BYTES_MAX = 20 * 1024
_VARIABLES_SINCE = "2012-10-17"
_VERSIONS = ("2008-10-17", _VARIABLES_SINCE)
_FIELDS = frozenset(["Version", "Id", "Statement"])
_STATEMENT_FIELDS = frozenset(
    ["Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource",
     "Condition"]
)  # fmt: skip
_NOT_JSON = "Policies must be valid JSON and the first byte must be '{'"
_BAD_PRINCIPAL = "Invalid principal in policy"
_BAD_ACTION = "Policy has invalid action"
_BAD_RESOURCE = "Policy has invalid resource"
_UNSUITED = "Action does not apply to any resource(s) in statement"
_ACCOUNT = re.compile(r"[^\s:/*?,${}]{1,256}")
_ARN = re.compile(r"arn:aws:iam::([^\s:/*?,${}]{1,256}):(root|user/[^\s*?${}]{1,256})")


class PolicyError(Exception):
    """The policy is not valid; the message is for the client."""


def parse_policy(text: bytes, bucket: str) -> Policy:
    """Read the policy of a bucket.

    :raises PolicyError: it is not valid.
    """
    if len(text) > BYTES_MAX:
        text_ = f"Normalized policy document exceeds the maximum allowed size of {BYTES_MAX} bytes"
        raise PolicyError(text_)
    document = _load(text)
    _check_fields(document, _FIELDS)
    version = document.get("Version", _VERSIONS[0])
    if version not in _VERSIONS:
        raise PolicyError("The policy must contain a valid version string")
    if not isinstance(document.get("Id", ""), str):
        raise PolicyError("Invalid policy syntax: Id")
    if "Statement" not in document:
        raise PolicyError("Missing required field Statement")
    items = document["Statement"]
    items = items if isinstance(items, list) else [items]
    if not items:
        raise PolicyError("Could not parse the policy: Statement is empty!")
    keys: set[str] = set()
    has_variables = version == _VARIABLES_SINCE
    statements = tuple(_statement(item, bucket, has_variables, keys) for item in items)
    sids = [item["Sid"] for item in items if item.get("Sid")]
    if len(sids) != len(set(sids)):
        raise PolicyError("Statement IDs (SID) in a single policy must be unique.")
    return Policy(statements, frozenset(keys))


def _load(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        raise PolicyError(_NOT_JSON)
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise PolicyError("This policy contains invalid Json") from None
    assert isinstance(found, dict)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise PolicyError("This policy contains invalid Json: a name comes twice in an object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _check_fields(found: Any, known: frozenset[str]) -> None:
    if not isinstance(found, dict):
        raise PolicyError("Invalid policy syntax.")
    unknown = sorted(found.keys() - known)
    if unknown:
        raise PolicyError(f"Unknown field {unknown[0]}")


def _statement(item: Any, bucket: str, has_variables: bool, keys: set[str]) -> Statement:
    _check_fields(item, _STATEMENT_FIELDS)
    if not isinstance(item.get("Sid", ""), str):
        raise PolicyError("Invalid policy syntax: Sid")
    if "Effect" not in item:
        raise PolicyError("Missing required field Effect")
    if item["Effect"] not in ("Allow", "Deny"):
        raise PolicyError(f"Invalid effect: {item['Effect']}")
    is_deny = item["Effect"] == "Deny"
    principal = _one_of(item, "Principal")
    if principal == "NotPrincipal" and not is_deny:
        raise PolicyError("Allow with NotPrincipal is not allowed.")
    principals = _principals(item[principal])
    action, resource = _one_of(item, "Action"), _one_of(item, "Resource")
    actions = _actions(item[action])
    texts = _texts(item[resource], _BAD_RESOURCE)
    resources = tuple(_resource(text, bucket, has_variables) for text in texts)
    if action == "Action" and resource == "Resource":
        _check_suited(_texts(item[action], _BAD_ACTION), texts)
    try:
        conditions, variables = parse_conditions(item.get("Condition", {}), has_variables)
        variables |= {found for pattern in resources for found in pattern.variables}
        keys |= {condition.key for condition in conditions}
        keys |= {check_key(variable.name) for variable in variables}
    except ConditionError as error:
        raise PolicyError(str(error)) from None
    return Statement(
        is_deny,
        principals,
        actions,
        resources,
        conditions,
        frozenset(variable.name for variable in variables if variable.default is None),
        principal == "NotPrincipal",
        action == "NotAction",
        resource == "NotResource",
    )


def _one_of(item: dict[str, Any], name: str) -> str:
    """The field ``name`` or ``Not…``, of which a statement must have one."""
    given = [field for field in (name, f"Not{name}") if field in item]
    if not given:
        raise PolicyError(f"Missing required field {name}")
    if len(given) > 1:
        raise PolicyError(f"Invalid policy syntax: {name} and Not{name} in one statement")
    return given[0]


def _texts(value: Any, message: str) -> list[str]:
    items = value if isinstance(value, list) else [value]
    if not items or not all(isinstance(item, str) for item in items):
        raise PolicyError(message)
    return items


def _principals(value: Any) -> Principals:
    if value == "*":
        return Principals(are_all=True)
    if not isinstance(value, dict) or value.keys() != {"AWS"}:
        raise PolicyError(_BAD_PRINCIPAL)
    accounts, users = set(), set()
    names = _texts(value["AWS"], _BAD_PRINCIPAL)
    for name in names:
        arn = _ARN.fullmatch(name)
        if arn is not None and arn[2] == "root":
            accounts.add(arn[1])
        elif arn is not None:
            users.add(name)
        elif _ACCOUNT.fullmatch(name):
            accounts.add(name)
        elif name != "*":
            raise PolicyError(_BAD_PRINCIPAL)
    return Principals("*" in names, frozenset(accounts), frozenset(users))


def _actions(value: Any) -> frozenset[str]:
    found: set[str] = set()
    for text in _texts(value, _BAD_ACTION):
        if text != "*" and not text.lower().startswith(PREFIX):
            raise PolicyError(_BAD_ACTION)
        actions = expand(text)
        if not actions:
            raise PolicyError(_BAD_ACTION)
        found |= actions
    return frozenset(found)


def _resource(text: str, bucket: str, has_variables: bool) -> Pattern:
    if text != "*" and not _is_in_bucket(text, bucket):
        raise PolicyError(_BAD_RESOURCE)
    try:
        return wildcard(text, has_variables)
    except ValueError:
        raise PolicyError(_BAD_RESOURCE) from None


def _is_in_bucket(text: str, bucket: str) -> bool:
    """Whether the part of an ARN before the key can be the bucket."""
    if not text.startswith(BUCKET_ARN):
        return False
    name = text.removeprefix(BUCKET_ARN).partition("/")[0]
    return "$" not in name and wildcard(name, False).matches(bucket, {})


def _check_suited(actions: list[str], resources: list[str]) -> None:
    """:raises PolicyError: the resources are objects, and an action is about buckets, or so."""
    kinds: set[bool] = set()
    for text in resources:
        name, slash, _ = text.removeprefix(BUCKET_ARN).partition("/")
        kinds |= {True} if slash else {False, "*" in name}
    for action in actions:
        if not any(ACTIONS[known] in kinds for known in expand(action)):
            raise PolicyError(_UNSUITED)
