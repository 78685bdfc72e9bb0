# SPDX-License-Identifier: Apache-2.0
"""The reconciler's direct requests to container servers, to every replica.

The rows of a container's versions may be in its shards. They are changed where they were found.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from container.misplaced import QUEUE_ACCOUNT, Entry, Failed
from container.policy_choice import Claim, claim_of, winning_policy
from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.log import get_logger
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.ring import Node, Ring

#: How long the policy of a container is cached, seconds.
POLICY_SECONDS = 30.0
_CACHED_MAX = 10_000
#: Most rows of versions in one request.
_ROWS_AT_ONCE = 500


class Unanswered(Failed):
    """Too few replicas of a container answer; ``replicas`` are the others."""

    def __init__(self, replicas: Sequence[str]) -> None:
        super().__init__(f"no answer from {' '.join(replicas)}")
        self.replicas = tuple(replicas)


class Answered(NamedTuple):
    """The answer of a replica."""

    replica: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class VersionRows(NamedTuple):
    """Rows of the versions of a name, in the form of an ``UPDATE``, and where they are."""

    account: str
    container: str
    rows: list[dict[str, Any]]


class QueueServers:
    """The container servers of a cluster."""

    def __init__(self, ring: Ring, client: BackendClient) -> None:
        self._ring = ring
        self._client = client
        self._policies: dict[tuple[str, str], tuple[float, int]] = {}
        self._log = get_logger("martlet.container.reconciler")

    def policy_of(self, account: str, container: str) -> int | None:
        """The policy of a container; None if it is not known.

        :raises Unanswered: too few replicas answer.
        """
        key = account, container
        until, policy = self._policies.get(key, (0.0, 0))
        if time.monotonic() < until:
            return policy
        claims, silent = self._claims(account, container)
        if len(claims) <= len(silent):
            raise Unanswered(silent)
        found = winning_policy(claims)
        if found is not None:
            if len(self._policies) >= _CACHED_MAX:
                self._policies.clear()
            self._policies[key] = time.monotonic() + POLICY_SECONDS, found
        return found

    def is_agreed(self, account: str, container: str, policy: int, *, by_most: bool) -> bool:
        """Whether none of the replicas of a container that answer now has another policy.

        :param by_most: more than half of them must answer, else all.
        :raises Unanswered: fewer do.
        """
        claims, silent = self._claims(account, container)
        policies = {claim.policy_index for claim in claims if not claim.is_blank}
        if policies <= {policy} and silent and not (by_most and len(claims) > len(silent)):
            raise Unanswered(silent)
        return policies == {policy}

    def _claims(self, account: str, container: str) -> tuple[list[Claim], list[str]]:
        """The claims of the replicas that answer, and the other replicas.

        An answer that cannot be read stands for none at all.
        """
        _, nodes = self._ring.get_nodes(account, container)
        silent = [_replica(node) for node in nodes]
        claims = []
        for answer in self._ask("HEAD", account, container, "", {}):
            if answer.status // 100 != 2 and answer.status != 404:
                continue
            try:
                claims.append(claim_of(answer.headers))
            except ValueError as error:
                self._log.error("policy not known path=/%s/%s reason=%s", account, container, error)
                return [], [answer.replica]
            silent.remove(answer.replica)
        return claims, silent

    def remove_entry(self, container: str, entry: Entry) -> None:
        """Remove an entry from the queue.

        A replica that misses the removal brings the entry back; this is harmless, as it is done.
        """
        headers = {"X-Timestamp": entry.done_at.internal}
        self._ask("DELETE", QUEUE_ACCOUNT, container, entry.name, headers)

    def version_rows(self, entry: Entry) -> Iterator[VersionRows] | None:
        """The rows of the versions of an entry's name that are in the policy of the entry.

        They come in pages, each read when it is asked for. None: the name has no versions.

        :raises Failed: too few replicas answer.
        """
        pages = self._version_rows(entry)
        first = next(pages, None)
        return None if first is None else chain([first], pages)

    def _version_rows(self, entry: Entry) -> Iterator[VersionRows]:
        """The pages; none if the name has no versions, and at least an empty one if it has."""
        asked = [(entry.account, entry.container)]
        for names in asked:  # which grows by its shards
            marker: str | None = ""
            while marker is not None:
                answers = self._read(*names, "version", _page_query(entry.obj, marker), entry)
                page, has_versions, marker = _merged(answers, marker)
                if has_versions:
                    yield VersionRows(*names, page)
            states = {answer.headers.get("x-backend-sharding-state") for answer in answers}
            if states - {"unsharded", None}:
                shards = self._shards(*names, entry)
                asked += [shard for shard in shards if shard not in asked]

    def _shards(self, account: str, container: str, entry: Entry) -> list[tuple[str, str]]:
        """The shards that have the rows of an entry's name."""
        query = f"states=updating&includes={quote(entry.obj, safe='')}"
        answers = self._read(account, container, "shard", query, entry)
        found = {
            tuple(item["name"].split("/", 1))
            for answer in answers
            if answer.status == 200
            for item in json.loads(answer.body)
        }
        return [(shard[0], shard[1]) for shard in sorted(found)]

    def _read(
        self, account: str, container: str, record_type: str, query: str, entry: Entry
    ) -> list[Answered]:
        """GET records of a type from all replicas.

        :raises Failed: too few answer.
        """
        headers = {
            "X-Backend-Record-Type": record_type,
            "X-Backend-Storage-Policy-Index": str(entry.policy_index),
        }
        answers = self._ask("GET", account, container, "", headers, query=query)
        known = [answer for answer in answers if answer.status in (200, 404)]
        self._check(account, container, len(known))
        return known

    def _check(self, account: str, container: str, count: int) -> None:
        _, nodes = self._ring.get_nodes(account, container)
        if count * 2 <= len(nodes):
            raise Failed(f"{count} replicas of /{account}/{container} have answered")

    def move_rows(self, found: VersionRows, policy: int) -> None:
        """Store rows of versions anew, in another policy.

        :raises Failed: too few replicas store them.
        """
        headers = {"X-Backend-Storage-Policy-Index": str(policy)}
        rows = [row | {"storage_policy_index": policy} for row in found.rows]
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            body = json.dumps(rows[start : start + _ROWS_AT_ONCE]).encode()
            names = found.account, found.container
            answers = self._ask("UPDATE", *names, "", headers, body=body)
            self._check(*names, sum(answer.status // 100 == 2 for answer in answers))

    def _ask(
        self,
        method: str,
        account: str,
        container: str,
        obj: str,
        headers: Mapping[str, str],
        *,
        query: str = "",
        body: bytes = b"",
    ) -> list[Answered]:
        """The answer of each replica that answers."""
        partition, nodes = self._ring.get_nodes(account, container)
        sent = {
            "X-Timestamp": Timestamp.now().internal,
            "User-Agent": f"container-reconciler {os.getpid()}",
            **headers,
        }
        names = f"/{account}/{container}" + (f"/{obj}" if obj else "")
        started = []
        for node in nodes:
            path = quote_path(f"/{node['device']}/{partition}{names}")
            target = f"{path}?{query}" if query else path
            address = node["ip"], node["port"]
            try:
                exchange = self._client.start(address, method, target, sent, body)
                started.append((_replica(node), exchange))
            except BackendError as error:
                self._log.warning("container server did not answer: %s", error)
        return [answer for one in started if (answer := self._finish(*one))]

    def _finish(self, replica: str, exchange: BackendExchange) -> Answered | None:
        try:
            response = exchange.response()
            body = response.body()
        except BackendError as error:
            exchange.abort()
            self._log.warning("container server did not answer: %s", error)
            return None
        response.close()
        return Answered(replica, response.status, response.headers, body)


def _replica(node: Node) -> str:
    return f"{node['ip']}:{node['port']}/{node['device']}"


def _page_query(name: str, marker: str) -> str:
    return f"name={quote(name, safe='')}&limit={_ROWS_AT_ONCE}&marker={quote(marker, safe='')}"


def _merged(answers: list[Answered], marker: str) -> tuple[list[dict[str, Any]], bool, str | None]:
    """The rows of all replicas up to where all pages go; whether there are versions; next marker.

    The marker is None behind the last page. A server of an earlier release has one page.
    """
    found = [answer for answer in answers if answer.status == 200]
    rows = [json.loads(answer.body) for answer in found]
    ends = [end for answer in found if (end := answer.headers.get("x-backend-next-version"))]
    end = min(ends, default=None)
    merged = {
        tuple(row.values()): row
        for replica in rows
        for row in replica or []
        if row["version_id"] > marker and (end is None or row["version_id"] <= end)
    }
    return list(merged.values()), any(row is not None for row in rows), end
