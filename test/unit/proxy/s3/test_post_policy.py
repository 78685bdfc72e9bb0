"""The policy of a form: what its document may say, and which fields it allows."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.post_policy import Policy, policy_of

LATER = "2100-01-01T00:00:00.000Z"
NOW = 1_700_000_000.0


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def policy(*conditions: Any, expiration: Any = LATER) -> Policy:
    return policy_of(encode(json.dumps({"expiration": expiration, "conditions": conditions})))


def refused(fields: dict[str, str], *conditions: Any) -> str:
    with pytest.raises(S3Error) as caught:
        policy(*conditions).check(fields, NOW)
    assert caught.value.code == "AccessDenied"
    return caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 9000,
        '{"expiration": "%s"}'.replace("%s", LATER),
        '{"conditions": []}',
        '{"CONDITIONS": [], "expiration": "%s"}'.replace("%s", LATER),
        '{"expiration": 5, "conditions": []}',
        '{"expiration": "tomorrow", "conditions": []}',
        '{"expiration": "2100-01-01", "conditions": []}',
        '{"expiration": "2100-01-01T00:00:00", "conditions": []}',
        '{"expiration": "%s", "conditions": {}}'.replace("%s", LATER),
    ],
)
def test_documents_that_are_refused(text: str) -> None:
    with pytest.raises(S3Error) as caught:
        policy_of(encode(text))
    assert caught.value.code == "InvalidPolicyDocument"


@pytest.mark.parametrize(
    "condition",
    [
        5,
        [],
        {},
        {"a": "1", "b": "2"},
        {"a": 1},
        ["eq", "$key"],
        ["eq", "key", "x"],
        ["eq", "$key", 1],
        ["ends-with", "$key", "x"],
        [["eq"], "$key", "x"],
        ["content-length-range", 0],
        ["content-length-range", -1, 5],
        ["content-length-range", 0, True],
        ["content-length-range", 0, 1.5],
        ["content-length-range", 0, "many"],
        ["content-length-range", 0, 2**63],
    ],
)
def test_conditions_that_are_refused(condition: Any) -> None:
    with pytest.raises(S3Error) as caught:
        policy(condition)
    assert caught.value.code == "InvalidPolicyDocument"


def test_what_is_not_base64_is_refused() -> None:
    for text in ("!", "\u00fc", encode("x")[:-1]):
        with pytest.raises(S3Error) as caught:
            policy_of(text)
        assert caught.value.code == "InvalidPolicyDocument"


def test_fields_and_their_conditions() -> None:
    both = {"bUcKeT": "b"}, ["Starts-With", "$KEY", "a/"]
    policy(*both).check({"bucket": "b", "key": "a/x", "x-ignore-me": "1", "policy": "p"}, NOW)
    assert "Extra input fields: acl" in refused({"bucket": "b", "key": "a/", "acl": "x"}, *both)
    text = refused({"bucket": "b", "key": "b/x"}, *both)
    assert text == (
        'Invalid according to Policy: Policy Condition failed: ["starts-with", "$key", "a/"]'
    )
    assert "Condition failed" in refused({"bucket": "B", "key": "a/"}, *both)
    assert "Extra input fields: bucket" in refused({"bucket": "b"}, ["starts-with", "$key", ""])
    assert "Policy expired" in _message(policy(expiration="2001-01-01T00:00:00Z"))


def _message(found: Policy) -> str:
    with pytest.raises(S3Error) as caught:
        found.check({}, NOW)
    return caught.value.message


def test_a_dollar_sign_may_be_escaped() -> None:
    start = f'{{"expiration": "{LATER}", "conditions": [["eq", "$key", '
    text = start + r'"\$a\\\$\"\\"]]}'
    assert policy_of(encode(text)).conditions[0].value == '$a\\$"\\'


def test_sizes_may_be_text() -> None:
    assert policy(["content-length-range", "1", 5]).sizes == (1, 5)
    assert policy().sizes == (0, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(JSON, st.lists(JSON, max_size=4))
def test_odd_policies_are_read_or_refused(expiration: Any, conditions: list[Any]) -> None:
    with suppress(S3Error):
        policy(*conditions, expiration=expiration)
    with suppress(S3Error):
        policy(*conditions).check({"key": "k"}, NOW)
