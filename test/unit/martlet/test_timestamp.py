"""Timestamps keep Swift's text forms and one total order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.words.timestamp import MAX_OFFSET, MAX_TICKS, Timestamp

stamps = st.builds(
    Timestamp.from_ticks, st.integers(0, MAX_TICKS), st.sampled_from([0, 1, 2, 255, MAX_OFFSET])
)


@given(stamps)
def test_internal_form_round_trips(stamp: Timestamp) -> None:
    assert Timestamp(stamp.internal) == stamp
    assert Timestamp(stamp.internal).internal == stamp.internal


@given(stamps, stamps)
def test_text_order_is_time_order(a: Timestamp, b: Timestamp) -> None:
    assert (a < b) == (a.internal < b.internal)
    assert (a == b) == (a.internal == b.internal)


@pytest.mark.parametrize(
    ("value", "internal"),
    [
        ("1795223541.91251", "1795223541.91251"),
        ("1795223541.91251_0000000000000003", "1795223541.91251_0000000000000003"),
        ("1", "0000000001.00000"),
        (1.5, "0000000001.50000"),
        ("0000000001.123456", "0000000001.12346"),
        (0, "0000000000.00000"),
    ],
)
def test_accepted_forms(value: str | float, internal: str) -> None:
    assert Timestamp(value).internal == internal


@pytest.mark.parametrize(
    "value", ["", "abc", "-1", "1.2.3", "1_", "1_zz", "nan", "inf", "99999999999", " 1", "1\n", "١"]
)
def test_refused_forms(value: str) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        Timestamp(value)


def test_is_immutable() -> None:
    with pytest.raises(AttributeError):
        Timestamp(1).ticks = 2


def test_isoformat_and_ceil() -> None:
    stamp = Timestamp("0000000001.50000")
    assert stamp.isoformat == "1970-01-01T00:00:01.500000"
    assert (stamp.ceil(), Timestamp("2").ceil()) == (2, 2)
