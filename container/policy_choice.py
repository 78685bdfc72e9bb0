# SPDX-License-Identifier: Apache-2.0
"""Which storage policy a container has, when its replicas do not agree.

A container that is made on both sides of a split network, or made again while a replica was away,
may have a policy on each side. All who look must choose the same one; the choice is OpenStack
Swift's, so that its replicators and ours agree:

- a container that lives wins over a deleted one; of two deleted the later status change;
- one that was deleted and made again wins over one that never was; of two such, the one that was
  deleted after the other had been put;
- otherwise the earlier status change, for it has had the more objects written to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from martlet.words.timestamp import Timestamp

_NEVER = Timestamp(0)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one replica says of its container."""

    policy_index: int
    put_timestamp: Timestamp
    delete_timestamp: Timestamp
    status_changed_at: Timestamp
    object_count: int

    @property
    def is_blank(self) -> bool:
        """The replica has never heard of the container."""
        return not (self.put_timestamp or self.delete_timestamp or self.status_changed_at)

    @property
    def is_deleted(self) -> bool:
        """Deleted after it was put, and empty."""
        return self.delete_timestamp > self.put_timestamp and not self.object_count

    @property
    def was_made_again(self) -> bool:
        """Put after it was deleted."""
        return self.put_timestamp > self.delete_timestamp > _NEVER


def claim_of(headers: Mapping[str, str]) -> Claim:
    """The claim in the answer to a HEAD, 2xx or 404; ``headers`` has lower-case names.

    :raises ValueError: the headers are none of a container server.
    """
    try:
        return Claim(
            int(headers["x-backend-storage-policy-index"]),
            Timestamp(headers["x-backend-put-timestamp"]),
            Timestamp(headers["x-backend-delete-timestamp"]),
            Timestamp(headers["x-backend-status-changed-at"]),
            int(headers.get("x-container-object-count", "0")),
        )
    except KeyError as error:
        raise ValueError(f"the answer lacks {error}") from None


def prefers(one: Claim, other: Claim) -> int:
    """Below 0 if ``one`` wins, above 0 if ``other`` does, 0 if they are alike."""
    if one.is_deleted != other.is_deleted:
        return 1 if one.is_deleted else -1
    later = _compare(one.status_changed_at, other.status_changed_at)
    if one.is_deleted:
        return -later
    if one.was_made_again != other.was_made_again:
        return -1 if one.was_made_again else 1
    if one.was_made_again:
        if one.put_timestamp < other.delete_timestamp:
            return 1
        if other.put_timestamp < one.delete_timestamp:
            return -1
    return later


def winning_policy(claims: Iterable[Claim]) -> int | None:
    """The policy of the container; None where no replica knows it.

    A replica that has never heard of it claims nothing. (To OpenStack Swift it claims policy 0.)
    """
    # In an order of their own, so that it does not matter who answered first.
    ordered = sorted(
        (claim for claim in claims if not claim.is_blank),
        key=lambda claim: (claim.status_changed_at, claim.policy_index),
    )
    if not ordered:
        return None
    best = ordered[0]
    for claim in ordered[1:]:
        if prefers(best, claim) > 0:
            best = claim
    return best.policy_index


def _compare(one: Timestamp, other: Timestamp) -> int:
    return (one > other) - (one < other)
