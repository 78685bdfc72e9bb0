"""Bucket policies: what is a valid one, and what it says about a request."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.patterns import key_of, literal, wildcard
from proxy.s3.wire.policy import NOBODY, Client, Decision, Policy, combine, evaluate
from proxy.s3.wire.policy_actions import ACTIONS, expand
from proxy.s3.wire.policy_text import BYTES_MAX, PolicyError, parse_policy

BLUE = Client("AUTH_blue", "ann", "ann", "blue:ann")
RED = Client("AUTH_red", "rob", "rob", "red:rob")
CLIENTS = {"blue": BLUE, "red": RED, "nobody": NOBODY}
ALLOW = {
    "Effect": "Allow",
    "Principal": "*",
    "Action": "s3:GetObject",
    "Resource": "arn:aws:s3:::box/*",
}


def policy_of(*statements: dict[str, Any], version: str = "2012-10-17") -> Policy:
    text = json.dumps({"Version": version, "Statement": list(statements)})
    return parse_policy(text.encode(), "box")


def decide(
    policy: Policy,
    client: Client = RED,
    action: str = "s3:getobject",
    key: str = "k",
    **facts: tuple[str, ...],
) -> Decision:
    resource = f"arn:aws:s3:::box/{key}" if key else "arn:aws:s3:::box"
    named = {key_of(name.replace("__", ":").replace("_", "-")): v for name, v in facts.items()}
    return evaluate(policy, client, action, resource, named)


@pytest.mark.parametrize(
    ("changes", "client", "expected"),
    [
        ({}, "nobody", Decision.ALLOW),
        ({"Principal": {"AWS": "*"}}, "nobody", Decision.ALLOW),
        ({"Principal": {"AWS": "AUTH_red"}}, "red", Decision.ALLOW),
        ({"Principal": {"AWS": "AUTH_red"}}, "blue", Decision.NONE),
        ({"Principal": {"AWS": "AUTH_red"}}, "nobody", Decision.NONE),
        ({"Principal": {"AWS": "arn:aws:iam::AUTH_red:root"}}, "red", Decision.ALLOW),
        ({"Principal": {"AWS": ["arn:aws:iam::AUTH_red:user/rob"]}}, "red", Decision.ALLOW),
        ({"Principal": {"AWS": ["arn:aws:iam::AUTH_red:user/bob"]}}, "red", Decision.NONE),
        ({"Principal": {"AWS": ["arn:aws:iam::AUTH_blue:user/rob"]}}, "red", Decision.NONE),
        ({"Action": "s3:Get*"}, "red", Decision.ALLOW),
        ({"Action": "s3:getOBJECT"}, "red", Decision.ALLOW),
        ({"Action": ["s3:PutObject", "s3:Get?bject"]}, "red", Decision.ALLOW),
        ({"Action": "*"}, "red", Decision.ALLOW),
        ({"Action": "s3:PutObject"}, "red", Decision.NONE),
        ({"Action": "s3:GetObjectVersion"}, "red", Decision.NONE),
        ({"Resource": "*"}, "red", Decision.ALLOW),
        ({"Resource": "arn:aws:s3:::b?x/k"}, "red", Decision.ALLOW),
        ({"Resource": "arn:aws:s3:::box/?"}, "red", Decision.ALLOW),
        ({"Resource": "arn:aws:s3:::box/kk"}, "red", Decision.NONE),
        ({"Resource": ["arn:aws:s3:::box/a", "arn:aws:s3:::box/k"]}, "red", Decision.ALLOW),
    ],
)
def test_whom_and_what_a_statement_means(
    changes: dict[str, Any], client: str, expected: Decision
) -> None:
    assert decide(policy_of({**ALLOW, **changes}), CLIENTS[client]) is expected


def without(name: str, **changes: Any) -> dict[str, Any]:
    return {**{key: value for key, value in ALLOW.items() if key != name}, **changes}


def test_all_but_those_that_are_named() -> None:
    but = policy_of(without("Principal", Effect="Deny", NotPrincipal={"AWS": "AUTH_blue"}))
    found = [decide(but, client) for client in (RED, BLUE, NOBODY)]
    assert found == [Decision.DENY, Decision.NONE, Decision.DENY]
    but = policy_of(without("Action", NotAction=["s3:Put*", "s3:Delete*"]))
    assert decide(but) is Decision.ALLOW
    assert decide(but, action="s3:putobject") is Decision.NONE
    but = policy_of(without("Resource", NotResource="arn:aws:s3:::box/secret/*"))
    assert decide(but) is Decision.ALLOW
    assert decide(but, key="secret/k") is Decision.NONE


def test_a_denial_wins_in_any_order() -> None:
    deny = {**ALLOW, "Effect": "Deny", "Principal": {"AWS": "AUTH_red"}}
    for statements in ([ALLOW, deny], [deny, ALLOW]):
        assert decide(policy_of(*statements)) is Decision.DENY
        assert decide(policy_of(*statements), BLUE) is Decision.ALLOW


CONDITIONS: list[tuple[str, str, Any, tuple[str, ...] | None, bool]] = [
    ("StringEquals", "s3:prefix", "a", ("a",), True),
    ("StringEquals", "s3:prefix", ["b", "a"], ("a",), True),
    ("StringEquals", "s3:prefix", "a", ("A",), False),
    ("StringEquals", "s3:prefix", "a*", ("ab",), False),
    ("StringEquals", "s3:prefix", "a", None, False),
    ("StringEqualsIfExists", "s3:prefix", "a", None, True),
    ("StringNotEquals", "s3:prefix", "a", ("b",), True),
    ("StringNotEquals", "s3:prefix", ["a", "b"], ("b",), False),
    ("StringNotEquals", "s3:prefix", "a", None, True),
    ("StringEqualsIgnoreCase", "s3:prefix", "a", ("A",), True),
    ("StringNotEqualsIgnoreCase", "s3:prefix", "a", ("A",), False),
    ("StringLike", "s3:prefix", "a*c?", ("abcd",), True),
    ("StringLike", "s3:prefix", "a*c?", ("abc",), False),
    ("StringNotLike", "s3:prefix", "a*", ("b",), True),
    ("NumericLessThanEquals", "s3:max-keys", 10, ("10",), True),
    ("NumericLessThan", "s3:max-keys", "10", ("10",), False),
    ("NumericGreaterThan", "s3:max-keys", "9.5", ("10",), True),
    ("NumericGreaterThanEquals", "s3:max-keys", "10", ("9",), False),
    ("NumericEquals", "s3:max-keys", "10", ("010",), True),
    ("NumericNotEquals", "s3:max-keys", "10", ("x",), True),
    ("NumericEquals", "s3:max-keys", "10", ("x",), False),
    ("DateLessThan", "aws:CurrentTime", "2030-01-01T00:00:00Z", ("2029-12-31T23:59:59Z",), True),
    ("DateGreaterThan", "aws:CurrentTime", "2030-01-01", ("2029-12-31T23:59:59Z",), False),
    ("DateEquals", "aws:EpochTime", "1970-01-01T00:00:10+00:00", ("10",), True),
    ("DateNotEquals", "aws:EpochTime", "10", ("10",), False),
    ("Bool", "aws:SecureTransport", False, ("false",), True),
    ("Bool", "aws:SecureTransport", "true", ("false",), False),
    ("Bool", "aws:SecureTransport", "true", None, False),
    ("IpAddress", "aws:SourceIp", "10.0.0.0/8", ("10.1.2.3",), True),
    ("IpAddress", "aws:SourceIp", ["192.0.2.1", "10.0.0.0/8"], ("::ffff:10.1.2.3",), True),
    ("IpAddress", "aws:SourceIp", "2001:db8::/32", ("10.1.2.3",), False),
    ("NotIpAddress", "aws:SourceIp", "10.0.0.0/8", ("11.1.2.3",), True),
    ("NotIpAddress", "aws:SourceIp", "10.0.0.0/8", ("10.0.0.1",), False),
    ("NotIpAddress", "aws:SourceIp", "10.0.0.0/8", ("no address",), True),
    ("ArnLike", "aws:PrincipalArn", "arn:aws:iam::*:user/r*", ("arn:aws:iam::A:user/rob",), True),
    ("ArnEquals", "aws:PrincipalArn", "arn:aws:iam::B:*", ("arn:aws:iam::A:user/rob",), False),
    ("ArnNotLike", "aws:PrincipalArn", "arn:aws:iam::B:*", ("arn:aws:iam::A:root",), True),
    ("ArnLike", "aws:PrincipalArn", "arn:aws:*", None, False),
    ("Null", "s3:VersionId", "true", None, True),
    ("Null", "s3:VersionId", "true", ("1",), False),
    ("Null", "s3:VersionId", False, ("1",), True),
    ("ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", ["a", "b"], ("b", "c"), True),
    ("ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", ["a"], None, False),
    ("ForAnyValue:StringNotEquals", "s3:RequestObjectTagKeys", "a", ("a", "b"), True),
    ("ForAnyValue:StringNotEquals", "s3:RequestObjectTagKeys", "a", None, False),
    ("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", ["a", "b"], ("b", "c"), False),
    ("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", ["a", "b"], ("b", "a"), True),
    ("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", ["a"], None, True),
    ("ForAllValues:StringNotLike", "s3:RequestObjectTagKeys", "a*", ("ab", "c"), False),
]


@pytest.mark.parametrize(("operator", "key", "wanted", "values", "holds"), CONDITIONS)
def test_conditions(
    operator: str, key: str, wanted: Any, values: tuple[str, ...] | None, holds: bool
) -> None:
    if operator.startswith("ArnLike") and wanted == "arn:aws:*":
        wanted = "arn:aws:*:*:*:*"
    policy = policy_of({**ALLOW, "Condition": {operator: {key: wanted}}})
    facts = {} if values is None else {key_of(key): values}
    found = evaluate(policy, RED, "s3:getobject", "arn:aws:s3:::box/k", facts)
    assert found is (Decision.ALLOW if holds else Decision.NONE)
    assert policy.keys == {key_of(key)}


def test_all_conditions_must_hold() -> None:
    conditions = {"StringEquals": {"s3:prefix": "a", "s3:delimiter": "/"}, "Bool": {}}
    conditions["Bool"] = {"aws:SecureTransport": "true"}
    policy = policy_of({**ALLOW, "Condition": conditions})
    facts = {"s3:prefix": ("a",), "s3:delimiter": ("/",), "aws:securetransport": ("true",)}
    resource = "arn:aws:s3:::box/k"
    assert evaluate(policy, RED, "s3:getobject", resource, facts) is Decision.ALLOW
    for name in facts:
        less = {**facts, name: ("other",)}
        assert evaluate(policy, RED, "s3:getobject", resource, less) is Decision.NONE


def test_tags_keep_their_case() -> None:
    condition = {"StringEquals": {"S3:existingobjectTAG/Color": "blue"}}
    policy = policy_of({**ALLOW, "Condition": condition})
    assert policy.keys == {"s3:existingobjecttag/Color"}


def test_variables_stand_for_literal_text() -> None:
    home = policy_of({**ALLOW, "Resource": "arn:aws:s3:::box/${aws:username}/*"})

    def of(name: str | None, key: str) -> Decision:
        facts = {} if name is None else {"aws:username": (name,)}
        return evaluate(home, RED, "s3:getobject", f"arn:aws:s3:::box/{key}", facts)

    assert of("rob", "rob/k") is Decision.ALLOW
    assert of("*", "rob/k") is Decision.NONE
    assert of("*", "*/k") is Decision.ALLOW
    assert of(None, "rob/k") is Decision.NONE
    old = policy_of({**ALLOW, "Resource": "arn:aws:s3:::box/${x}"}, version="2008-10-17")
    assert decide(old, key="${x}") is Decision.ALLOW


def test_a_variable_may_have_a_default_and_may_be_a_wildcard_itself() -> None:
    policy = policy_of({**ALLOW, "Resource": "arn:aws:s3:::box/${aws:username, 'guest'}/${*}"})
    assert decide(policy, key="guest/*") is Decision.ALLOW
    assert decide(policy, key="guest/k") is Decision.NONE


def test_an_unknown_variable_allows_nothing_and_denies_the_more() -> None:
    condition = {"StringNotEquals": {"s3:prefix": "${aws:username}"}}
    allow, deny = {**ALLOW, "Condition": condition}, {**ALLOW, "Condition": condition}
    deny["Effect"] = "Deny"
    assert decide(policy_of(allow)) is Decision.NONE
    assert decide(policy_of(deny)) is Decision.DENY
    but = without("Resource", NotResource="arn:aws:s3:::box/${aws:username}/*")
    assert decide(policy_of(but)) is Decision.NONE


BAD: list[tuple[Any, str]] = [
    (b"", "first byte must be '{'"),
    (b" {}", "first byte must be '{'"),
    (b"{", "invalid Json"),
    (b"{}", "Missing required field Statement"),
    (b'{"Statement": []}', "Statement is empty!"),
    (b'{"Statement": 1}', "Invalid policy syntax."),
    (b'{"Statement": [], "Statement": []}', "a name comes twice"),
    (b'{"Version": "2012-10-18", "Statement": [{}]}', "valid version string"),
    (b'{"Version": ["2012-10-17"], "Statement": [{}]}', "valid version string"),
    (b'{"Extra": 1, "Statement": [{}]}', "Unknown field Extra"),
    (b'{"Id": 1, "Statement": [{}]}', "Invalid policy syntax: Id"),
    (b'{"Statement": NaN}', "invalid Json"),
    (b'{"a":' * 3000, "invalid Json"),
    (b'{"Statement": "\xff"}', "invalid Json"),
    (b"{" + b" " * BYTES_MAX, "exceeds the maximum allowed size"),
    ({"Effect": "allow"}, "Invalid effect: allow"),
    (without("Effect"), "Missing required field Effect"),
    (without("Principal"), "Missing required field Principal"),
    (without("Action"), "Missing required field Action"),
    (without("Resource"), "Missing required field Resource"),
    ({"Sid": 1}, "Invalid policy syntax: Sid"),
    ({"Foo": 1}, "Unknown field Foo"),
    ({"NotAction": "s3:GetObject"}, "Action and NotAction"),
    (without("Principal", NotPrincipal="*"), "Allow with NotPrincipal is not allowed."),
    ({"Principal": {}}, "Invalid principal"),
    ({"Principal": {"AWS": []}}, "Invalid principal"),
    ({"Principal": {"AWS": "arn:aws:iam::A:user/*"}}, "Invalid principal"),
    ({"Principal": {"AWS": "arn:aws:iam::A:role/x"}}, "Invalid principal"),
    ({"Principal": {"Service": "s3.amazonaws.com"}}, "Invalid principal"),
    ({"Principal": {"AWS": "a b"}}, "Invalid principal"),
    ({"Action": "s3:Nothing"}, "invalid action"),
    ({"Action": "ec2:*"}, "invalid action"),
    ({"Action": []}, "invalid action"),
    ({"Action": 1}, "invalid action"),
    ({"Resource": "arn:aws:s3:::other/*"}, "invalid resource"),
    ({"Resource": "box/*"}, "invalid resource"),
    ({"Resource": "arn:aws:s3:::${aws:username}/*"}, "invalid resource"),
    ({"Resource": "arn:aws:s3:::box/${aws:username"}, "invalid resource"),
    ({"Resource": "arn:aws:s3:::box/${aws:PrincipalTag/x}"}, "invalid condition key"),
    ({"Resource": "arn:aws:s3:::box"}, "Action does not apply to any resource"),
    ({"Action": "s3:ListBucket"}, "Action does not apply to any resource"),
    ({"Action": ["s3:GetObject", "s3:ListBucket"]}, "Action does not apply to any resource"),
    ({"Condition": []}, "Condition must be an object"),
    ({"Condition": {"StringEquals": {}}}, "Invalid Condition block"),
    ({"Condition": {"Equals": {"s3:prefix": "a"}}}, "Invalid Condition type : Equals"),
    ({"Condition": {"NullIfExists": {"s3:prefix": "true"}}}, "Invalid Condition type"),
    ({"Condition": {"Null": {"s3:prefix": "maybe"}}}, "Invalid Condition type"),
    ({"Condition": {"StringEquals": {"s3:unknown": "a"}}}, "invalid condition key"),
    ({"Condition": {"StringEquals": {"s3:ExistingObjectTag/": "a"}}}, "invalid condition key"),
    ({"Condition": {"StringEquals": {"s3:prefix": None}}}, "Invalid value"),
    ({"Condition": {"StringEquals": {"s3:prefix": []}}}, "no value"),
    ({"Condition": {"StringEquals": {"s3:prefix": "${aws:x}"}}}, "invalid condition key"),
    ({"Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/99"}}}, "Invalid value"),
    ({"Condition": {"NumericEquals": {"s3:max-keys": "ten"}}}, "Invalid value"),
    ({"Condition": {"NumericEquals": {"s3:max-keys": 1e999}}}, "invalid Json"),
    ({"Condition": {"DateEquals": {"aws:CurrentTime": "soon"}}}, "Invalid value"),
    ({"Condition": {"Bool": {"aws:SecureTransport": "yes"}}}, "Invalid value"),
    ({"Condition": {"ArnLike": {"aws:PrincipalArn": "x"}}}, "Invalid value"),
]


@pytest.mark.parametrize(("what", "message"), BAD)
def test_what_is_not_valid_is_refused(what: Any, message: str) -> None:
    if isinstance(what, bytes):
        text = what
    else:  # a statement, or what differs from a valid one
        statement = what if len(what) >= 3 else {**ALLOW, **what}
        text = json.dumps({"Version": "2012-10-17", "Statement": statement}).encode()
    with pytest.raises(PolicyError, match=re.escape(message)):
        parse_policy(text, "box")


def test_statement_ids_are_unique() -> None:
    with pytest.raises(PolicyError, match="unique"):
        policy_of({**ALLOW, "Sid": "a"}, {**ALLOW, "Sid": "a"})


@pytest.mark.parametrize(
    ("changes", "is_public"),
    [
        ({}, True),
        ({"Effect": "Deny"}, False),
        ({"Principal": {"AWS": "AUTH_red"}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}, False),
        ({"Condition": {"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "0.0.0.0/0"]}}}, True),
        ({"Condition": {"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}}, True),
        ({"Condition": {"StringEquals": {"aws:PrincipalAccount": "AUTH_red"}}}, False),
        ({"Condition": {"StringLike": {"aws:PrincipalAccount": "AUTH_*"}}}, True),
        ({"Condition": {"StringEqualsIfExists": {"aws:username": "rob"}}}, True),
        ({"Condition": {"Bool": {"aws:SecureTransport": "true"}}}, True),
    ],
)
def test_which_policies_are_public(changes: dict[str, Any], is_public: bool) -> None:
    assert policy_of({**ALLOW, **changes}).is_public is is_public


def test_of_several_actions_each_must_be_allowed() -> None:
    allow, deny, none = Decision.ALLOW, Decision.DENY, Decision.NONE
    assert combine([allow, allow]) is allow
    assert combine([allow, none]) is none
    assert combine([none, deny, allow]) is deny
    assert combine([]) is none


def test_actions_are_expanded() -> None:
    assert expand("s3:*") == frozenset(ACTIONS)
    assert expand("s3:PutObjectAcl") == {"s3:putobjectacl"}
    assert expand("s3:no") == frozenset()


def test_a_hard_pattern_takes_little_time() -> None:
    pattern = wildcard("a*" * 5000 + "b", False)
    begin = time.process_time()
    assert not pattern.matches("a" * 1024, {})
    assert time.process_time() - begin < 1.0


# Against a model.

TEXTS = st.text(alphabet="ab*?", max_size=8)


def matches_by_model(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches_by_model(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and matches_by_model(pattern[1:], text[1:])


@given(TEXTS, st.text(alphabet="ab", max_size=8))
def test_wildcards_match_as_the_model_says(pattern: str, text: str) -> None:
    assert wildcard(pattern, False).matches(text, {}) is matches_by_model(pattern, text)


@given(
    st.lists(st.sampled_from(["*", "?", "ab", "?a", "b" * 9, "a?b" * 6]), max_size=9).map("".join),
    st.lists(st.sampled_from(["ab", "b", "aab", "abb" * 5, "b" * 9]), max_size=9).map("".join),
)
def test_long_patterns_match_as_a_regular_expression(pattern: str, text: str) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    assert wildcard(pattern, False).matches(text, {}) is bool(re.fullmatch(expression, text))
    folded = wildcard(pattern.upper(), False, ignores_case=True).matches(text, {})
    assert folded is bool(re.fullmatch(expression, text))


def test_a_variable_may_stand_beside_wildcards() -> None:
    pattern = wildcard("x?${a}b*?${a}?c", True)
    for value, text, matches in (("", "xybz-wc", True), ("", "xyzb--c", False),
                                 ("*", "xy*b--*zc", True), ("*", "xy-b---zc", False)):  # fmt: skip
        assert pattern.matches(text, {"a": (value,)}) is matches


@given(TEXTS, TEXTS)
def test_literals_match_themselves_only(pattern: str, text: str) -> None:
    assert literal(pattern, False).matches(text, {}) is (pattern == text)


STATEMENTS = st.fixed_dictionaries(
    {
        "Effect": st.sampled_from(["Allow", "Deny"]),
        "Principal": st.sampled_from(["*", {"AWS": "AUTH_red"}, {"AWS": "AUTH_blue"}]),
        "Action": st.sampled_from(["s3:*", "s3:GetObject", "s3:PutObject", "s3:Get*"]),
        "Resource": st.sampled_from(["*", "arn:aws:s3:::box/a*", "arn:aws:s3:::box/b*"]),
    }
)


@given(
    st.lists(STATEMENTS, min_size=1, max_size=6),
    st.sampled_from([RED, BLUE, NOBODY]),
    st.sampled_from(["s3:getobject", "s3:putobject", "s3:getobjectversion"]),
    st.sampled_from(["a", "ab", "b", "c"]),
    st.randoms(),
)
def test_statements_count_as_the_model_says(
    statements: list[dict[str, Any]], client: Client, action: str, key: str, random: Any
) -> None:
    def counts(statement: dict[str, Any]) -> bool:
        principal, resource = statement["Principal"], statement["Resource"]
        pattern = statement["Action"].lower()
        is_action = pattern == action or (pattern[-1] == "*" and action.startswith(pattern[:-1]))
        is_client = principal == "*" or principal["AWS"] == client.account
        is_resource = resource == "*" or key.startswith(resource[-2])
        return is_action and is_client and is_resource

    effects = {statement["Effect"] for statement in statements if counts(statement)}
    expected = (
        Decision.DENY
        if "Deny" in effects
        else Decision.ALLOW
        if "Allow" in effects
        else Decision.NONE
    )
    random.shuffle(statements)
    assert decide(policy_of(*statements), client, action, key) is expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["*", "s3:*"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*ALLOW, "Condition", "StringEquals", "s3:prefix", "AWS"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_nonsense_is_refused_and_nothing_else_happens(statement: Any) -> None:
    text = json.dumps({"Version": "2012-10-17", "Statement": statement}).encode()
    with contextlib.suppress(PolicyError):
        parse_policy(text, "box")
