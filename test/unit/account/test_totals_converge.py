"""Every replica of an account comes to the totals of a container, by clocks that differ."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from memory_databases import account_in_memory

from account.record import make_record
from account.replica_rows import Report, merge_report, merge_rows, parse_item, read_rows
from martlet.words.timestamp import Timestamp

REPLICAS = range(3)
_PUT = Timestamp(1)


class Cluster:
    """A container and its account with three replicas each; every host has its own clock."""

    def __init__(self, skews: list[int]) -> None:
        self.time = 1000
        self.skews = skews  # of three container servers and three account servers; seconds
        self.count = 0
        self.known = [0, 0, 0]  # the objects that each replica of the container has
        self.accounts = [account_in_memory() for _ in REPLICAS]

    def tick(self) -> None:
        self.time += 1

    def clock(self, host: int) -> Timestamp:
        return Timestamp(self.time + self.skews[host])

    def report(self, container: int, accounts: set[int]) -> None:
        """A replica of the container reports to the replicas of the account that it reaches."""
        later = self._send(container, accounts, self.clock(container))
        if later:
            at = max(self.clock(container), Timestamp.from_ticks(max(later).ticks + 1))
            self._send(container, accounts, at)

    def _send(self, container: int, accounts: set[int], at: Timestamp) -> list[Timestamp]:
        record = make_record("c", (_PUT, Timestamp(0)), self.known[container], 0, 0)
        answers = [
            merge_report(
                self.accounts[number],
                Report(record, at.internal),
                self.clock(len(REPLICAS) + number),
            )
            for number in sorted(accounts)
        ]
        return [answer for answer in answers if answer is not None]

    def replicate(self, source: int, target: int) -> None:
        items, _ = read_rows(self.accounts[source], -1, 100)
        merge_rows(self.accounts[target], [parse_item(item) for item in items], "0")

    def totals(self) -> list[int]:
        query = "SELECT object_count FROM container"
        return [c.execute(query).fetchone()[0] for c in self.accounts]


def run(cluster: Cluster, steps: list[tuple[str, int, set[int]]]) -> None:
    for name, number, others in steps:
        cluster.tick()
        if name == "write":
            cluster.count += 1
            for replica in others:
                cluster.known[replica] = cluster.count
        elif name == "report":
            cluster.report(number, others)
        else:
            for other in others:
                cluster.replicate(number, other)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "report", "report", "replicate"]),
        st.sampled_from(REPLICAS),
        st.sets(st.sampled_from(REPLICAS)),
    ),
    max_size=25,
)
SKEWS = st.lists(st.integers(-60, 60), min_size=6, max_size=6)


@settings(max_examples=400, deadline=None)
@given(SKEWS, STEPS, st.sampled_from(REPLICAS))
def test_totals_are_right_after_one_replica_has_repeated_its_report(
    skews: list[int], steps: list[tuple[str, int, set[int]]], last: int
) -> None:
    """The others are away, or were copied from a peer that has reported, or were hand-offs."""
    cluster = Cluster(skews)
    run(cluster, steps)
    cluster.known = [cluster.count] * 3  # the container's replicas are equal again
    cluster.tick()
    cluster.report(last, set(REPLICAS))
    assert cluster.totals() == [cluster.count] * 3
    for source in REPLICAS:
        for target in REPLICAS:
            cluster.replicate(source, target)
    assert cluster.totals() == [cluster.count] * 3
