# SPDX-License-Identifier: Apache-2.0
"""The conditions of policies: operators, condition keys, and whether they hold for a request."""

from __future__ import annotations

import ipaddress
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from proxy.s3.wire.patterns import Facts, Pattern, Variable, key_of, literal, wildcard

_KEY_NAMES = """
    aws:currenttime aws:epochtime aws:principalaccount aws:principalarn aws:principaltype
    aws:referer aws:securetransport aws:sourceip aws:useragent aws:userid aws:username
    s3:authtype s3:delimiter s3:max-keys s3:prefix s3:requestobjecttagkeys s3:resourceaccount
    s3:signatureversion s3:versionid s3:x-amz-acl s3:x-amz-content-sha256 s3:x-amz-copy-source
    s3:x-amz-grant-full-control s3:x-amz-grant-read s3:x-amz-grant-read-acp s3:x-amz-grant-write
    s3:x-amz-grant-write-acp s3:x-amz-metadata-directive s3:x-amz-object-ownership
    s3:x-amz-server-side-encryption s3:x-amz-server-side-encryption-aws-kms-key-id
    s3:x-amz-server-side-encryption-customer-algorithm s3:x-amz-storage-class
    s3:x-amz-website-redirect-location s3:if-match s3:if-none-match s3:object-lock-mode
    s3:object-lock-legal-hold s3:object-lock-retain-until-date
"""
_KEYS = frozenset(_KEY_NAMES.split())
EXISTING_TAG, REQUEST_TAG = "s3:existingobjecttag/", "s3:requestobjecttag/"
_VALUES_MAX = 1000
_ARN_MAX = 2048
#: A colon outside of a variable.
_ARN_COLON = re.compile(r":(?![^{]*\})")
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{1,30})?", re.ASCII)
_EPOCH = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
_Test = Callable[[str, Facts], bool]


class ConditionError(Exception):
    """The condition is not valid; the message is for the client."""


class _Kind(NamedTuple):
    """An operator.

    :param parse: the text of a value, and whether variables count -> the test for a value.
    """

    parse: Callable[[str, bool], _Test]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """One key of one operator.

    :param quantifier: ``any``, ``all`` or empty.
    :param tests: one for each value; one of them must hold, or none of a negated operator.
    :param must_be_absent: for Null: whether the key must be absent, or must be there.
    """

    operator: str
    key: str
    tests: tuple[_Test, ...]
    texts: tuple[str, ...]
    is_negated: bool = False
    if_exists: bool = False
    quantifier: str = ""
    must_be_absent: bool | None = None

    def holds(self, facts: Facts) -> bool:
        """Whether it holds for a request."""
        values = facts.get(self.key, ())
        if self.must_be_absent is not None:
            return self.must_be_absent is not bool(values)
        if not values:
            if self.if_exists or self.quantifier == "all":
                return True
            return self.is_negated and self.quantifier != "any"
        if self.quantifier == "all":
            return all(self._is_met(value, facts) for value in values)
        if self.quantifier == "any":
            return any(self._is_met(value, facts) for value in values)
        is_one = any(test(value, facts) for value in values for test in self.tests)
        return is_one is not self.is_negated

    def _is_met(self, value: str, facts: Facts) -> bool:
        return any(test(value, facts) for test in self.tests) is not self.is_negated


def parse_conditions(
    block: Any, has_variables: bool
) -> tuple[tuple[Condition, ...], set[Variable]]:
    """The conditions of a statement, and its variables.

    :raises ConditionError: an operator or a key is unknown, or a value is not valid.
    """
    if not isinstance(block, dict):
        raise ConditionError("Condition must be an object")
    found: list[Condition] = []
    variables: set[Variable] = set()
    for word, keys in block.items():
        if not isinstance(keys, dict) or not keys:
            raise ConditionError(f"Invalid Condition block : {word}")
        for key, values in keys.items():
            found.append(_condition(word, key, _texts_of(values), has_variables))
            if has_variables:
                variables |= _variables_in(found[-1].texts)
    return tuple(found), variables


def check_key(name: str) -> str:
    """A condition key as facts have it.

    :raises ConditionError: it is unknown.
    """
    key = key_of(name)
    is_tag = key.startswith((EXISTING_TAG, REQUEST_TAG)) and not key.endswith("/")
    if key not in _KEYS and not is_tag:
        raise ConditionError("Policy has an invalid condition key")
    return key


def _variables_in(texts: Sequence[str]) -> set[Variable]:
    try:
        return {found for text in texts for found in literal(text, True).variables}
    except ValueError:
        raise ConditionError("Policy has an invalid variable") from None


def _texts_of(values: Any) -> tuple[str, ...]:
    items = values if isinstance(values, list) else [values]
    if not items or len(items) > _VALUES_MAX:
        raise ConditionError("Invalid Condition block : no value, or too many")
    return tuple(_text_of(item) for item in items)


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ConditionError("Invalid value in a Condition block")


def _condition(word: str, name: str, texts: tuple[str, ...], has_variables: bool) -> Condition:
    key = check_key(name)
    quantifier, base, if_exists = _parts_of(word)
    if base == "null":
        if if_exists or quantifier or len(texts) != 1 or texts[0] not in ("true", "false"):
            raise ConditionError(f"Invalid Condition type : {word}")
        return Condition(base, key, (), texts, must_be_absent=texts[0] == "true")
    kind = _OPERATORS.get(base)
    if kind is None:
        raise ConditionError(f"Invalid Condition type : {word}")
    try:
        tests = tuple(kind.parse(text, has_variables) for text in texts)
    except (ValueError, InvalidOperation, OverflowError):
        text = f"Invalid value for the Condition type {word} and the key {name}"
        raise ConditionError(text) from None
    return Condition(base, key, tests, texts, kind.is_negated, if_exists, quantifier)


def _parts_of(word: str) -> tuple[str, str, bool]:
    lowered = word.lower()
    quantifier = ""
    for prefix, word in (("foranyvalue:", "any"), ("forallvalues:", "all")):
        if lowered.startswith(prefix):
            quantifier, lowered = word, lowered.removeprefix(prefix)
    base = lowered.removesuffix("ifexists")
    return quantifier, base, base != lowered


# --- kinds of operators


def _pattern_test(pattern: Pattern) -> _Test:
    return pattern.matches


def _string(text: str, has_variables: bool) -> _Test:
    return _pattern_test(literal(text, has_variables))


def _string_in_any_case(text: str, has_variables: bool) -> _Test:
    return _pattern_test(literal(text, has_variables, ignores_case=True))


def _like(text: str, has_variables: bool) -> _Test:
    return _pattern_test(wildcard(text, has_variables))


def _arn(text: str, has_variables: bool) -> _Test:
    parts = _ARN_COLON.split(text, maxsplit=5) if len(text) <= _ARN_MAX else []
    if len(parts) != 6 or parts[0] != "arn":
        raise ValueError("an ARN has six parts")
    patterns = [wildcard(part, has_variables) for part in parts]

    def test(value: str, facts: Facts) -> bool:
        given = value.split(":", 5)
        return len(given) == 6 and all(
            pattern.matches(part, facts) for pattern, part in zip(patterns, given, strict=True)
        )

    return test


def _number(compare: Callable[[Decimal, Decimal], bool]) -> Callable[[str, bool], _Test]:
    def parse(text: str, has_variables: bool) -> _Test:
        wanted = _decimal(text)

        def test(value: str, facts: Facts) -> bool:
            try:
                return compare(_decimal(value), wanted)
            except (ValueError, InvalidOperation):
                return False

        return test

    return parse


def _decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return Decimal(text)


def _date(compare: Callable[[float, float], bool]) -> Callable[[str, bool], _Test]:
    def parse(text: str, has_variables: bool) -> _Test:
        wanted = _seconds(text)

        def test(value: str, facts: Facts) -> bool:
            try:
                return compare(_seconds(value), wanted)
            except (ValueError, OverflowError):
                return False

        return test

    return parse


def _seconds(text: str) -> float:
    if _EPOCH.fullmatch(text):
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _bool(text: str, has_variables: bool) -> _Test:
    wanted = text.lower()
    if wanted not in ("true", "false"):
        raise ValueError("neither true nor false")
    return lambda value, facts: value.lower() == wanted


def _network(text: str, has_variables: bool) -> _Test:
    network = ipaddress.ip_network(text, strict=False)

    def test(value: str, facts: Facts) -> bool:
        try:
            address = ipaddress.ip_address(value)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address) in network

    return test


def _family(
    name: str, of: Callable[[Callable[[Any, Any], bool]], Callable[[str, bool], _Test]]
) -> dict[str, _Kind]:
    return {
        f"{name}equals": _Kind(of(operator.eq)),
        f"{name}notequals": _Kind(of(operator.eq), True),
        f"{name}lessthan": _Kind(of(operator.lt)),
        f"{name}lessthanequals": _Kind(of(operator.le)),
        f"{name}greaterthan": _Kind(of(operator.gt)),
        f"{name}greaterthanequals": _Kind(of(operator.ge)),
    }


_OPERATORS: dict[str, _Kind] = {
    "stringequals": _Kind(_string),
    "stringnotequals": _Kind(_string, True),
    "stringequalsignorecase": _Kind(_string_in_any_case),
    "stringnotequalsignorecase": _Kind(_string_in_any_case, True),
    "stringlike": _Kind(_like),
    "stringnotlike": _Kind(_like, True),
    "arnequals": _Kind(_arn),
    "arnlike": _Kind(_arn),
    "arnnotequals": _Kind(_arn, True),
    "arnnotlike": _Kind(_arn, True),
    "bool": _Kind(_bool),
    "ipaddress": _Kind(_network),
    "notipaddress": _Kind(_network, True),
}
_OPERATORS |= _family("numeric", _number) | _family("date", _date)
