"""A listing over shards equals a plain listing of the same rows, for all parameters."""

from __future__ import annotations

import itertools
import json
from typing import Any, cast
from unittest.mock import Mock
from urllib.parse import parse_qsl

from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.controllers.sharded_listing import Part, Query, ShardedListing, _NamesMoved
from proxy.replicas.quorum import Answer
from storage.name_listing import ListingQuery, Range, Row, Subdir, list_names

LETTERS = st.text("ab/c", min_size=1, max_size=5)
MAYBE = st.one_of(st.just(""), LETTERS)


class FakeServers(ShardedListing):
    """Containers in memory: the rows of each, and the ranges of those that have shards.

    A shard may have rows outside of its range, which must not be shown.
    """

    rows: dict[str, list[str]]
    ranges: dict[str, list[dict[str, str]]]
    moves: list[dict[str, list[dict[str, str]]]]

    def _ask(self, part: Part, is_whole: bool) -> Answer:
        if is_whole and part.container in self.ranges:
            body = json.dumps(self.ranges[part.container]).encode()
            if self.moves:
                self.ranges = self.moves.pop(0)  # names move right after the answer
            return Answer(200, {"x-backend-record-type": "shard"}, body)
        if not is_whole and not self._is_own(part):
            raise _NamesMoved
        params = dict(parse_qsl(self._query_text(part)[1:], keep_blank_values=True))
        entries = listed(self.rows[part.container], params)
        return Answer(200, {"x-backend-record-type": "object"}, json.dumps(entries).encode())

    def _is_own(self, part: Part) -> bool:
        return any(
            r["name"] == f"a/{part.container}" and (r["lower"], r["upper"]) == part[2:]
            for r in self.ranges[part.container]
        )


def listed(names: list[str], params: dict[str, str]) -> list[dict[str, str]]:
    """The listing of one container server."""
    query = ListingQuery(
        int(params["limit"]),
        params.get("marker", ""),
        params.get("end_marker", ""),
        params.get("prefix", ""),
        params.get("delimiter", ""),
        params.get("reverse") == "true",
        params.get("path"),
    )

    def fetch(wanted: Range) -> Any:
        found: list[Row] = []
        for name in sorted(names, reverse=wanted.is_reversed):
            low, high = wanted.lower, wanted.upper
            is_above = low is None or name > low.name or (low.is_inclusive and name == low.name)
            is_below = high is None or name < high.name or (high.is_inclusive and name == high.name)
            if is_above and is_below and len(found) < wanted.limit:
                found.append((name,))
        return iter(found)

    entries = list_names(query, fetch)
    return [{"subdir": e.name} if isinstance(e, Subdir) else {"name": e[0]} for e in entries]


def ranges_between(bounds: list[str], given_count: int) -> list[dict[str, str]]:
    """The first ranges are in shards, the rest is the container's own."""
    edges = ["", *bounds, ""]
    parts = list(itertools.pairwise(edges))
    found = [
        {"name": f"a/s{number}", "lower": lower, "upper": upper}
        for number, (lower, upper) in enumerate(parts[:given_count])
    ]
    if given_count < len(parts):
        found.append({"name": "a/root", "lower": parts[given_count][0], "upper": ""})
    return found


@st.composite
def params_of(draw: st.DrawFn) -> dict[str, str]:
    params = {"limit": str(draw(st.integers(1, 12)))}
    for name in ("marker", "end_marker", "prefix"):
        params[name] = draw(MAYBE)
    params["delimiter"] = draw(st.sampled_from(["", "/", "b"]))
    if draw(st.booleans()):
        params["reverse"] = "true"
    if draw(st.integers(0, 4)) == 0:
        params["path"] = draw(st.sampled_from(["", "a", "a/b", "b/"]))
        params["delimiter"] = ""
    return {name: value for name, value in params.items() if value or name == "path"}


# A group has the name of a bound.
@example({"ba"}, {"b"}, 0, 1, {"limit": "1", "delimiter": "b"})
@example({"ba"}, {"b"}, 2, 0, {"limit": "2", "delimiter": "b", "reverse": "true"})
@example({"ba", "b"}, {"b"}, 2, 0, {"limit": "2", "delimiter": "b"})
@example(
    {"ba", "c"}, {"b"}, 2, 0, {"limit": "2", "delimiter": "b", "end_marker": "b", "reverse": "true"}
)
@example({"ba", "c"}, {"b"}, 2, 0, {"limit": "2", "delimiter": "b", "marker": "b"})
# The client's marker names a group that goes on above a bound.
@example({"bb", "c"}, {"ba"}, 2, 0, {"limit": "1", "delimiter": "b", "marker": "b"})
@example(
    {"bb"}, {"ba"}, 0, 1, {"limit": "1", "delimiter": "b", "end_marker": "b", "reverse": "true"}
)
@settings(max_examples=400, deadline=None)
@given(
    st.sets(LETTERS, max_size=25),
    st.sets(LETTERS, max_size=4),
    st.integers(0, 5),
    st.integers(0, 5),
    params_of(),
)
def test_shards_are_listed_as_one_container(
    names: set[str], bounds: set[str], given_count: int, moved: int, params: dict[str, str]
) -> None:
    edges = sorted(bounds)
    query = Query.of(params, 10_000)
    listing = FakeServers(cast(Any, Mock()), cast(Any, Mock()), query, "0")
    first = ranges_between(edges, min(given_count, len(edges) + 1))
    later = ranges_between(edges, min(given_count + moved, len(edges) + 1))
    if query.is_reversed:
        first.reverse()
        later.reverse()
    listing.ranges = {"root": first}
    listing.moves = [{"root": later}]
    # Every container has all rows: only its own names may be shown.
    listing.rows = {f"s{number}": sorted(names) for number in range(len(edges) + 1)}
    listing.rows["root"] = sorted(names)
    assert listing.read("a", "root") == listed(sorted(names), params)
    assert len(listing.entries) <= query.limit
