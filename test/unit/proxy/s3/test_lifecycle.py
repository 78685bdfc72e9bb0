"""Lifecycle rules: what is refused, what comes back, and when a rule expires an object."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.lifecycle import (
    DAY,
    Facts,
    Rule,
    document_of,
    due_after,
    expiry_of,
    rules_of,
)
from proxy.s3.wire.lifecycle_xml import RULES_MAX, rules_of_xml, xml_of_rules

CASES = json.loads((Path(__file__).parents[3] / "golden" / "s3-lifecycle.json").read_text())
CURRENT = [c for c in CASES if c["object"]["state"] == "current" and c["day"] == DAY]

_TEXT = st.text(st.sampled_from("ab/-ü漢 +"), max_size=6)
_NUMBERS = st.none() | st.integers(1, 5)


@st.composite
def _rules(draw: st.DrawFn) -> list[Rule]:
    """Rules as the XML can state them."""
    form = draw(st.sampled_from(["Prefix", "Filter", "And"]))
    is_old = form == "Prefix"
    count = draw(st.integers(1, 4))
    return [
        _rule(draw, f"rule {i}", "Prefix" if is_old else draw(st.sampled_from(["Filter", "And"])))
        for i in range(count)
    ]


def _rule(draw: st.DrawFn, rule_id: str, form: str) -> Rule:
    fields: dict[str, Any] = {}
    tags = st.dictionaries(st.text("abü", min_size=1, max_size=3), _TEXT, min_size=2, max_size=3)
    if form == "And":
        fields = {"prefix": draw(_TEXT), "tags": tuple(draw(tags).items())}
    elif form == "Prefix":
        fields = {"prefix": draw(_TEXT)}
    else:
        choices = [
            {"prefix": draw(_TEXT)},
            {"tags": (("a", draw(_TEXT)),)},
            {"larger_than": draw(st.integers(0, 9))},
            {"smaller_than": draw(st.integers(1, 9))},
        ]
        fields = draw(st.sampled_from(choices))
    actions: list[dict[str, Any]] = [
        {"days": draw(st.integers(1, 4))},
        {"date": draw(st.integers(0, 30)) * DAY},
        {"noncurrent_days": draw(st.integers(1, 4)), "newer_versions": draw(_NUMBERS)},
        {"newer_versions": draw(st.integers(1, 100))},
    ]
    if "tags" not in fields and not {"larger_than", "smaller_than"} & fields.keys():
        actions += [
            {"abort_days": draw(st.integers(1, 4))},
            {"delete_markers": draw(st.booleans())},
        ]
    return Rule(rule_id, draw(st.booleans()), form, **fields, **draw(st.sampled_from(actions)))


@given(_rules())
def test_rules_come_back(rules: list[Rule]) -> None:
    assert rules_of_xml(xml_of_rules(rules)) == rules
    document = document_of(rules)
    assert rules_of(document) == rules
    assert document_of(rules_of(document)) == document


@given(_rules(), _TEXT, st.integers(0, 9), st.integers(0, 30 * DAY))
def test_expiry_is_the_first_of_the_rules_that_match(
    rules: list[Rule], key: str, size: int, written: int
) -> None:
    facts = Facts(key, size, {"a": "b"}, written)
    found = expiry_of(rules, facts)
    each = [expiry for rule in rules if (expiry := expiry_of([rule], facts)) is not None]
    assert found == min(each, default=None)
    for rule in rules:
        alone = expiry_of([rule], facts)
        if alone is None:
            continue
        assert rule.is_enabled
        assert key.startswith(rule.prefix)
        assert alone.seconds % DAY == 0
        if rule.days is not None:
            assert 0 < alone.seconds - (written + rule.days * DAY) <= DAY


@pytest.mark.parametrize("case", CURRENT, ids=lambda case: str(case["what"]))
def test_cases_of_both_languages(case: dict[str, Any]) -> None:
    rules, stored = rules_of(case["rules"]), case["object"]
    assert document_of(rules) == case["rules"].encode()
    facts = Facts(stored["key"], stored["size"], stored["tags"], stored["written"])
    expiry = expiry_of(rules, facts)
    assert (expiry and expiry.seconds) == case["expiry"]
    is_due = expiry is not None and expiry.seconds <= case["now"]
    assert (case["action"] == "expire") == is_due
    if is_due and expiry is not None:
        assert expiry.rule_id == case["rule"]


def test_midnight_that_follows() -> None:
    at = datetime(2024, 1, 1, 0, 0, tzinfo=UTC).timestamp()
    assert due_after(at, 1) == at + 2 * DAY
    assert due_after(at - 0.5, 1) == at + DAY


def _document(rule: str) -> bytes:
    return f"<LifecycleConfiguration><Rule>{rule}</Rule></LifecycleConfiguration>".encode()


_STATUS = "<Status>Enabled</Status>"
_FILTER = "<Filter><Prefix>a</Prefix></Filter>"
_DAYS = "<Expiration><Days>1</Days></Expiration>"
_TAG = "<Tag><Key>a</Key><Value>1</Value></Tag>"
_ABORT = (
    "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>"
    "</AbortIncompleteMultipartUpload>"
)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (_STATUS + _DAYS, "MalformedXML"),
        (_FILTER + _DAYS, "MalformedXML"),
        (f"<Status>enabled</Status>{_FILTER}{_DAYS}", "MalformedXML"),
        (_STATUS + _FILTER, "InvalidRequest"),
        (f"{_STATUS}{_FILTER}<Prefix/>{_DAYS}", "InvalidRequest"),
        (f"{_STATUS}{_FILTER}{_FILTER}{_DAYS}", "MalformedXML"),
        (f"<ID>{'i' * 256}</ID>{_STATUS}{_FILTER}{_DAYS}", "InvalidArgument"),
        (f"{_STATUS}<Filter><Prefix>a</Prefix>{_TAG}</Filter>{_DAYS}", "MalformedXML"),
        (f"{_STATUS}<Filter><And>{_TAG}</And></Filter>{_DAYS}", "MalformedXML"),
        (f"{_STATUS}<Filter><And>{_TAG}{_TAG}</And></Filter>{_DAYS}", "InvalidRequest"),
        (f"{_STATUS}<Filter><Tag><Key>a</Key></Tag></Filter>{_DAYS}", "MalformedXML"),
        (f"{_STATUS}<Filter><Tag><Key/><Value/></Tag></Filter>{_DAYS}", "InvalidTag"),
        (f"{_STATUS}<Filter><Prefix><x/>logs/</Prefix></Filter>{_DAYS}", "MalformedXML"),
        (f"{_STATUS}<Filter><Prefix>{'p' * 1025}</Prefix></Filter>{_DAYS}", "InvalidRequest"),
        (f"{_STATUS}<Filter><And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>"
         f"5</ObjectSizeLessThan></And></Filter>{_DAYS}", "InvalidRequest"),
        (f"{_STATUS}<Filter><Size>1</Size></Filter>{_DAYS}", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration/>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration><Days>0</Days></Expiration>", "InvalidArgument"),
        (f"{_STATUS}{_FILTER}<Expiration><Days>-1</Days></Expiration>", "InvalidArgument"),
        (f"{_STATUS}{_FILTER}<Expiration><Days>1.5</Days></Expiration>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration><Days>2147483648</Days></Expiration>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration><Days>{'9' * 5000}</Days></Expiration>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration><Date>2024-01-01T00:00:01Z</Date></Expiration>",
         "InvalidArgument"),
        (f"{_STATUS}{_FILTER}<Expiration><Date>soon</Date></Expiration>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration><Date>9999-12-31T23:59:59-23:59</Date></Expiration>",
         "InvalidArgument"),
        (f"{_STATUS}{_FILTER}<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true"
         "</ExpiredObjectDeleteMarker></Expiration>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<Expiration><ExpiredObjectDeleteMarker>yes"
         "</ExpiredObjectDeleteMarker></Expiration>", "MalformedXML"),
        (f"{_STATUS}<Filter>{_TAG}</Filter><Expiration><ExpiredObjectDeleteMarker>true"
         "</ExpiredObjectDeleteMarker></Expiration>", "InvalidRequest"),
        (f"{_STATUS}{_FILTER}<NoncurrentVersionExpiration/>", "MalformedXML"),
        (f"{_STATUS}{_FILTER}<NoncurrentVersionExpiration><NoncurrentDays>0</NoncurrentDays>"
         "</NoncurrentVersionExpiration>", "InvalidArgument"),
        (f"{_STATUS}{_FILTER}<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
         "<NewerNoncurrentVersions>101</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
         "InvalidArgument"),
        (f"{_STATUS}{_FILTER}<AbortIncompleteMultipartUpload/>", "MalformedXML"),
        (f"{_STATUS}<Filter>{_TAG}</Filter>{_ABORT}", "InvalidRequest"),
        (f"{_STATUS}<Filter><ObjectSizeLessThan>9</ObjectSizeLessThan></Filter>{_ABORT}",
         "InvalidRequest"),
        (f"{_STATUS}{_FILTER}<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass>"
         "</Transition>", "NotImplemented"),
        (f"{_STATUS}{_FILTER}<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays>"
         "</NoncurrentVersionTransition>", "NotImplemented"),
        (f"{_STATUS}{_FILTER}{_DAYS}<Other/>", "MalformedXML"),
    ],
)  # fmt: skip
def test_rules_that_are_refused(rule: str, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        rules_of_xml(_document(rule))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "MalformedXML"),
        (b"<LifecycleConfiguration/>", "MalformedXML"),
        (b"<Other/>", "MalformedXML"),
        (b"<LifecycleConfiguration><Other/></LifecycleConfiguration>", "MalformedXML"),
    ],
)
def test_documents_that_are_refused(body: bytes, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        rules_of_xml(body)
    assert caught.value.code == code


def test_ids() -> None:
    rule = f"<Rule>{_STATUS}{_FILTER}{_DAYS}</Rule>"
    many = f"<LifecycleConfiguration>{rule * RULES_MAX}</LifecycleConfiguration>".encode()
    rules = rules_of_xml(many)
    assert len({rule.id for rule in rules}) == RULES_MAX
    assert rules_of_xml(many) == rules
    more = f"<LifecycleConfiguration>{rule * (RULES_MAX + 1)}</LifecycleConfiguration>".encode()
    named = f"<Rule><ID>a</ID>{_STATUS}{_FILTER}{_DAYS}</Rule>"
    twice = f"<LifecycleConfiguration>{named}{named}</LifecycleConfiguration>".encode()
    old = f"<Rule>{_STATUS}<Prefix/>{_DAYS}</Rule>"
    mixed = f"<LifecycleConfiguration>{rule}{old}</LifecycleConfiguration>".encode()
    for body, code in (
        (more, "MalformedXML"),
        (twice, "InvalidArgument"),
        (mixed, "InvalidRequest"),
    ):
        with pytest.raises(S3Error) as caught:
            rules_of_xml(body)
        assert caught.value.code == code


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_document(body: bytes) -> None:
    try:
        rules_of_xml(body)
    except S3Error:
        pass
    try:
        rules_of(body)
    except ValueError:
        pass


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b'{"format":2,"rules":[]}',
        b'{"format":1}',
        b'{"format":1,"rules":[{"id":"a"}]}',
        b'{"format":1,"rules":[{"id":"a","is_enabled":true,"other":1}]}',
        b'{"format":1,"rules":[5]}',
        b'{"format":1,"rules":[{"id":"a","is_enabled":true,"tags":5}]}',
    ],
)
def test_stored_rules_of_another_form(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"the (rules are|format of)"):
        rules_of(document)
