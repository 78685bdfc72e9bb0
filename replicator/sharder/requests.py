# SPDX-License-Identifier: Apache-2.0
"""The requests of the sharder to container servers, each to all replicas of a container."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from container.shard_range import BadRange, ShardRange, merge_range, parse_range
from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.ring import Node, Ring

#: Most rows in a request. A name with many versions has more.
ROWS_MAX = 2000
#: The longest chain of redirects that rows follow.
REDIRECTS_MAX = 8
_ANSWER_BYTES_MAX = 64 * 1024**2


class ShardError(Exception):
    """Too few replicas have done what they were asked for; the message says which."""


class Answer(NamedTuple):
    """The answer of one replica; status 503: none."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ShardRequests:
    """The requests of one process."""

    def __init__(self, ring: Ring, client: BackendClient) -> None:
        self._ring = ring
        self._client = client

    def send_ranges(
        self,
        names: tuple[str, str],
        ranges: Sequence[ShardRange],
        more: Mapping[str, str] | None = None,
        needs_all: bool = False,
    ) -> None:
        """Have ranges merged by the replicas of a container.

        :param more: headers, with which a shard is created.
        :raises ShardError: less than most replicas did, or, with ``needs_all``, one did not.
        """
        body = json.dumps([item.as_dict() for item in ranges]).encode()
        headers = {"X-Backend-Record-Type": "shard", **(more or {})}
        answers = self._ask("PUT", names, "", headers, body)
        done = sum(answer.status // 100 == 2 for answer in answers)
        if done * 2 <= len(answers) or (needs_all and done < len(answers)):
            statuses = ",".join(str(answer.status) for answer in answers)
            raise ShardError(f"/{'/'.join(names)} answered {statuses} to its ranges")

    def send_rows(
        self,
        names: tuple[str, str],
        items: Sequence[Any],
        needs_all: bool = False,
        depth: int = 0,
    ) -> None:
        """Have rows merged by the replicas of a shard, or by those that it redirects to.

        :raises ShardError: less than most replicas of one have them, or, with ``needs_all``, one
            has not.
        """
        for start in range(0, len(items), ROWS_MAX):
            self._send_rows(names, items[start : start + ROWS_MAX], needs_all, depth)

    def _send_rows(
        self, names: tuple[str, str], items: Sequence[Any], needs_all: bool, depth: int
    ) -> None:
        if depth > REDIRECTS_MAX:
            raise ShardError(f"too many redirects at /{'/'.join(names)}")
        headers = {
            "Content-Type": "application/json",
            "X-Backend-Storage-Policy-Index": str(items[0]["storage_policy_index"]),
            "X-Backend-Accept-Redirect": "true",
        }
        answers = self._ask("UPDATE", names, "", headers, json.dumps(items).encode())
        done = sum(answer.status in (202, 301) for answer in answers)
        if done * 2 <= len(answers) or (needs_all and done < len(answers)):
            statuses = ",".join(str(answer.status) for answer in answers)
            raise ShardError(f"/{'/'.join(names)} answered {statuses} to rows")
        for target, places in _redirects(answers).items():
            moved = [items[place] for place in sorted(places)]
            self.send_rows(target, moved, needs_all, depth + 1)

    def counts_of(self, names: tuple[str, str]) -> tuple[int, int]:
        """The objects and bytes of a shard, in the replica that has the most.

        :raises ShardError: no replica answers.
        """
        found = [
            (
                int(answer.headers.get("x-container-object-count", 0)),
                int(answer.headers.get("x-container-bytes-used", 0)),
            )
            for answer in self._ask("HEAD", names, "", {}, b"")
            if answer.status // 100 == 2
        ]
        if not found:
            raise ShardError(f"/{'/'.join(names)} does not answer")
        return max(found)

    def check_all(self, names: tuple[str, str]) -> None:
        """Check that all replicas of a shard can take rows.

        :raises ShardError: one does not answer, or has no database.
        """
        statuses = [answer.status for answer in self._ask("HEAD", names, "", {}, b"")]
        if any(status // 100 != 2 for status in statuses):
            said = ",".join(map(str, statuses))
            raise ShardError(f"/{'/'.join(names)} answered {said}; it needs all its replicas")

    def given_by_all(self, names: tuple[str, str]) -> list[list[tuple[str, str]]] | None:
        """The bounds of names that each replica has given away; None: one does not answer."""
        found = []
        for answer in self._ranges(names, "given"):
            if answer is None:
                return None
            found.append([(item.lower, item.upper) for item in answer])
        return found

    def ranges_of(self, names: tuple[str, str], needs_all: bool = False) -> list[ShardRange]:
        """The ranges of a container, also deleted ones, merged from what its replicas have.

        Ranges that most replicas took are in it, since most replicas are asked.

        :raises ShardError: less than most replicas answer, or, with ``needs_all``, one does not.
        """
        answers = self._ranges(names, "auditing")
        found = [answer for answer in answers if answer is not None]
        if len(found) * 2 <= len(answers) or (needs_all and len(found) < len(answers)):
            raise ShardError(f"too few replicas of /{'/'.join(names)} answer")
        merged: dict[str, ShardRange] = {}
        for item in itertools.chain.from_iterable(found):
            known = merged.get(item.name)
            merged[item.name] = item if known is None else merge_range(known, item)
        return list(merged.values())

    def _ranges(self, names: tuple[str, str], states: str) -> list[list[ShardRange] | None]:
        # The shards of a deleted container are joined and divided as others are.
        headers = {"X-Backend-Record-Type": "shard", "X-Backend-Override-Deleted": "true"}
        query = f"?format=json&states={states}"
        return [_parsed(answer) for answer in self._ask("GET", names, query, headers, b"")]

    def _ask(
        self,
        method: str,
        names: tuple[str, str],
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> list[Answer]:
        partition, nodes = self._ring.get_nodes(*names)
        sent = {
            "X-Timestamp": Timestamp.now().internal,
            "User-Agent": f"container-sharder {os.getpid()}",
            **headers,
        }
        target = quote_path(f"/{partition}/{names[0]}/{names[1]}") + query
        started = [self._start(method, node, target, sent, body) for node in nodes]
        return [_answer(exchange) for exchange in started]

    def _start(
        self, method: str, node: Node, target: str, headers: Mapping[str, str], body: bytes
    ) -> BackendExchange | None:
        path = f"/{quote_path(node['device'])}{target}"
        try:
            return self._client.start((node["ip"], node["port"]), method, path, headers, body)
        except BackendError:
            return None


def _answer(exchange: BackendExchange | None) -> Answer:
    if exchange is None:
        return Answer(503, {}, b"")
    try:
        response = exchange.response()
        return Answer(response.status, response.headers, response.body(_ANSWER_BYTES_MAX))
    except BackendError:
        exchange.abort()
        return Answer(503, {}, b"")


def _redirects(answers: Sequence[Answer]) -> dict[tuple[str, str], set[int]]:
    """The places of the rows that replicas want to be sent on, by container."""
    found: dict[tuple[str, str], set[int]] = {}
    for answer in answers:
        if answer.status != 301:
            continue
        try:
            redirects = json.loads(answer.body)["redirects"]
            for redirect in redirects:
                names = redirect["account"], redirect["container"]
                found.setdefault(names, set()).update(map(int, redirect["rows"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ShardError(f"a bad redirect: {error}") from None
    return found


def _parsed(answer: Answer) -> list[ShardRange] | None:
    if answer.status // 100 != 2:
        return None
    try:
        return [parse_range(item) for item in json.loads(answer.body or b"[]")]
    except (BadRange, ValueError, TypeError):
        return None
