# SPDX-License-Identifier: Apache-2.0
"""The policy of a form for uploads: a signed JSON document about the fields of the form."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from proxy.s3.wire.errors import S3Error

_FREE_PREFIX = "x-ignore-"
#: The fields that need no condition.
_FREE = frozenset({"policy", "file", "signature", "x-amz-signature", "awsaccesskeyid"})
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ABOUT_SIZE = "content-length-range"
_OPERATORS = ("eq", "starts-with")
_SIZE_MAX = 2**63 - 1


class Condition(NamedTuple):
    """A condition on a field, whose name is in lower case."""

    operator: str
    field: str
    value: str

    def holds(self, value: str) -> bool:
        """Whether the field may have this value."""
        return value == self.value if self.operator == "eq" else value.startswith(self.value)

    def __str__(self) -> str:
        return json.dumps([self.operator, f"${self.field}", self.value], ensure_ascii=False)


class Sizes(NamedTuple):
    """The number of bytes that a file may have; ``most`` None: any number."""

    least: int = 0
    most: int | None = None


class Policy(NamedTuple):
    """A parsed document; ``expires`` are seconds since 1970."""

    expires: float
    conditions: list[Condition]
    sizes: Sizes

    def check(self, fields: Mapping[str, str], now: float) -> None:
        """Check a form, whose fields have names in lower case.

        :raises S3Error: the policy does not allow it.
        """
        if now > self.expires:
            raise _denied("Policy expired.")
        for condition in self.conditions:
            if not condition.holds(fields.get(condition.field, "")):
                raise _denied(f"Policy Condition failed: {condition}")
        known = {condition.field for condition in self.conditions} | _FREE
        for name in fields:
            if name not in known and not name.startswith(_FREE_PREFIX):
                raise _denied(f"Extra input fields: {name}")


def _denied(text: str) -> S3Error:
    return S3Error("AccessDenied", f"Invalid according to Policy: {text}")


def policy_of(encoded: str) -> Policy:
    """The policy in the field ``policy``, which is Base64.

    :raises S3Error: InvalidPolicyDocument.
    """
    try:
        text = base64.b64decode("".join(encoded.split()), validate=True).decode("utf-8")
        # In a policy, a dollar sign that begins no name of a field is written as "\$".
        found = json.loads(_ESCAPE.sub(lambda m: "$" if m[1] == "$" else m[0], text))
    except (binascii.Error, ValueError, RecursionError):
        raise _invalid("Invalid JSON.") from None
    if not isinstance(found, dict):
        raise _invalid("Invalid JSON.")
    if unknown := sorted(found.keys() - {"expiration", "conditions"}):
        raise _invalid(f"Unexpected: '{unknown[0]}'")
    if not isinstance(found.get("conditions"), list):
        raise _invalid("Policy missing conditions.")
    conditions, sizes = _conditions_of(found["conditions"])
    return Policy(_expiration_of(found.get("expiration")), conditions, sizes)


def _invalid(text: str) -> S3Error:
    return S3Error("InvalidPolicyDocument", f"Invalid Policy: {text}")


def _expiration_of(value: Any) -> float:
    if value is None:
        raise _invalid("Policy missing expiration.")
    try:
        moment = datetime.fromisoformat(value)
        if "T" not in value or moment.tzinfo is None:
            raise ValueError(value)
        return moment.astimezone(UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        raise _invalid("Invalid 'expiration' value") from None


def _conditions_of(listed: Iterable[Any]) -> tuple[list[Condition], Sizes]:
    conditions, sizes = [], Sizes()
    for entry in listed:
        if isinstance(entry, dict):
            conditions.append(_simple(entry))
        elif isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str):
            if entry[0].lower() == _ABOUT_SIZE:
                sizes = _sizes_of(entry[1], entry[2])
            else:
                conditions.append(_condition(*entry))
        else:
            raise _invalid("Invalid condition.")
    return conditions, sizes


def _simple(entry: Mapping[str, Any]) -> Condition:
    if len(entry) != 1:
        text = "Invalid Simple-Condition: Simple-Conditions must have exactly one property "
        raise _invalid(f"{text}specified.")
    ((name, value),) = entry.items()
    if not isinstance(value, str):
        raise _invalid("Invalid Simple-Condition: value must be a string.")
    return Condition("eq", name.lower(), value)


def _condition(operator: str, field: Any, value: Any) -> Condition:
    if operator.lower() not in _OPERATORS:
        raise _invalid(f"Invalid condition: unknown operation '{operator}'.")
    if not isinstance(field, str) or not field.startswith("$") or not isinstance(value, str):
        raise _invalid("Invalid condition.")
    return Condition(operator.lower(), field[1:].lower(), value)


def _sizes_of(least: Any, most: Any) -> Sizes:
    try:
        found = [int(value) for value in (least, most) if not isinstance(value, bool | float)]
    except (TypeError, ValueError):
        found = []
    if len(found) != 2 or not 0 <= found[0] <= _SIZE_MAX or not 0 <= found[1] <= _SIZE_MAX:
        raise _invalid("Invalid content-length-range.")
    return Sizes(*found)
