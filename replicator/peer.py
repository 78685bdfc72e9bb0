# SPDX-License-Identifier: Apache-2.0
"""The requests to the server of another replica (doc/formats/replicate.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from martlet.http.backend_client import Address, BackendClient, BackendError, BackendResponse
from martlet.words.names import quote_path
from ring.ring import Node
from storage.replica import BadState, ReplicaState, parse_answer, sync_arguments
from storage.replicate_requests import SQLITE

#: Longest wait for an answer to a whole database: its receiver checks and flushes it; seconds.
COPY_SECONDS = 120.0
#: The largest answer that is not a whole database.
_ANSWER_BYTES_MAX = 8 * 1024**2


class PeerError(Exception):
    """The peer has not done what it was asked for; the message names it."""


class PeerCannotStore(PeerError):
    """The device of the peer is missing, full or failing (507)."""


def name_of(node: Node) -> str:
    """The address and the device of a node, for the log."""
    return f"{node['replication_ip']}:{node['replication_port']}/{node['device']}"


class Peer:
    """Another replica of one database; ``node`` holds or should hold it."""

    def __init__(self, client: BackendClient, node: Node, partition: int, hexdigest: str) -> None:
        self.node = node
        self.name = name_of(node)
        self._client = client
        self._path = f"/{quote_path(node['device'])}/{partition}/{hexdigest}"

    def sync(self, state: ReplicaState, streams: Sequence[str]) -> ReplicaState | None:
        """Send a state, which the peer merges; return the peer's, or None if it has no database.

        :raises PeerError: there is no such answer.
        """
        with_status = self._call("sync", *sync_arguments(state))
        if with_status is None:
            return None
        try:
            return parse_answer(json.loads(with_status), streams)
        except (BadState, ValueError) as error:
            raise PeerError(f"{self.name} gave a bad answer to sync: {error}") from None

    def send_rows(
        self,
        items: Sequence[Mapping[str, Any]],
        source: str,
        stream: str,
        point: int,
        before: str,
    ) -> None:
        """Have rows merged, durably; the peer has all rows up to the point then.

        :param before: the peer may have forgotten tombstones from before this timestamp.
        :raises PeerError: it is not known whether it did.
        """
        self._must(
            "merge_items", items, source, {"stream": stream, "point": point, "before": before}
        )

    def send_points(self, points: Mapping[str, int]) -> None:
        """Pass on up to which rows of other replicas the peer has got the rows.

        :raises PeerError: it is not known whether the peer stored them.
        """
        self._must("merge_syncs", [{"remote_id": n, "sync_point": p} for n, p in points.items()])

    def shard_ranges(self) -> list[Any]:
        """The shard ranges of the peer.

        :raises PeerError: there is no such answer.
        """
        try:
            found = json.loads(self._call("get_shard_ranges") or b"[]")
        except ValueError:
            found = None
        if not isinstance(found, list):
            raise PeerError(f"{self.name} gave no list of shard ranges")
        return found

    def send_shard_ranges(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Have shard ranges merged, durably.

        :raises PeerError: it is not known whether they are.
        """
        self._must("merge_shard_ranges", items)

    def send_copy(self, pieces: Iterator[bytes], size: int) -> bool:
        """Send a whole database of a known size; return False if the peer has one (409).

        :raises PeerError: it is not known whether it was stored.
        """
        address = _address(self.node)
        headers = {"Content-Type": SQLITE, "User-Agent": _agent()}
        try:
            upload = self._client.start_upload(
                address, "REPLICATE", self._path, headers, size, COPY_SECONDS
            )
            try:
                response = upload.expect_continue()
                if response is None:
                    for piece in pieces:
                        upload.send(piece)
                    response = upload.finish()
            except BaseException:
                upload.abort()
                raise
            if response.status == 409:
                response.close()
                return False
            self._check(response, "copy")
            return True
        except BackendError as error:
            raise PeerError(f"{self.name} did not take a copy: {error}") from None

    def fetch_copy(self) -> Iterator[bytes]:
        """A copy of the whole database of the peer, piece by piece.

        :raises PeerError: there is none, or it does not come to its end.
        """
        headers = {"Content-Type": "application/json", "User-Agent": _agent()}
        body = json.dumps(["get_copy"]).encode()
        try:
            response = self._client.request(
                _address(self.node), "REPLICATE", self._path, headers, body, COPY_SECONDS
            )
            self._check(response, "get_copy")
            yield from response.iter_chunks()
        except BackendError as error:
            raise PeerError(f"{self.name} gave no copy: {error}") from None

    def _must(self, operation: str, *arguments: Any) -> None:
        if self._call(operation, *arguments) is None:
            raise PeerError(f"{self.name} has lost the database")

    def _call(self, operation: str, *arguments: Any) -> bytes | None:
        """The body of an answer; None for 404."""
        return _replicate(self._client, self.node, self._path, [operation, *arguments], self._check)

    def _check(self, response: BackendResponse, operation: str) -> None:
        if response.status // 100 == 2:
            return
        response.close()
        text = f"{self.name} answered {response.status} to {operation}"
        raise PeerCannotStore(text) if response.status == 507 else PeerError(text)


def missing_at(
    client: BackendClient, node: Node, places: Sequence[tuple[int, str]]
) -> set[str] | None:
    """The hashes of databases that do not exist on a device, of (partition, hash).

    None: the server cannot tell, because it is of OpenStack Swift.

    :raises PeerError: there is no answer.
    """

    def check(response: BackendResponse, operation: str) -> None:
        if response.status not in (200, 400):
            response.close()
            raise PeerError(f"{name_of(node)} answered {response.status} to {operation}")

    path = f"/{quote_path(node['device'])}"
    body = _replicate(client, node, path, ["missing", [list(place) for place in places]], check)
    try:
        found = json.loads(body or b"null")
    except ValueError:
        return None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        return None
    return set(found)


def _replicate(
    client: BackendClient, node: Node, path: str, words: list[Any], check: Any
) -> bytes | None:
    """Send an operation; return the body of the answer, or None for 404.

    :raises PeerError: there is no answer, or ``check`` refuses it.
    """
    headers = {"Content-Type": "application/json", "User-Agent": _agent()}
    body = json.dumps(words).encode()
    try:
        response = client.request(_address(node), "REPLICATE", path, headers, body)
        if response.status == 404:
            response.close()
            return None
        check(response, words[0])
        return response.body(_ANSWER_BYTES_MAX)
    except BackendError as error:
        raise PeerError(f"{name_of(node)} does not answer {words[0]}: {error}") from None


def _address(node: Node) -> Address:
    return node["replication_ip"], node["replication_port"]


def _agent() -> str:
    return f"replicator {os.getpid()}"
