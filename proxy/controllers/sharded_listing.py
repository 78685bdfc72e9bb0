# SPDX-License-Identifier: Apache-2.0
"""The listing of a container whose rows are in shards, or partly in shards.

The container names its ranges in the order of names. Each is listed from its shard, and what is
still in the container itself from there. A shard may have shards in turn. Names move into shards
meanwhile: a replica that has given away names refuses to list them, and the ranges are read anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from martlet.conf.options import is_true
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import quote_path
from proxy.headers import base_headers
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders

#: Which kind of records a container server is asked for.
RECORD_TYPE = "X-Backend-Record-Type"
_RECORD_TYPE = RECORD_TYPE.lower()
#: How often the ranges are read anew, because names have moved.
_TRIES_MAX = 8
#: Shards of shards are joined with their root soon.
_DEPTH_MAX = 8

Entry = dict[str, Any]


class Part(NamedTuple):
    """The names above ``lower`` and up to ``upper``, and the container that lists them."""

    account: str
    container: str
    lower: str
    upper: str


class _NamesMoved(Exception):
    """No replica has the rows of some names any more: they are in shards now."""


@dataclass(frozen=True)
class Query:
    """The parameters of a listing."""

    limit: int
    marker: str
    end_marker: str
    prefix: str
    delimiter: str
    is_reversed: bool
    others: Mapping[str, str]  # path, versions
    version_marker: str

    @classmethod
    def of(cls, params: Mapping[str, str], limit_max: int) -> Query:
        """The query of parameters that were checked before."""
        limit = params.get("limit", "")
        is_number = limit.isascii() and limit.isdigit()
        return cls(
            min(int(limit), limit_max) if is_number else limit_max,
            params.get("marker", ""),
            params.get("end_marker", ""),
            params.get("prefix", ""),
            params.get("delimiter", ""),
            is_true(params.get("reverse")),
            {name: params[name] for name in ("path", "versions") if name in params},
            params.get("version_marker", ""),
        )

    @property
    def common_prefix(self) -> str:
        """The beginning of all listed names."""
        path = self.others.get("path")
        if path is None:
            return self.prefix
        return f"{path.rstrip('/')}/" if path else ""

    def group_of(self, name: str) -> str | None:
        """The entry for a name that is rolled up; None: it is not."""
        if not self.delimiter or "path" in self.others or not name.startswith(self.prefix):
            return None
        found = name.find(self.delimiter, len(self.prefix))
        return None if found < 0 else name[: found + len(self.delimiter)]


def is_sharded(answer: Answer) -> bool:
    """Whether a container server has answered with shard ranges."""
    return answer.headers.get(_RECORD_TYPE, "").lower() == "shard"


class ShardedListing:
    """One listing; `entries` holds what was found so far."""

    def __init__(self, core: Core, req: Request, query: Query, policy_index: str) -> None:
        """``policy_index`` is the storage policy of the container."""
        self._core = core
        self._req = req
        self._query = query
        self._policy_index = policy_index
        self.entries: list[Entry] = []

    def read(self, account: str, container: str, first: Answer | None = None) -> list[Entry]:
        """The entries of a container.

        :param first: the container's answer with its ranges, if it was asked already.
        :raises HTTPException: (503) a shard does not answer.
        """
        self._list(Part(account, container, "", ""), 0, first)
        return self.entries

    def _list(self, whole: Part, depth: int, first: Answer | None = None) -> None:
        """Add the entries of a container with shards, between the bounds of ``whole``."""
        for _ in range(_TRIES_MAX):
            try:
                answer = first or self._ask(whole, is_whole=True)
                first = None
                if not is_sharded(answer):
                    self._add(json.loads(answer.body or b"[]"))
                    return
                for part in self._parts(answer, whole):
                    if self._left() <= 0:
                        return
                    self._list_part(part, whole, depth)
            except _NamesMoved:
                continue
            return
        raise http_error(503)

    def _list_part(self, part: Part, whole: Part, depth: int) -> None:
        if part[:2] == whole[:2]:
            self._add(json.loads(self._ask(part, is_whole=False).body or b"[]"))
        elif depth >= _DEPTH_MAX:
            raise http_error(503)
        else:
            self._list(part, depth + 1)

    def _parts(self, answer: Answer, whole: Part) -> Iterator[Part]:
        """The parts of an answer that can have names of the listing."""
        prefix = self._query.common_prefix
        for item in json.loads(answer.body or b"[]"):
            account, _, container = item["name"].partition("/")
            lower, upper = max(item["lower"], whole.lower), _least(item["upper"], whole.upper)
            is_below = upper and (upper < prefix or upper <= lower)
            if is_below or (lower > prefix and not lower.startswith(prefix)):
                continue
            part = Part(account, container, lower, upper)
            if self._window(part) is not None:
                yield part

    def _left(self) -> int:
        return self._query.limit - len(self.entries)

    def _last(self) -> str | None:
        """The name of the last entry."""
        if not self.entries:
            return None
        entry = self.entries[-1]
        name: str = entry.get("name") or entry["subdir"]
        return name

    def _window(self, part: Part) -> tuple[str, str] | None:
        """The marker and the end marker for a part; None if nothing is between them."""
        query, last = self._query, self._last()
        at = query.marker if last is None else last
        if query.is_reversed:
            above = f"{part.upper}\x00" if part.upper else ""
            marker = _least(at, above)
            end = self._above(query.end_marker, part)
            return None if marker and end and marker <= end else (marker, end)
        marker = self._above(at, part)
        end = _least(query.end_marker, f"{part.upper}\x00" if part.upper else "")
        return None if end and marker >= end else (marker, end)

    def _above(self, marker: str, part: Part) -> str:
        """The lower marker for a part: the greater one of a marker and the part's lower bound.

        Servers leave out a group with the name of the marker. A group that was listed, or that the
        client's marker names, may go on above the bound: then the marker stays. Another group with
        the name of the bound must be listed, so the bound gets a NUL, which no name has.
        """
        lower = part.lower
        group = self._query.group_of(lower)
        if marker >= lower or group == marker:
            return marker
        return f"{lower}\x00" if group == lower else lower

    def _ask(self, part: Part, is_whole: bool) -> Answer:
        """Ask the container of a part; ``is_whole``: it may answer with ranges.

        :raises _NamesMoved: the rows are in shards by now.
        :raises HTTPException: (503) it does not answer.
        """
        core = self._core
        nodes = core.nodes(core.rings.container, part.account, part.container, is_read=True)
        path = quote_path(f"/{part.account}/{part.container}") + self._query_text(part)
        request = core.request(self._req, "Container", nodes.partition, path, method="GET")
        headers = base_headers(self._req)
        headers[RECORD_TYPE] = "auto" if is_whole else "object"
        headers["X-Backend-Storage-Policy-Index"] = self._policy_index
        if not is_whole:
            bounds = quote(part.lower, safe=""), quote(part.upper, safe="")
            headers["X-Backend-Own-Names"] = ",".join(bounds)
        search = Search(core, request, nodes)
        found = search.find_whole(WireHeaders(headers))
        if found is not None:
            return found
        if not is_whole and any(answer.status == 409 for answer in search.answers):
            raise _NamesMoved
        raise http_error(503)

    def _query_text(self, part: Part) -> str:
        query = self._query
        window = self._window(part)
        marker, end = window if window is not None else (part.upper, part.upper)
        params = {"format": "json", "limit": str(self._left()), **query.others}
        given = {
            "marker": marker,
            "end_marker": end,
            "prefix": query.prefix,
            "delimiter": query.delimiter,
            "reverse": "true" if query.is_reversed else "",
        }
        params |= {name: value for name, value in given.items() if value}
        if query.version_marker and marker == query.marker and not self.entries:
            params["version_marker"] = query.version_marker
        return f"?{urlencode(params)}"

    def _add(self, found: list[Entry]) -> None:
        last = self._last()
        for entry in found:
            # The next shard has the rest of a group that is listed already.
            if "subdir" in entry and entry["subdir"] == last:
                continue
            self.entries.append(entry)


def _least(one: str, other: str) -> str:
    """The lower one of two upper bounds; empty is the greatest."""
    return min(one, other) if one and other else one or other
