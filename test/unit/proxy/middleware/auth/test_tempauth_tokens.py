"""Tokens: only an issued text is valid, and only while the user's key is unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.middleware.auth.tempauth_tokens import TokenContents, TokenSigner

SIGNER = TokenSigner(b"secret", "AUTH_")
KEYS = {"test:tester": "testing", "é:ü": "ключ", "a:b": "x"}
EXPIRES = 2_000_000_000


def read(token: str, keys: dict[str, str] = KEYS, signer: TokenSigner = SIGNER) -> object:
    return signer.read(token, keys.get)


users = st.sampled_from(sorted(KEYS))


@given(users, st.integers(0, 2**40 - 1))
def test_token_says_what_was_signed(user: str, expires: int) -> None:
    token = SIGNER.issue(user, KEYS[user], expires)
    assert token.startswith("AUTH_tk")
    assert token.isascii()
    assert read(token) == TokenContents(user, expires)


@given(users, st.integers(min_value=0), st.integers(0, 7))
def test_any_flipped_bit_is_refused(user: str, place: int, bit: int) -> None:
    token = SIGNER.issue(user, KEYS[user], EXPIRES)
    place %= len(token)
    forged = token[:place] + chr(ord(token[place]) ^ 1 << bit) + token[place + 1 :]
    assert read(forged) is None


def test_every_single_flipped_bit_is_refused() -> None:
    for user in KEYS:  # three lengths, for each padding of base64
        token = SIGNER.issue(user, KEYS[user], EXPIRES)
        for place, character in enumerate(token):
            for bit in range(8):
                forged = token[:place] + chr(ord(character) ^ 1 << bit) + token[place + 1 :]
                assert read(forged) is None, (place, bit)


@given(users, st.text(max_size=5), st.integers(min_value=0))
def test_nothing_may_be_added_or_taken_away(user: str, extra: str, place: int) -> None:
    token = SIGNER.issue(user, KEYS[user], EXPIRES)
    place %= len(token) + 1
    if extra:
        assert read(token[:place] + extra + token[place:]) is None
    assert read(token[:place]) == (TokenContents(user, EXPIRES) if place == len(token) else None)


@given(st.text() | st.text("ABCabc012-_=", min_size=1).map("AUTH_tk{}".format))
def test_no_text_breaks_it(text: str) -> None:
    assert read(text) is None


def test_other_base64_texts_of_the_same_bytes_are_refused() -> None:
    token = SIGNER.issue("a:b", "x", EXPIRES)
    for other in (token + "=", token + "==", token + "\n", token.replace("AUTH_tk", "AUTH_tk\n")):
        assert read(other) is None


def test_new_key_voids_the_users_tokens_and_no_others() -> None:
    mine = SIGNER.issue("test:tester", "testing", EXPIRES)
    others = SIGNER.issue("a:b", "x", EXPIRES)
    changed = {**KEYS, "test:tester": "new"}
    assert read(mine, changed) is None
    assert read(others, changed) == TokenContents("a:b", EXPIRES)
    assert read(mine, {"a:b": "x"}) is None  # the user no longer exists


def test_other_secret_or_prefix_is_refused() -> None:
    token = SIGNER.issue("a:b", "x", EXPIRES)
    assert read(token, signer=TokenSigner(b"other", "AUTH_")) is None
    assert read(token, signer=TokenSigner(b"secret", "OTHER_")) is None


def test_endless_text_is_not_decoded() -> None:
    assert read("AUTH_tk" + "A" * 10_000_000) is None
