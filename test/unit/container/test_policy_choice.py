"""Which policy wins is what OpenStack Swift chooses, whoever answers first."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from swift.container.reconciler import cmp_policy_info

from container.policy_choice import Claim, claim_of, prefers, winning_policy
from martlet.words.timestamp import Timestamp

TIMES = st.integers(0, 7).map(Timestamp)
CLAIMS = st.builds(Claim, st.integers(0, 3), TIMES, TIMES, TIMES, st.integers(0, 1))


def claim(policy: int, put: float, deleted: float = 0, changed: float = 0, count: int = 0) -> Claim:
    times = map(Timestamp, (put, deleted, changed or put))
    return Claim(policy, *times, count)


def as_swift(one: Claim) -> dict[str, object]:
    return {
        "storage_policy_index": one.policy_index,
        "put_timestamp": one.put_timestamp.internal,
        "delete_timestamp": one.delete_timestamp.internal,
        "status_changed_at": one.status_changed_at.internal,
        "object_count": one.object_count,
    }


@settings(max_examples=1500)
@given(CLAIMS, CLAIMS)
def test_two_claims_are_compared_as_openstack_swift_does(one: Claim, other: Claim) -> None:
    assert prefers(one, other) == cmp_policy_info(as_swift(one), as_swift(other))


@example(  # no two of them are equal, but two changed at the same time
    [
        claim(1, 7, deleted=3, changed=2),
        claim(1, 6, deleted=2, changed=3, count=1),
        claim(0, 5, deleted=1, changed=1),
        claim(0, 2, deleted=1, changed=1, count=1),
    ]
)
@given(st.lists(CLAIMS, min_size=1, max_size=4))
def test_the_order_of_the_answers_does_not_matter(claims: list[Claim]) -> None:
    chosen = {winning_policy(order) for order in itertools.permutations(claims)}
    assert len(chosen) == 1


@pytest.mark.parametrize(
    ("claims", "policy"),
    [
        ([claim(1, 5), claim(0, 6), claim(0, 6)], 1),  # the first that was made
        ([claim(1, 5, deleted=6), claim(0, 7)], 0),  # it lives
        ([claim(1, 5, deleted=6), claim(0, 4, deleted=5, changed=7)], 0),  # deleted last
        ([claim(1, 9, deleted=8, changed=9), claim(0, 2)], 1),  # made again
        ([claim(1, 9, deleted=8, changed=9), claim(0, 5, deleted=4, changed=5)], 1),
        ([claim(1, 5, deleted=6, count=1), claim(0, 7)], 1),  # what holds objects is not deleted
        ([claim(2, 5), claim(0, 0)], 2),  # who never heard of it says nothing
        ([claim(0, 0)], None),
        ([], None),
    ],
)
def test_which_policy_wins(claims: list[Claim], policy: int | None) -> None:
    assert winning_policy(claims) == policy


def test_a_claim_is_read_from_headers() -> None:
    headers = {
        "x-backend-storage-policy-index": "1",
        "x-backend-put-timestamp": "0000000005.00000",
        "x-backend-delete-timestamp": "0000000004.00000",
        "x-backend-status-changed-at": "0000000005.00000",
        "x-container-object-count": "3",
    }
    assert claim_of(headers) == claim(1, 5, 4, 5, 3)
    for name in ("x-backend-put-timestamp", "x-backend-storage-policy-index"):
        with pytest.raises(ValueError, match=r"lacks|invalid"):
            claim_of({key: value for key, value in headers.items() if key != name})
