# SPDX-License-Identifier: Apache-2.0
"""The answers of all servers: as tables with the problems below them, or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from cluster.recon import cells
from cluster.recon.cells import Cell
from cluster.recon.questions import (
    BY_NAME,
    Here,
    Question,
    conf_in,
    devices_in,
    in_sync,
    replication_moment,
    rings_differ,
)
from martlet.conf.cluster import CONF_NAME
from martlet.recon.ask import Reply
from martlet.recon.figures import file_digest, ring_digests

#: The questions of a command line without any.
OVERVIEW = ("replication", "async", "quarantined", "unmounted", "diskusage", "md5", "conf-md5")
_HEADS = (
    *("server", "state", "replicated", "in sync", "hand-offs", "doubts", "failures"),
    *("pending", "quarantined", "disks in use", "rings"),
)

Row = Sequence[Cell | str]


def look_here(swift_dir: Path, now: float, jitter: float = 0.0) -> Here:
    """The digests of the files of this host.

    :raises ClusterError: a file cannot be read.
    """
    try:
        rings = ring_digests(str(swift_dir))
        conf = file_digest(str(swift_dir / CONF_NAME))
    except OSError as error:
        raise ClusterError(f"{error.filename}: {error.strerror}") from None
    named = {path.rpartition("/")[2]: digest for path, digest in rings.items()}
    return Here(now, named, conf, jitter)


@dataclass(frozen=True)
class Report:
    """The replies to some questions. ``is_overview``: one table with a line for each server."""

    here: Here
    questions: Sequence[Question]
    replies: Sequence[Reply]
    is_overview: bool = False
    top: int = 0  # rows of a table of devices, those in use most; 0: all
    lowest: int = 0  # the same, those in use least

    @property
    def silent(self) -> list[Reply]:
        """The servers that did not answer."""
        return [reply for reply in self.replies if reply.error]

    def problems(self) -> list[str]:
        """A sentence for everything that is wrong, with the server before it."""
        found = []
        for reply in self.replies:
            server = f"{reply.server.kind} server {reply.server.name}"
            if reply.error:
                found.append(f"{server} does not answer: {cells.printable(reply.error)}")
            for question in self._asked(reply):
                answer = reply.answers.get(question.path_for(reply.server.kind))
                if answer is None:
                    continue
                if answer.status != 200 or answer.value is None:
                    found.append(
                        f"{server} has no figures of {question.title}: it answers {answer.status}"
                        f" to {question.path_for(reply.server.kind)}"
                    )
                    continue
                says = question.problems(self.here, reply, answer.value)
                found += [f"{server}: {cells.printable(text)}" for text in says]
        return found

    def as_text(self) -> str:
        """The tables, then the problems."""
        tables = [self._overview()] if self.is_overview else map(self._table, self.questions)
        parts = [text for text in tables if text]
        problems = self.problems()
        silent = len(self.silent)
        told = f"{len(self.replies) - silent} of {len(self.replies)} servers answered"
        if problems:
            parts.append("\n".join((f"{told}; what is wrong:", *(f"  {p}" for p in problems))))
        else:
            parts.append(f"{told}; nothing is wrong")
        return "\n\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """All answers as they came, and the problems."""
        return {
            "time": self.here.now,
            "servers": [self._reply_as_json(reply) for reply in self.replies],
            "no_answer": [f"{r.server.kind} {r.server.name}" for r in self.silent],
            "problems": self.problems(),
            "here": {"rings": dict(self.here.rings), "martlet.conf": self.here.conf},
        }

    def _reply_as_json(self, reply: Reply) -> dict[str, Any]:
        return {
            "kind": reply.server.kind,
            "address": reply.server.name,
            "devices": list(reply.server.devices),
            "error": reply.error or None,
            "answers": {
                question.name: reply.value(question.path_for(reply.server.kind))
                for question in self._asked(reply)
            },
        }

    def _asked(self, reply: Reply) -> Iterator[Question]:
        return (q for q in self.questions if reply.server.kind in q.kinds)

    def _table(self, question: Question) -> str:
        rows = list(self._rows(question))
        if not rows:
            return f"{question.title}: none"
        is_of_host = question.is_of_host or question.is_by_device
        heads = ("host" if is_of_host else "server", *question.heads)
        if question.is_by_device:
            return self._device_table(question, heads, rows)
        shown = _grouped(rows) if question.is_grouped else rows
        return f"{question.title}\n" + cells.table(heads, shown, cells.footer(rows))

    def _rows(self, question: Question) -> Iterator[Row]:
        """The rows of all servers, with the name before each; of a host, those of its first one."""
        seen: set[tuple[str, str]] = set()
        for reply in self.replies:
            server = reply.server
            if server.kind not in question.kinds:
                continue
            value = reply.value(question.path_for(server.kind))
            if value is None:
                continue
            for row in question.rows(self.here, reply, value):
                if not (question.is_of_host or question.is_by_device):
                    yield (f"{server.kind} {server.name}", *row)
                    continue
                key = (server.ip, str(row[0]) if question.is_by_device else "")
                if key not in seen:
                    seen.add(key)
                    yield (server.ip, *row)

    def _device_table(self, question: Question, heads: Sequence[str], rows: Sequence[Row]) -> str:
        """A table of devices, or of those in use most and least; the last column says how much."""

        def use(row: Sequence[Cell | str]) -> float:
            last = row[-1]
            return (last.number or 0.0) if isinstance(last, Cell) else 0.0

        ordered = sorted(rows, key=use, reverse=True)
        below = cells.footer(rows)
        if not self.top and not self.lowest:
            return f"{question.title}\n" + cells.table(heads, rows, below)
        parts = []
        if self.top:
            parts.append(
                f"{question.title}: in use most\n" + cells.table(heads, ordered[: self.top], below)
            )
        if self.lowest:
            least = ordered[::-1][: self.lowest]
            parts.append(f"{question.title}: in use least\n" + cells.table(heads, least, below))
        return "\n\n".join(parts)

    def _overview(self) -> str:
        kinds = dict.fromkeys(reply.server.kind for reply in self.replies)
        parts = []
        for kind in kinds:
            rows = [self._line(reply) for reply in self.replies if reply.server.kind == kind]
            keep = [i for i in range(len(_HEADS)) if any(_has(row[i]) for row in rows)]
            heads = [_HEADS[i] for i in keep]
            shown = [[row[i] for i in keep] for row in rows]
            parts.append(f"{kind} servers\n{cells.table(heads, shown)}")
        return "\n\n".join(parts)

    def _line(self, reply: Reply) -> list[Cell | str]:
        kind = reply.server.kind

        def value(name: str) -> Any:
            return reply.value(BY_NAME[name].path_for(kind))

        def figures(of: Any, name: str) -> Any:
            return of.get(name) if isinstance(of, dict) else None

        if reply.error and not reply.answers:
            return [
                reply.server.name,
                "NO ANSWER",
                *([Cell(cells.NOTHING)] * (len(_HEADS) - 3)),
                "",
            ]
        replication = value("replication")
        stats = figures(replication, "replication_stats") or {}
        here, digests = self.here, value("md5")
        conf = value("conf-md5")
        is_same = not any(rings_differ(here, digests)) and conf_in(conf) == here.conf
        return [
            reply.server.name,
            "NO ANSWER" if reply.error else "ok",
            cells.age(replication_moment(replication), here.now),
            _of(in_sync(stats), cells.count(figures(stats, "attempted"))),
            cells.count(figures(stats, "handoffs")),
            cells.count(figures(stats, "doubtful")),
            cells.count(figures(stats, "failure")),
            cells.count(figures(value("async"), "async_pending")),
            cells.count(figures(value("quarantined"), f"{kind}s")),
            _disks(value("diskusage"), value("unmounted"), reply.server.devices),
            "" if digests is None else ("same" if is_same else "DIFFER"),
        ]


def _grouped(rows: Iterable[Row]) -> list[Row]:
    """Rows that are the same but for the server are one, with the number of servers."""
    groups: dict[tuple[Cell | str, ...], list[Cell | str]] = {}
    for server, *row in rows:
        groups.setdefault(tuple(row), []).append(server)
    return [
        (servers[0] if len(servers) == 1 else f"{len(servers)} servers", *row)
        for row, servers in groups.items()
    ]


def _has(cell: Cell | str) -> bool:
    return cell.text != cells.NOTHING if isinstance(cell, Cell) else bool(cell)


def _of(part: Cell, whole: Cell) -> Cell:
    if part.number is None:
        return part
    return Cell(f"{part.text}/{whole.text}", part.number)


def _disks(usage: Any, unmounted: Any, names: Iterable[str]) -> Cell | str:
    """The share in use of the devices of the ring, and the devices that cannot be used."""
    devices = [one for one in devices_in(usage) if one.get("device") in set(names)]
    used = sum(cells.number_in(one.get("used")) or 0.0 for one in devices)
    whole = sum(cells.number_in(one.get("size")) or 0.0 for one in devices)
    shown = cells.share(used, whole)
    missing = len(unmounted) if isinstance(unmounted, list) else 0
    return Cell(f"{shown.text}, {missing} MISSING") if missing else shown
