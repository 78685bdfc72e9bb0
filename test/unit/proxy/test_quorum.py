"""The rules by which several answers become one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.replicas.quorum import (
    Answer,
    best_answer,
    have_quorum,
    quorum_size,
)

STATUSES = st.lists(st.sampled_from([200, 201, 202, 204, 304, 400, 404, 409, 500, 503]), max_size=7)


def answers(*statuses: int) -> list[Answer]:
    return [Answer(status) for status in statuses]


@pytest.mark.parametrize(("replicas", "quorum"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_quorum_size(replicas: int, quorum: int) -> None:
    assert quorum_size(replicas) == quorum


@pytest.mark.parametrize(
    ("statuses", "best"),
    [
        ([201, 201, 201], 201),
        ([201, 201, 503], 201),
        ([201, 503, 503], None),
        ([201, 404, 503], None),
        ([201, 202, 503], 202),
        ([404, 404, 201], 404),
        ([404, 409, 201], 409),
        ([503, 503, 503], None),
        ([204, 404], 204),
        ([], None),
    ],
)
def test_best_answer(statuses: list[int], best: int | None) -> None:
    found = best_answer(answers(*statuses))
    assert (found and found.status) == best


@pytest.mark.parametrize(
    ("statuses", "best"),
    [
        ([204, 404, 503], 204),
        ([404, 404, 503], 404),  # a quorum of its own needs no override
        ([404, 503, 503], None),
        ([404, 204, 404], 404),
    ],
)
def test_overrides_help_a_class_but_are_not_given_back(
    statuses: list[int], best: int | None
) -> None:
    found = best_answer(answers(*statuses), overrides={404: 204})
    assert (found and found.status) == best


@given(STATUSES)
def test_best_answer_has_a_quorum_behind_it(statuses: list[int]) -> None:
    found = best_answer(answers(*statuses))
    if found is None:
        assert not statuses or not have_quorum(statuses, len(statuses))
        return
    like_it = [s for s in statuses if s // 100 == found.status // 100]
    assert found.status < 500
    assert len(like_it) >= quorum_size(len(statuses))
    assert found.status == max(like_it)


@given(STATUSES, st.randoms())
def test_order_does_not_matter(statuses: list[int], random: object) -> None:
    shuffled = list(statuses)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = best_answer(answers(*statuses)), best_answer(answers(*shuffled))
    assert (first and first.status) == (second and second.status)


@given(STATUSES, st.integers(1, 7))
def test_more_answers_never_take_a_quorum_away(statuses: list[int], replicas: int) -> None:
    for count in range(len(statuses)):
        if have_quorum(statuses[:count], replicas):
            assert have_quorum(statuses, replicas)
