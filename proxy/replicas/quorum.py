# SPDX-License-Identifier: Apache-2.0
"""One answer from those of several replicas. Pure functions; the rules are OpenStack Swift's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

_DECIDING_CLASSES = (2, 3, 4)


class Answer(NamedTuple):
    """The answer of one storage server. ``headers`` has lower-case names.

    :param was_resent: the request was sent twice, since the first connection was lost.
    """

    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    was_resent: bool = False


UNAVAILABLE = Answer(503)


def own_write_done(
    answers: Iterable[Answer], timestamp: str, status: int, *, was_sent_before: bool = False
) -> list[Answer]:
    """The answers, with ``status`` in place of each 409 that this write itself caused.

    If a request was sent twice because its first answer got lost, the second one finds its own
    timestamp. If a request that was sent once finds its timestamp, that is another write of the
    same time, so the request did nothing.

    :param was_sent_before: all replicas may have got the write before, by another request.
    """
    return [
        Answer(status, answer.headers, answer.body)
        if answer.status == 409
        and (answer.was_resent or was_sent_before)
        and answer.headers.get("x-backend-timestamp") == timestamp
        else answer
        for answer in answers
    ]


def quorum_size(replicas: int) -> int:
    """The number of replicas that must agree: half of them, rounded up.

    With an even number, half is enough: a cluster of two replicas accepts writes while one of them
    is unavailable.
    """
    return (replicas + 1) // 2


def have_quorum(statuses: Collection[int], replicas: int) -> bool:
    """Whether enough statuses fall into one class (2xx, 3xx or 4xx) to know the outcome."""
    needed = quorum_size(replicas)
    if len(statuses) < needed:
        return False
    counts = [0, 0, 0]
    for status in statuses:
        kind = status // 100
        if kind in _DECIDING_CLASSES:
            counts[kind - 2] += 1
    return max(counts) >= needed


def best_answer(
    answers: Sequence[Answer], quorum: int | None = None, overrides: Mapping[int, int] | None = None
) -> Answer | None:
    """One answer for all, or None if no class of statuses has a quorum.

    It is the answer with the highest status of that class; of equal ones, the first.

    :param quorum: default is the quorum of the number of answers.
    :param overrides: without a quorum, each status that is a key counts as its value. An answer
        whose status was replaced counts for the quorum, but is never the result.
    """
    needed = quorum_size(len(answers)) if quorum is None else quorum
    best = _highest_of_class(answers, [a.status for a in answers], needed, frozenset())
    if best is None and overrides:
        made_up = frozenset(i for i, a in enumerate(answers) if a.status in overrides)
        statuses = [overrides.get(a.status, a.status) for a in answers]
        best = _highest_of_class(answers, statuses, needed, made_up)
    return best


def _highest_of_class(
    answers: Sequence[Answer], statuses: Sequence[int], needed: int, made_up: frozenset[int]
) -> Answer | None:
    if len(set(statuses)) == 1 and not made_up and len(answers) >= needed:
        return answers[0] if statuses[0] // 100 in _DECIDING_CLASSES else None  # nearly always
    for kind in _DECIDING_CLASSES:
        of_kind = [i for i, status in enumerate(statuses) if status // 100 == kind]
        real = [i for i in of_kind if i not in made_up]
        if len(of_kind) >= needed and real:
            return answers[max(real, key=lambda i: (statuses[i], -i))]
    return None
