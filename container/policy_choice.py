# SPDX-License-Identifier: Apache-2.0
"""The choice of a container's storage policy when its replicas do not agree.

A container may be created on both sides of a split network, or again while a replica is down. Then
its replicas may have different policies. All programs must choose the same one. The rules are
OpenStack Swift's, so that its replicators and ours agree:

- an existing container wins over a deleted one; of two deleted ones the later status change wins;
- a container that was deleted and created again wins over one that never was; of two such
  containers the one wins that was deleted after the other had been put;
- otherwise the earlier status change wins, because that container has received more objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from martlet.words.timestamp import Timestamp

_NEVER = Timestamp(0)


@dataclass(frozen=True, slots=True)
class Claim:
    """The state of a container in one replica."""

    policy_index: int
    put_timestamp: Timestamp
    delete_timestamp: Timestamp
    status_changed_at: Timestamp
    object_count: int

    @property
    def is_blank(self) -> bool:
        """Whether the replica has no knowledge of the container."""
        return not (self.put_timestamp or self.delete_timestamp or self.status_changed_at)

    @property
    def is_deleted(self) -> bool:
        """Whether the DELETE is later than the PUT and the container is empty."""
        return self.delete_timestamp > self.put_timestamp and not self.object_count

    @property
    def was_made_again(self) -> bool:
        """Whether the container was created again after a DELETE."""
        return self.put_timestamp > self.delete_timestamp > _NEVER


def claim_of(headers: Mapping[str, str]) -> Claim:
    """Parse the answer to a HEAD, 2xx or 404; ``headers`` has lower-case names.

    :raises ValueError: the headers are not those of a container server.
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
    """Return a number below 0 if ``one`` wins, above 0 if ``other`` wins, 0 if they are equal."""
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


def chooses(own: Claim, other: Claim) -> bool:
    """Whether the policy of ``other`` replaces that of ``own``."""
    if other.is_blank or own.is_blank:
        return own.is_blank
    order = prefers(own, other)
    return order > 0 or (order == 0 and other.policy_index < own.policy_index)


def winning_policy(claims: Iterable[Claim]) -> int | None:
    """The policy of the container; None if no replica knows it.

    A replica without knowledge of the container does not count. (In OpenStack Swift it counts as
    policy 0.)
    """
    # Sorted by all fields: the preference is not transitive, so the order may decide.
    ordered = sorted(
        (claim for claim in claims if not claim.is_blank),
        key=lambda claim: (
            claim.status_changed_at,
            claim.policy_index,
            claim.put_timestamp,
            claim.delete_timestamp,
            claim.object_count,
        ),
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
