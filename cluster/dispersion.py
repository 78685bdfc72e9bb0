# SPDX-License-Identifier: Apache-2.0
"""Samples of the partitions: containers and objects that are made once, and counted later.

Names are those of OpenStack Swift's swift-dispersion-populate, so each tool reports on what the
other has made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from cluster.direct import POLICY_HEADER, DirectAnswer, DirectClient, node_name, path_of
from cluster.proxy_account import ProxyAccount
from cluster.swift_dir import ClusterFiles
from martlet.conf.storage_policies import StoragePolicy
from ring.ring import Node, Ring

_PREFIX = "dispersion_"


@dataclass(frozen=True)
class Sample:
    """The containers, or the objects, of a sample, and their ring."""

    kind: str  # "container" or "object"
    ring: Ring
    account: str
    policy: StoragePolicy

    @property
    def container(self) -> str:
        """The container of the objects."""
        return f"{_PREFIX}objects_{self.policy.index}"

    @property
    def prefix(self) -> str:
        """The beginning of the names."""
        return _PREFIX if self.kind == "object" else f"{_PREFIX}{self.policy.index}"

    def names_of(self, name: str) -> tuple[str, ...]:
        """The whole name: account, container, and perhaps object."""
        if self.kind == "object":
            return self.account, self.container, name
        return self.account, name

    def partition(self, name: str) -> int:
        return self.ring.get_part(*self.names_of(name))

    def listed(self, account: ProxyAccount) -> list[str]:
        """The names that exist.

        :raises ClusterError: the listing is refused.
        """
        return list(account.names(self.container if self.kind == "object" else "", self.prefix))


def sample_of(files: ClusterFiles, account: str, policy: StoragePolicy, kind: str) -> Sample:
    """The sample of the containers, or of the objects of a policy."""
    return Sample(kind, files.ring(kind, policy.index), account, policy)


def names_for(sample: Sample, coverage: float, existing: Iterable[str] = ()) -> list[str]:
    """Names in so many percent of the partitions, each in a partition of its own.

    :param existing: names whose partitions need no other one.
    """
    left = set(range(sample.ring.partition_count)) - {sample.partition(n) for n in existing}
    wanted = int(coverage / 100.0 * sample.ring.partition_count)
    names: list[str] = []
    number = 0
    while len(names) < wanted and left:
        middle = "" if sample.kind == "object" else f"{sample.policy.index}_"
        name = f"{_PREFIX}{middle}{number}"
        number += 1
        partition = sample.partition(name)
        if partition in left:
            left.remove(partition)
            names.append(name)
    return names


def populate(sample: Sample, account: ProxyAccount, names: Sequence[str], at_once: int) -> int:
    """Make the containers or objects; return how many there are.

    :raises ClusterError: one of them is refused.
    """
    in_policy = {"X-Storage-Policy": sample.policy.name}
    if sample.kind == "object":
        account.put(sample.container, headers=in_policy)

    def put(name: str) -> None:
        if sample.kind == "object":
            # Any byte will do; that of its name tells what the object is for.
            account.put(f"{sample.container}/{name}", name.encode())
        else:
            account.put(name, headers=in_policy)

    with ThreadPoolExecutor(at_once) as threads:
        return len(list(threads.map(put, names)))


@dataclass
class Dispersion:
    """The copies of a sample that were found."""

    kind: str
    listed: int = 0
    partitions: int = 0
    partition_count: int = 0
    expected: int = 0
    found: int = 0
    missing: Counter[int] = field(default_factory=Counter)  # copies -> partitions
    incomplete: dict[int, int] = field(default_factory=dict)  # partition -> missing copies
    errors: Counter[str] = field(default_factory=Counter)  # device and answer -> times

    @property
    def percent(self) -> float:
        return 100.0 * self.found / self.expected if self.expected else 0.0

    @property
    def coverage(self) -> float:
        """The share of the partitions that the sample has, in percent."""
        return 100.0 * self.partitions / self.partition_count

    def as_json(self) -> dict[str, Any]:
        """The keys of swift-dispersion-report, and more."""
        words = {1: "one", 2: "two", 3: "three"}
        return {
            "copies_expected": self.expected,
            "copies_found": self.found,
            "pct_found": self.percent,
            "overlapping": self.listed - self.partitions,
            "retries": 0,
            **{f"missing_{words.get(n, n)}": count for n, count in sorted(self.missing.items())},
            "partitions": self.partitions,
            "partition_count": self.partition_count,
            "incomplete": {str(n): count for n, count in sorted(self.incomplete.items())},
            "errors": dict(self.errors),
        }


def report(
    sample: Sample,
    names: Sequence[str],
    client: DirectClient,
    at_once: int,
    retries: int,
    pause: Callable[[int], None],
) -> Dispersion:
    """Ask every primary of each partition of the sample for its copy.

    A request without an answer, or with a 5xx other than 507, is repeated; ``pause`` waits before
    a repetition. A server that did not answer all repetitions is not asked for more.
    """
    by_partition = {sample.partition(name): name for name in names}
    found = Dispersion(sample.kind, len(names), len(by_partition), sample.ring.partition_count)
    silent: dict[tuple[str, int], str] = {}
    headers = {POLICY_HEADER: str(sample.policy.index)} if sample.kind == "object" else {}

    def ask(place: tuple[int, str, Node]) -> tuple[int, bool, str]:
        partition, name, node = place
        address = (node["ip"], node["port"])
        path = path_of(*sample.names_of(name))
        answer = DirectAnswer(0, {}, b"", silent.get(address, ""))
        for attempt in range(retries + 1):
            if address in silent:
                break
            if attempt:
                pause(attempt)
            answer = client.request(node, partition, "HEAD", path, headers)
            if answer.status and (answer.status < 500 or answer.status == 507):
                break
        else:
            if not answer.status:
                silent[address] = answer.reason
        error = "" if answer.is_success else f"{node_name(node)} {answer.says()}"
        return partition, answer.is_success, error

    places = [
        (partition, name, node)
        for partition, name in by_partition.items()
        for node in sample.ring.get_part_nodes(partition)
    ]
    missing: Counter[int] = Counter()
    with ThreadPoolExecutor(at_once) as threads:
        for partition, is_there, error in threads.map(ask, places):
            found.expected += 1
            found.found += is_there
            missing[partition] += not is_there
            if error:
                found.errors[error] += 1
    found.incomplete = {partition: n for partition, n in missing.items() if n}
    found.missing = Counter(found.incomplete.values())
    return found
