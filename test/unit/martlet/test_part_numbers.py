"""The numbers of parts as a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.words.part_numbers import TEXT_BYTES_MAX, has_number, text_of_numbers


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([7], "7"), ([1, 2], "1-2"), ([1, 2, 3, 7, 9, 10], "1-3,7,9-10")],
)
def test_runs(numbers: list[int], text: str) -> None:
    assert text_of_numbers(numbers) == text


def test_ten_thousand_parts_are_short_unless_they_have_many_gaps() -> None:
    assert text_of_numbers(range(1, 10_001)) == "1-10000"
    assert text_of_numbers(range(1, 10_001, 2)) == ""


@given(st.sets(st.integers(1, 300), min_size=1))
def test_the_text_names_the_numbers(numbers: set[int]) -> None:
    text = text_of_numbers(sorted(numbers))
    assert len(text) <= TEXT_BYTES_MAX
    if text:
        assert {n for n in range(302) if has_number(text, n)} == numbers


@pytest.mark.parametrize("text", ["", "1-", "-1", "1,,2", "a", " 1", "1-2-3", "\u0661", "9" * 10])
def test_a_malformed_text_names_each(text: str) -> None:
    assert has_number(text, 5)
