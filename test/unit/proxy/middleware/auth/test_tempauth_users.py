"""tempauth's users and reseller prefixes from the options of its section."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.conf.options import ConfigError
from proxy.middleware.auth.tempauth_users import Resellers, User, read_users

AUTH = Resellers.from_options("AUTH", {})
BOTH = Resellers.from_options("AUTH, SERVICE", {})


def read_one(name: str, value: str, resellers: Resellers = AUTH) -> User:
    (user,) = read_users({name: value, "token_life": "5"}, resellers, "conf").values()
    return user


@pytest.mark.parametrize(
    ("value", "groups", "url"),
    [
        ("pw", ("test", "test:u"), "$HOST/v1/AUTH_test"),
        ("pw .admin", ("test", "test:u", "AUTH_test"), "$HOST/v1/AUTH_test"),
        (
            "pw .admin .reseller_admin",
            ("test", "test:u", ".reseller_admin", "AUTH_test"),
            "$HOST/v1/AUTH_test",
        ),
        ("pw service", ("test", "test:u", "service"), "$HOST/v1/AUTH_test"),
        (
            "pw .admin https://h/v1/AUTH_x%20y",
            ("test", "test:u", "AUTH_test", "AUTH_x y"),
            "https://h/v1/AUTH_x%20y",
        ),
        ("pw g $HOST/v1/AUTH_z", ("test", "test:u", "g"), "$HOST/v1/AUTH_z"),
    ],
)
def test_key_groups_and_url(value: str, groups: tuple[str, ...], url: str) -> None:
    user = read_one("user_test_u", value)
    assert (user.id, user.key, user.groups, user.url) == ("test:u", "pw", groups, url)


def test_admin_owns_the_account_under_each_prefix() -> None:
    user = read_one("user_test_u", "pw .admin", BOTH)
    assert user.groups == ("test", "test:u", "AUTH_test", "SERVICE_test")


def test_empty_prefix() -> None:
    user = read_one("user_test_u", "pw .admin", Resellers.from_options("'', OTHER", {}))
    assert (user.url, user.groups) == ("$HOST/v1/test", ("test", "test:u", "OTHER_test"))


def base64(text: str) -> str:
    return b64encode(text.encode()).decode().rstrip("=")


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",:*"), min_size=1)


@given(names, names)
def test_base64_names(account: str, name: str) -> None:
    user = read_one(f"user64_{base64(account)}_{base64(name)}", "pw .admin")
    assert (user.account, user.name) == (account, name)
    assert f"AUTH_{account}" in user.groups


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("user_test", "pw", "expected user_<account>_<user>"),
        ("user_", "pw", "expected user_<account>_<user>"),
        ("user_a_", "pw", "expected user_<account>_<user>"),
        ("user__b", "pw", "expected user_<account>_<user>"),
        ("user_a_b_c", "pw", "underscore go into user64_"),
        ("user_a_b", "", "no key set"),
        ("user_a_b", "   ", "no key set"),
        ("user_a_b,c", "pw", "comma"),
        ("user_a:b_c", "pw", "colon"),
        ("user_*_c", "pw", "asterisk"),
        ("user_a_b", "pw g,.admin", "separated by spaces"),
        (f"user64_{base64('a,b')}_{base64('c')}", "pw", "comma"),
        ("user64_!!!_YQ", "pw", "base64"),
        ("user64_YQ_/w", "pw", "base64 of UTF-8"),
    ],
)
def test_bad_users_are_refused(option: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        read_users({option: value}, AUTH, "proxy.conf [filter:tempauth]")
    assert str(caught.value).startswith(f"proxy.conf [filter:tempauth]: {option}: ")
    assert "pw" not in str(caught.value)


def test_user_named_twice_is_refused() -> None:
    options = {"user_a_b": "x", f"user64_{base64('a')}_{base64('b')}": "y"}
    with pytest.raises(ConfigError, match="a:b is defined twice"):
        read_users(options, AUTH, "conf")


def test_key_is_not_shown() -> None:
    assert "hunter2" not in repr(read_one("user_a_b", "hunter2"))


@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        ("AUTH", ("AUTH_",)),
        ("AUTH_", ("AUTH_",)),
        ("AUTH__", ("AUTH__",)),
        ("AUTH, SERVICE,AUTH", ("AUTH_", "SERVICE_")),
        ("'', SERVICE", ("", "SERVICE_")),
        ("", ("",)),
    ],
)
def test_prefix_list(text: str, prefixes: tuple[str, ...]) -> None:
    assert Resellers.from_options(text, {}).prefixes == prefixes


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({}, {"": "", "SERVICE_": ""}),
        ({"require_group": "g"}, {"": "g", "SERVICE_": "g"}),
        ({"SERVICE_require_group": ".service"}, {"": "", "SERVICE_": ".service"}),
        (
            {"require_group": "g", "''require_group": "e", "SERVICE_require_group": ""},
            {"": "e", "SERVICE_": "g"},
        ),
    ],
)
def test_required_groups(options: dict[str, str], groups: dict[str, str]) -> None:
    resellers = Resellers.from_options("'', SERVICE", options)
    assert resellers.required_groups == groups
    assert set(options) <= resellers.option_names


@pytest.mark.parametrize(
    ("account", "prefix", "is_ordinary"),
    [
        ("AUTH_test", "AUTH_", True),
        ("SERVICE_test", "SERVICE_", True),
        ("AUTH_", "AUTH_", False),
        ("AUTH_.hidden", "AUTH_", False),
        ("test", None, False),
        ("", None, False),
        ("AUTHtest", None, False),
    ],
)
def test_accounts_and_their_prefixes(account: str, prefix: str | None, is_ordinary: bool) -> None:
    assert BOTH.prefix_of(account) == prefix
    assert BOTH.is_ordinary(account) is is_ordinary


@pytest.mark.parametrize("text", ["AUTH, '', AUTH_S", "'', AUTH_S, AUTH"])
def test_the_longest_prefix_counts(text: str) -> None:
    resellers = Resellers.from_options(text, {})
    accounts = ("AUTH_S_p", "AUTH_p", "p")
    assert [resellers.prefix_of(account) for account in accounts] == ["AUTH_S_", "AUTH_", ""]


@pytest.mark.parametrize(
    ("key", "is_right"), [("testing", True), ("Testing", False), ("testing ", False), ("", False)]
)
def test_has_key(key: str, is_right: bool) -> None:
    assert read_one("user_a_b", "testing").has_key(key) is is_right
