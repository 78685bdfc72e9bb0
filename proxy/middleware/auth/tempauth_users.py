# SPDX-License-Identifier: Apache-2.0
"""tempauth's users and reseller prefixes, from its section of the configuration."""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import unquote

from martlet.conf.options import ConfigError
from martlet.words.names import quote_path

ADMIN = ".admin"
RESELLER_ADMIN = ".reseller_admin"
RESELLER_READER = ".reseller_reader"
USER_OPTION_PREFIXES = ("user_", "user64_")
_REQUIRE_GROUP = "require_group"


@dataclass(frozen=True, slots=True)
class User:
    """One ``user_<account>_<name> = <key> [group ...] [url]`` option."""

    account: str
    name: str
    key: str = field(repr=False)
    url: str
    #: The groups as REMOTE_USER carries them: account, account:name, then the others.
    groups: tuple[str, ...]

    @property
    def id(self) -> str:
        """``account:name``."""
        return f"{self.account}:{self.name}"

    @property
    def storage_account(self) -> str:
        """The account in the storage URL."""
        return unquote(self.url.rsplit("/", 1)[-1])

    def has_key(self, key: str) -> bool:
        """Whether ``key`` is the user's key, compared in constant time."""
        return hmac.compare_digest(_digest(key), _digest(self.key))


def _digest(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Resellers:
    """The account prefixes this filter is responsible for, each with the group it requires."""

    #: With their underscores; the first is the prefix of tokens and of users' own accounts.
    prefixes: tuple[str, ...]
    #: prefix -> group, or an empty text.
    required_groups: Mapping[str, str]

    @property
    def first(self) -> str:
        """The prefix of tokens."""
        return self.prefixes[0]

    def prefix_of(self, account: str) -> str | None:
        """Return the longest prefix that matches an account, or None if no prefix matches."""
        return max(filter(account.startswith, self.prefixes), key=len, default=None)

    def is_ordinary(self, account: str) -> bool:
        """Whether resellers may use it: it is neither a bare prefix nor a hidden (dot) account."""
        prefix = self.prefix_of(account)
        return (
            prefix is not None
            and account not in self.prefixes
            and not account[len(prefix) :].startswith(".")
        )

    @classmethod
    def from_options(cls, prefix_list: str, values: Mapping[str, str]) -> Resellers:
        """Read ``reseller_prefix`` and the ``[PREFIX_]require_group`` options."""
        words = [word.strip() for word in prefix_list.split(",") if word.strip()]
        prefixes: list[str] = []
        for word in words or ["''"]:
            prefix = "" if word == "''" else word.removesuffix("_") + "_"
            if prefix not in prefixes:
                prefixes.append(prefix)
        common = values.get(_REQUIRE_GROUP, "").strip()
        required = {p: values.get(_group_option(p), "").strip() or common for p in prefixes}
        return cls(tuple(prefixes), required)

    @property
    def option_names(self) -> frozenset[str]:
        """The names of all possible ``require_group`` options."""
        return frozenset({_REQUIRE_GROUP, *(_group_option(p) for p in self.prefixes)})


def _group_option(prefix: str) -> str:
    quoted = prefix or "''"
    return f"{quoted}{_REQUIRE_GROUP}"


def read_users(values: Mapping[str, str], resellers: Resellers, where: str) -> dict[str, User]:
    """Return all users among the options ``values``, by id.

    :raises ConfigError: a user option is invalid, or a user is defined twice.
    """
    users: dict[str, User] = {}
    for option_name, text in values.items():
        if not option_name.startswith(USER_OPTION_PREFIXES):
            continue
        try:
            user = _read_user(option_name, text, resellers)
            if user.id in users:
                raise ValueError(f"user {user.id} is defined twice")
        except ValueError as error:
            raise ConfigError(f"{where}: {option_name}: {error}") from None
        users[user.id] = user
    return users


def _read_user(option_name: str, text: str, resellers: Resellers) -> User:
    kind, _, names = option_name.partition("_")
    account, underscore, name = names.partition("_")
    if not (account and underscore and name) or "_" in name:
        raise ValueError(
            f"expected {kind}_<account>_<user>; names with an underscore go into user64_, in base64"
        )
    if kind == "user64":
        account, name = _from_base64(account), _from_base64(name)
    words = text.split()
    if not words:
        raise ValueError("no key set; expected <key> [group ...] [storage_url]")
    key, *groups = words
    url = f"$HOST/v1/{resellers.first}{quote_path(account)}"
    if groups and ("://" in groups[-1] or "$HOST" in groups[-1]):
        url = groups.pop()
    if set(account + name) & set(",:*"):
        # REMOTE_USER is a list with commas, and account:user and * have a meaning in ACLs. Such a
        # name could claim any group.
        raise ValueError("account and user may not contain a comma, a colon or an asterisk")
    if any("," in group for group in groups):
        raise ValueError("groups are separated by spaces")
    return User(account, name, key, url, tuple(_all_groups(account, name, groups, url, resellers)))


def _from_base64(text: str) -> str:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True).decode("utf-8")
    except ValueError:
        raise ValueError("account and user must be base64 of UTF-8 text, without '='") from None


def _all_groups(
    account: str, name: str, groups: Iterable[str], url: str, resellers: Resellers
) -> list[str]:
    """Return all groups of a user; ``.admin`` adds the user's account under each prefix."""
    given = list(groups)
    result = [account, f"{account}:{name}", *(g for g in given if g != ADMIN)]
    if ADMIN in given:
        own = [f"{prefix}{account}" for prefix in resellers.prefixes if prefix]
        result += [*own, unquote(url.rsplit("/", 1)[-1])]
    return list(dict.fromkeys(result))
