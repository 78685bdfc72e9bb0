"""Container and account ACLs: validation and meaning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.words.names import str_to_wsgi
from proxy.middleware.auth.acl import (
    AccountAcl,
    ContainerAcl,
    check_account_acl,
    clean_acl,
    parse_account_acl,
    parse_acl,
    referrer_allowed,
)


def format_acl(acl: ContainerAcl) -> str:
    """Return the text of an ACL; commas in group names are percent-encoded."""
    groups = [g.replace("%", "%25").replace(",", "%2C") for g in sorted(acl.groups)]
    return ",".join([*(f".r:{r}" for r in acl.referrers), *groups])


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ("", ""),
        (" , ,", ""),
        ("bob, sue", "bob,sue"),
        ("bob , sue,,", "bob,sue"),
        ("bob,,,sue", "bob,sue"),
        ("acct:user , acct2", "acct:user,acct2"),
        (".r:*", ".r:*"),
        (".referrer : *", ".r:*"),
        (".referer:*", ".r:*"),
        (".ref:*.example.com", ".r:.example.com"),
        (".r: - *.example.com", ".r:-.example.com"),
        (".r:-*", ".r:-*"),
        (".r:*, .rlistings", ".r:*,.rlistings"),
        (".rlistings", ".rlistings"),
        ("*:user,acct:*", "*:user,acct:*"),
        (":odd", ":odd"),
    ],
)
def test_clean_acl(value: str, cleaned: str) -> None:
    assert clean_acl("X-Container-Read", value) == cleaned
    assert clean_acl("X-Container-Read", cleaned) == cleaned


@pytest.mark.parametrize(
    ("header", "value", "reason"),
    [
        ("X-Container-Read", ".r:", "No host"),
        ("X-Container-Read", ".r:-", "No host"),
        ("X-Container-Read", ".r:.", "No host"),
        ("X-Container-Read", ".r:*.", "No host"),
        ("X-Container-Read", ".r:- ", "No host"),
        ("X-Container-Read", ".x:*", "Unknown designator"),
        ("X-Container-Read", "ok,.unknown:a", "Unknown designator"),
        ("X-Container-Write", ".r:*", "not allowed in write"),
        ("x-container-write", "a,.ref:b", "not allowed in write"),
    ],
)
def test_clean_acl_refuses(header: str, value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        clean_acl(header, value)


@pytest.mark.parametrize(
    ("value", "referrers", "groups"),
    [
        (None, (), set()),
        ("", (), set()),
        (".r:*,.rlistings", ("*",), {".rlistings"}),
        ("a,b:c,.r:-x,.r:.y", ("-x", ".y"), {"a", "b:c"}),
        ("a%2Cb,%C3%A9", (), {"a,b", "é"}),
    ],
)
def test_parse_acl(value: str | None, referrers: tuple[str, ...], groups: set[str]) -> None:
    assert parse_acl(value) == ContainerAcl(referrers, frozenset(groups))


group_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=","), min_size=1
).filter(lambda g: g == g.strip() and not g.startswith("."))
hosts = st.from_regex(r"\.?[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)


@given(st.lists(hosts | hosts.map("-{}".format) | st.just("*")), st.frozensets(group_names))
def test_acl_comes_back_from_its_text(referrers: list[str], groups: frozenset[str]) -> None:
    acl = ContainerAcl(tuple(referrers), groups)
    text = format_acl(acl)
    assert parse_acl(text) == acl
    assert parse_acl(clean_acl("X-Container-Read", text)) == acl


@given(st.text())
def test_cleaning_any_text_is_final_or_refused(value: str) -> None:
    try:
        cleaned = clean_acl("X-Container-Read", value)
    except ValueError:
        return
    assert clean_acl("X-Container-Read", cleaned) == cleaned
    parse_acl(cleaned)


@pytest.mark.parametrize(
    ("rules", "referrer", "is_allowed"),
    [
        ((), "http://a.com/", False),
        (("*",), None, True),
        (("*",), "http://a.com/", True),
        (("a.com",), "http://a.com/x", True),
        (("a.com",), "https://a.com:8080/x", True),
        (("a.com",), "http://A.com/", True),
        (("a.com",), "http://www.a.com/", False),
        (("a.com",), None, False),
        ((".a.com",), "http://www.a.com/", True),
        ((".a.com",), "http://a.com/", False),
        (("*", "-a.com"), "http://a.com/", False),
        (("*", "-a.com"), "http://b.com/", True),
        (("-a.com", "*"), "http://a.com/", True),
        (("*", "-.a.com", "www.a.com"), "http://www.a.com/", True),
        (("*", "-.a.com"), "http://www.a.com/", False),
        (("*", "-*"), "http://a.com/", False),
        (("unknown",), None, True),
        (("*", "-unknown"), "http://[half/", False),
        (("*",), "http://[half/", True),
    ],
)
def test_referrers(rules: tuple[str, ...], referrer: str | None, is_allowed: bool) -> None:
    assert referrer_allowed(referrer, rules) is is_allowed


@given(st.text(), st.lists(hosts))
def test_no_referrer_breaks_it(referrer: str, rules: list[str]) -> None:
    referrer_allowed(referrer, tuple(rules))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("", ""),
        ("{}", "{}"),
        ('{"read-only": ["b", "a"], "admin": []}', '{"admin":[],"read-only":["b","a"]}'),
        ('{"read-write":["é"]}', '{"read-write":["\\u00e9"]}'),
    ],
)
def test_account_acl_is_stored_as_ascii(value: str, stored: str) -> None:
    assert check_account_acl(value) == stored
    assert check_account_acl(stored) == stored


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{", "Syntax error"),
        ("[]", "Syntax error"),
        ("null", "Syntax error"),
        ('"x"', "Syntax error"),
        ("[" * 100_000, "Syntax error"),
        ('{"other": []}', 'Key "other" not recognized'),
        ('{"admin": "x"}', 'Value for key "admin" must be a list'),
        ('{"admin": {"x": 1}}', "must be a list"),
        ('{"read-only": ["x", 1]}', 'Elements of "read-only" list must be strings'),
    ],
)
def test_bad_account_acl_is_refused(value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_account_acl(value)


@pytest.mark.parametrize("stored", [None, "", "{}", '{"admin":[]}', "{damaged", "7", '{"x":["a"]}'])
def test_nothing_and_damage_admit_nobody(stored: str | None) -> None:
    assert parse_account_acl(stored) is None


@given(
    st.fixed_dictionaries(
        {}, optional={k: st.lists(st.text()) for k in ("admin", "read-write", "read-only")}
    )
)
def test_account_acl_comes_back(acl: dict[str, list[str]]) -> None:
    parsed = parse_account_acl(check_account_acl(json.dumps(acl)))
    if not any(acl.values()):
        assert parsed is None
        return
    expected = [frozenset(acl.get(k, [])) for k in ("admin", "read-write", "read-only")]
    assert parsed == AccountAcl(*expected)


@pytest.mark.parametrize("name", ["voilà", "\u3705", "\u8505 x"])
def test_names_keep_their_last_byte(name: str) -> None:
    """A byte of a character may look like white space."""
    wsgi = str_to_wsgi(name)
    cleaned = clean_acl("X-Container-Read", f" AUTH_{wsgi}\t, .r:-{wsgi} ,{wsgi}:{wsgi}")
    assert cleaned == f"AUTH_{wsgi},.r:-{wsgi},{wsgi}:{wsgi}"
