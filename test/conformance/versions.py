"""Object versioning compared with real Swift: the same requests must get the same answers.

Hypothesis generates the requests and shortens a sequence with different answers. Version ids are
timestamps, so they are replaced by the number of the request that created the version. Intended
differences, listed in doc/versioning.md, are left out.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from running_cluster import await_true
from suite import Result
from swift_api import Account, Answer

from martlet.words.timestamp import Timestamp

_NULL = "null"
_MARKER_ETAG = "d41d8cd98f00b204e9800998ecf8427e"
_NAMES = ("a", "a/b", "c")
_TOLD = (
    "content-length",
    "content-type",
    "etag",
    "x-copied-from",
    "x-object-meta-n",
    "x-versions-enabled",
)
_TOLD_IDS = ("x-object-version-id", "x-object-current-version-id", "x-copied-from-version-id")
_USAGE = ("x-container-object-count", "x-container-bytes-used", "x-versions-enabled")


class Step(NamedTuple):
    """A request; ``version`` selects one of the earlier versions, -1 is the null version."""

    kind: str
    name: str = "a"
    version: int | None = None
    value: Any = None


class Side:
    """One of the two servers, and its ids of the versions."""

    def __init__(self, url: str) -> None:
        self.account = Account(urlsplit(url).port or 80)
        self.container = ""
        self.labels: dict[str, str] = {}  # of timestamps, a version that was null has several
        self.ids: dict[str, str] = {}  # of versions that were listed, by label
        self.nulls: dict[str, str] = {}  # labels of null versions, by name

    def begin(self, container: str) -> None:
        self.container, self.labels, self.ids, self.nulls = container, {}, {}, {}
        assert self.account.call("PUT", container).status in (201, 202)

    def label(self, version: str) -> str:
        """Return the common label of a version."""
        return self.labels.get(_plain(version), version)

    def ask(self, method: str, name: str, version: str = "", **more: Any) -> Answer:
        path = self.account.url(self.container, *([name] if name else []))
        if version:
            path += f"?version-id={self.ids.get(version, version)}"
        return self.account.send(method, path, **more)

    def told(self, method: str, answer: Answer) -> tuple[Any, ...]:
        """Return the part of an answer that must be equal; the texts of errors may differ."""
        headers = answer.headers
        wanted = _TOLD if method in ("GET", "HEAD") and answer.status < 300 else ("etag",)
        shown = {name: headers[name] for name in wanted if name in headers}
        shown |= {name: self.label(headers[name]) for name in _TOLD_IDS if name in headers}
        if place := headers.get("content-location"):
            path, _, version = place.partition("?version-id=")
            shown["content-location"] = f"{path}?{self.label(version)}"
        return answer.status, shown, answer.body if answer.status == 200 else b""

    def listing(self, query: dict[str, Any]) -> tuple[int, Any]:
        """Return a listing of versions."""
        query = dict(query)
        if "version_marker" in query:
            query["version_marker"] = self.ids.get(query["version_marker"], _NULL)
        answer = self.account.call("GET", self.container, versions="", **query)
        if answer.status != 200:
            return answer.status, None
        entries = answer.json
        latest = {e["name"] for e in entries if e.get("is_latest") and e["hash"] != _MARKER_ETAG}
        for entry in entries:
            entry.pop("last_modified", None)
            if "version_id" in entry:
                label = self.label(entry["version_id"])
                self.ids[label] = entry["version_id"]
                entry["version_id"] = label
            if entry.get("name") in latest and entry["hash"] == _MARKER_ETAG:
                entry["is_latest"] = False  # Swift marks two of them as the latest
        return 200, entries

    def state(self) -> Any:
        plain = self.account.call("GET", self.container, format="json").json
        for entry in plain:
            entry.pop("last_modified", None)
            entry.pop("symlink_path", None)
            entry.pop("version_symlink", None)
        usage = self.account.call("HEAD", self.container).headers
        return plain, self.listing({}), [usage.get(name) for name in _USAGE]


def _plain(version: str) -> str:
    try:
        return Timestamp(version).internal
    except ValueError:
        return version


class Pair:
    """Both servers."""

    def __init__(self, theirs: str, ours: str) -> None:
        self.sides = (Side(theirs), Side(ours))
        self.numbers = count()
        self.requests: Counter[str] = Counter()

    def run(self, steps: list[Step], prefix: str) -> None:
        """Send the steps to both servers.

        :raises AssertionError: the answers differ.
        """
        container = f"{prefix}-{next(self.numbers)}"
        made: dict[tuple[str, str], None] = {}  # name and label of the listed versions
        for side in self.sides:
            side.begin(container)
        is_versioned = False
        for number, step in enumerate(steps):
            is_versioned |= step.kind == "enable"
            if step.kind == "suspend" and not is_versioned:
                continue  # from then on it is versioned here
            self.requests[step.kind] += 1
            name, version = step.name, ""
            if step.version is not None:
                version = _NULL
                if made and step.version >= 0:
                    name, version = [*made][step.version % len(made)]
            if step.kind == "PUT" and version and self._is_null(name):
                continue  # Swift deletes the null version then
            told = [self._take(side, step, name, version, number) for side in self.sides]
            _agree(told, steps[: number + 1])
            if step.kind not in ("GET", "HEAD", "LIST"):
                self._agree_in_state(steps[: number + 1])
                for entry in self.sides[1].listing({})[1]:
                    if entry["version_id"] != _NULL:
                        made.setdefault((entry["name"], entry["version_id"]))
        for name, label in made:
            for method in ("HEAD", "GET"):
                told = [side.told(method, side.ask(method, name, label)) for side in self.sides]
                _agree(told, [*steps, (method, name, label)])

    def _is_null(self, name: str) -> bool:
        head = self.sides[1].ask("HEAD", name)
        return head.status == 200 and head.headers.get("x-object-version-id") == _NULL

    def _take(self, side: Side, step: Step, name: str, version: str, number: int) -> Any:
        if step.kind == "LIST":
            query = dict(step.value)
            if version:
                query |= {"marker": name, "version_marker": version}
            elif "reverse" in query:
                query.pop("marker", None)  # Swift then lists the marker's versions as well
            return side.listing(query)
        if step.kind in ("enable", "suspend"):
            headers = {"X-Versions-Enabled": str(step.kind == "enable")}
            return side.ask("POST", "", headers=headers).status
        headers, body, written = {}, None, name
        if step.kind == "PUT":
            body = b"" if version else b"x" * (number + 1)
        if step.kind in ("PUT", "POST") and not version:
            headers = {"X-Object-Meta-N": str(number), "Content-Type": f"text/{step.value}"}
        if step.kind == "COPY":
            written, headers = step.value, {"Destination": f"{side.container}/{step.value}"}
        answer = side.ask(step.kind, name, version, headers=headers, body=body)
        self._learn(side, step, answer, written, number, version)
        return side.told(step.kind, answer)

    def _learn(
        self, side: Side, step: Step, answer: Answer, name: str, number: int, version: str
    ) -> None:
        """Record this side's id of the version that the request wrote."""
        if step.kind not in ("PUT", "POST", "COPY", "DELETE") or (version and step.kind != "COPY"):
            return
        found, label = answer.headers.get("x-object-version-id"), f"v{number}"
        if found is None and answer.status in (201, 202):
            head = side.ask("HEAD", name).headers
            if head.get("x-object-version-id", _NULL) != _NULL:
                return
            # An object written without versioning later gets a timestamp as its id: Swift uses
            # the timestamp of the last POST.
            found = head["x-timestamp"]
            label = side.nulls[name] if step.kind == "POST" else label
            side.nulls[name] = label
        if found not in (None, _NULL):
            side.labels.setdefault(_plain(str(found)), label)

    def _agree_in_state(self, steps: list[Step]) -> None:
        def same() -> bool:
            states[:] = [side.state() for side in self.sides]
            return bool(states[0] == states[1])

        states: list[Any] = []
        try:
            await_true(same, "the same state", 0.5)  # rows may arrive later
        except AssertionError:
            _agree(states, steps)


def _agree(told: list[Any], steps: Any) -> None:
    if told[0] != told[1]:
        raise AssertionError(f"{_shown(steps)}: Swift {told[0]}, here {told[1]}")


def _shown(steps: Any) -> str:
    return ", ".join(" ".join(str(p) for p in step if p is not None) for step in steps)


def _steps() -> st.SearchStrategy[list[Step]]:
    names = st.sampled_from(_NAMES)
    version = st.integers(-1, 7)
    listing = st.fixed_dictionaries(
        {},
        optional={
            "prefix": st.sampled_from(("a", "a/", "x")),
            "delimiter": st.sampled_from(("/", "//", "b")),
            "marker": st.sampled_from(("a", "a/", "a/b", "b")),
            "reverse": st.just("on"),
            "limit": st.integers(0, 3),
        },
    )
    text, no_version = st.sampled_from(("plain", "html")), st.none()
    step = st.one_of(
        st.tuples(st.just("PUT"), names, no_version, text),
        st.tuples(st.sampled_from(("PUT", "POST", "DELETE", "GET")), names, no_version, text),
        st.tuples(st.just("COPY"), names, st.none() | version, names),
        st.tuples(st.sampled_from(("PUT", "GET", "HEAD", "DELETE")), names, version),
        st.tuples(st.just("DELETE"), names, version),
        st.tuples(st.sampled_from(("enable", "suspend"))),
        st.tuples(st.just("LIST"), names, st.none() | version, listing),
    ).map(lambda parts: Step(*parts))
    return st.lists(step, min_size=8, max_size=24)


def run_versions(theirs: str, ours: str, sequences: int, number: int) -> list[Result]:
    """Run the comparison; it fails if a sequence gets other answers than from real Swift."""
    pair = Pair(theirs, ours)
    prefix = f"versions-{Timestamp.now().internal}"

    @seed(number)
    @settings(
        max_examples=sequences,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(_steps())
    def check(steps: list[Step]) -> None:
        pair.run(steps, prefix)

    name = f"versions.{number}"
    try:
        check()
    except AssertionError as error:
        return [Result(name, "failed", str(error))]
    finally:
        total = sum(pair.requests.values())
        print(f"conformance: versions, seed {number}: {total} steps, {dict(pair.requests)}")
    return [Result(name, "passed")]
