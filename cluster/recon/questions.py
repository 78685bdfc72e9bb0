# SPDX-License-Identifier: Apache-2.0
"""The questions of ``martlet recon``: a path below /recon/, columns of its answer, and problems.

The paths and the keys are those of OpenStack Swift's recon, so servers of Swift answer, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.recon import cells
from cluster.recon.cells import Cell
from cluster.swift_dir import KINDS
from martlet.recon.ask import KIND_PATH, Reply

OBJECT = ("object",)
#: An older pass of a replicator is a problem, seconds; also in etc/prometheus-alerts.yml.
_PASS_SECONDS_MAX = 86400.0


@dataclass(frozen=True)
class Here:
    """The files and the clock of this host, with which answers are compared."""

    now: float
    rings: Mapping[str, str] = field(default_factory=dict)  # file name -> MD5
    conf: str = ""  # MD5 of martlet.conf
    jitter: float = 0.0  # seconds that a clock may be off


@dataclass(frozen=True)
class Question:
    """A question to the servers of some kinds.

    ``rows`` are those of a table for the answer of one server, without the server's name.
    ``problems`` are sentences about it, without the server's name.
    """

    name: str
    help: str
    title: str
    path: str  # {} stands for the kind
    heads: Sequence[str]
    rows: Callable[[Here, Reply, Any], Iterable[Sequence[Cell | str]]]
    kinds: Sequence[str] = KINDS
    problems: Callable[[Here, Reply, Any], Iterable[str]] = lambda here, reply, value: ()
    is_of_host: bool = False  # all servers of a host answer the same
    is_by_device: bool = False  # the first column is a device of the host
    is_grouped: bool = False  # servers with the same answers share a line

    def path_for(self, kind: str) -> str:
        """The path of the question at servers of a kind."""
        return self.path.format(kind)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [_map(one) for one in value] if isinstance(value, list) else []


def _async(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found = _map(value)
    pending = cells.number_in(found.get("async_pending"))
    oldest = found.get("oldest_age") if pending else None
    yield cells.count(pending), cells.span(oldest)


def replication_moment(value: Any) -> Any:
    """The end of the last pass of a replicator; None if it has not finished one."""
    found = _map(value)
    return found.get("replication_last") or found.get("object_replication_last")


def _replication(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found, stats = _map(value), _map(_map(value).get("replication_stats"))
    took = cells.number_in(found.get("replication_time"))
    if took is None:
        took = cells.number_in(found.get("object_replication_time"))
    if took is not None and reply.server.kind == "object":
        took *= 60.0  # Swift gives that of objects in minutes
    yield (
        cells.age(replication_moment(value), here.now),
        cells.span(took),
        cells.count(stats.get("attempted")),
        in_sync(stats),
        cells.count(stats.get("handoffs")),
        cells.count(stats.get("doubtful")),
        cells.count(stats.get("failure")),
    )


def in_sync(stats: Mapping[str, Any]) -> Cell:
    """Partitions or databases of which all replicas are equal, as far as the server knows."""
    return cells.count(stats.get("in_sync", stats.get("success")))


def _replication_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    last = cells.number_in(replication_moment(value))
    if last is None:
        yield "its replicator has ended no pass yet: look whether martlet-background runs there"
    elif here.now - last > _PASS_SECONDS_MAX:
        yield (
            f"its replicator ended its last pass {cells.age(last, here.now).text}: look whether "
            "martlet-background runs there, and at its log"
        )
    doubtful = cells.number_in(_map(_map(value).get("replication_stats")).get("doubtful"))
    if doubtful:
        yield (
            f"{doubtful:.0f} partitions have lost records of unknown names, and not all peers "
            "could give what they have: bring all servers back, see doc/bundle-tools.md"
        )


def _audits(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    found, kind = _map(value), reply.server.kind
    if kind != "object":
        passed, failed = found.get(f"{kind}_audits_passed"), found.get(f"{kind}_audits_failed")
        since, took = found.get(f"{kind}_audits_since"), found.get(f"{kind}_auditor_pass_completed")
        yield (
            kind,
            *(cells.count(passed), cells.count(failed), Cell(cells.NOTHING)),
            *(cells.age(since, here.now), cells.span(took)),
        )
        return
    for name in ("ALL", "ZBF"):
        stats = found.get(f"object_auditor_stats_{name}")
        began = min(_numbers(stats, "start_time"), default=None)
        yield (
            name,
            _sum(stats, "passes"),
            _sum(stats, "errors"),
            _sum(stats, "quarantined"),
            cells.age(began, here.now),
            cells.span(sum(_numbers(stats, "audit_time")) if stats else None),
        )


def _numbers(stats: Any, name: str) -> list[float]:
    """The numbers of that name, at any depth: an auditor may keep figures for each device."""
    found = []
    for key, value in _map(stats).items():
        number = cells.number_in(value)
        if key == name and number is not None:
            found.append(number)
        else:
            found += _numbers(value, name)
    return found


def _sum(stats: Any, name: str) -> Cell:
    found = _numbers(stats, name)
    return cells.count(sum(found) if found else None)


def _updater(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found, kind = _map(value), reply.server.kind
    last = found.get(f"{kind}_updater_last")
    yield (
        cells.span(found.get(f"{kind}_updater_sweep")),
        cells.age(last, here.now) if last else Cell(cells.NOTHING),
    )


def _expirer(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found = _map(value)
    yield (
        cells.span(found.get("object_expiration_pass")),
        cells.count(found.get("expired_last_pass")),
    )


def _lifecycle(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found = _map(_map(value).get("object_lifecycle"))
    yield (
        cells.age(found.get("start_time"), here.now),
        cells.span(found.get("pass_time")),
        *(
            cells.count(found.get(name))
            for name in ("expired", "removed", "aborted", "refused", "failures")
        ),
    )


def _sharding(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found, stats = _map(value), _map(_map(value).get("sharding_stats"))
    yield (
        cells.age(found.get("sharding_last"), here.now),
        cells.span(found.get("sharding_time")),
        *(cells.count(stats.get(name)) for name in ("attempted", "success", "failure")),
    )


def _reconciler(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found, stats = _map(value), _map(_map(value).get("reconciler_stats"))
    moved = [cells.number_in(stats.get(name)) for name in ("copied", "deleted", "versions")]
    counted = [count for count in moved if count is not None]
    yield (
        cells.age(found.get("reconciler_last"), here.now),
        cells.span(found.get("reconciler_time")),
        cells.count(sum(counted) if counted else None),
        *(cells.count(stats.get(name)) for name in ("waiting", "unanswered", "failed")),
    )


def _reconciler_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    replicas = _map(value).get("reconciler_waits_for")
    for one in replicas if isinstance(replicas, list) else []:
        if isinstance(one, list) and len(one) == 2:
            yield (
                f"{one[1]} objects stay in the wrong policy while the container replica {one[0]} "
                "does not answer: bring it back, or remove it from the ring; see doc/ring.md"
            )


def _unmounted(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    for one in _list(value):
        yield str(one.get("device")), _unusable(one)


def _unusable(device: Mapping[str, Any]) -> str:
    state = device.get("mounted")
    return state if isinstance(state, str) else "not mounted, or it cannot be used"


def _unmounted_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    for one in _list(value):
        yield (
            f"device {one.get('device')} cannot be used: {_unusable(one)}. The log of the server "
            "has the reason; see doc/operations.md"
        )


def devices_in(value: Any) -> list[Mapping[str, Any]]:
    """The devices of an answer that can be used."""
    return [one for one in _list(value) if one.get("mounted") is True and one.get("size")]


def _disk_usage(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    for one in devices_in(value):
        used, whole = (cells.number_in(one.get(name)) or 0.0 for name in ("used", "size"))
        yield (
            str(one.get("device")),
            *(cells.size(one.get(name)) for name in ("size", "used", "avail")),
            cells.share(used, whole),
        )


def _load(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    found = _map(value)
    yield (
        *(cells.count(found.get(name)) for name in ("1m", "5m", "15m")),
        str(found.get("tasks", cells.NOTHING)),
    )


def _memory(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found = _map(value)
    figures = []
    for name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree"):
        words = str(found.get(name, "")).split()
        number = float(words[0]) * 1024 if words and words[0].isdigit() else None
        figures.append(cells.size(number))
    yield figures


def _quarantined(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    found = _map(value)
    policies = ", ".join(
        f"{index}: {cells.count(_map(counts).get('objects')).text}"
        for index, counts in sorted(_map(found.get("policies")).items())
    )
    names = ("accounts", "containers", "objects")
    # Servers of one host count the same devices, so a sum has no meaning.
    yield (*(cells.count(found.get(name), adds=False) for name in names), policies)


def _sockets(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    found = _map(value)
    counts = ("tcp_in_use", "tcp6_in_use", "time_wait", "orphan")
    memory = cells.size(found.get("tcp_mem_allocated_bytes"))
    yield (*(cells.count(found.get(name)) for name in counts), memory)


def _drive_audit(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    yield (cells.count(_map(value).get("drive_audit_errors")),)


def _drive_audit_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    errors = cells.number_in(_map(value).get("drive_audit_errors"))
    if errors:
        yield f"its drive audit has found {errors:.0f} errors: look at its kernel log"


def digests_in(value: Any) -> dict[str, str]:
    """MD5 by the name of the file; servers have the files in any directory."""
    return {path.rpartition("/")[2]: str(digest) for path, digest in _map(value).items() if digest}


def rings_differ(here: Here, value: Any) -> Iterator[str]:
    """The rings of an answer that are not those of this host."""
    there = digests_in(value)
    for name, digest in here.rings.items():
        if name not in there:
            yield f"it has no {name}: copy it from here"
        elif there[name] != digest:
            digests = f"md5 {there[name]}, here {digest}"
            yield f"its {name} is another one ({digests}): copy the newer one to all hosts"


def _rings(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    there = digests_in(value)
    for name, digest in sorted({**there, **here.rings}.items()):
        found = there.get(name, cells.NOTHING)
        is_known = name in here.rings
        says = "same" if found == digest else "DIFFERS"
        yield name, found, says if is_known else "not here"


def _ring_problems(here: Here, reply: Reply, value: Any) -> Iterable[str]:
    return rings_differ(here, value)


def conf_in(value: Any) -> str:
    """The MD5 of the conf of the cluster in an answer."""
    return next(iter(digests_in(value).values()), "")


def _conf(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell | str]]:
    digest = conf_in(value)
    yield digest or cells.NOTHING, "same" if digest == here.conf else "DIFFERS"


def _conf_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    digest = conf_in(value)
    if digest != here.conf:
        yield (
            f"its martlet.conf is another one (md5 {digest or 'unknown'}, here {here.conf}): "
            "it must be the same on all hosts"
        )


def _off(reply: Reply, value: Any) -> float | None:
    """The least error of the clock of a server, seconds."""
    answer, there = reply.answers["time"], cells.number_in(value)
    if there is None:
        return None
    if there < answer.sent:
        return there - answer.sent
    return max(0.0, there - answer.received)


def _time(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[Cell]]:
    off = _off(reply, value)
    yield (Cell(cells.NOTHING) if off is None else Cell(f"{off:+.3f} s", abs(off)),)


def _time_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    off = _off(reply, value)
    if off is not None and abs(off) > here.jitter:
        yield f"its clock is off by {off:+.3f} s from that of this host: check NTP on both"


def _version(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[str]]:
    yield (str(_map(value).get("version", cells.NOTHING)),)


def _kind(here: Here, reply: Reply, value: Any) -> Iterator[Sequence[str]]:
    yield (str(value or cells.NOTHING),)


def _kind_problems(here: Here, reply: Reply, value: Any) -> Iterator[str]:
    wanted = f"{reply.server.kind}-server"
    if value != wanted:
        yield f"its kind is {value or 'not known'}, and the ring wants {wanted}: check the ports"


#: In the order of their output.
QUESTIONS = (
    Question(
        "async",
        "container updates that object servers have not delivered",
        "pending container updates",
        "async",
        ("pending", "oldest"),
        _async,
        OBJECT,
    ),
    Question(
        "replication",
        "the last pass of each replicator",
        "replication",
        "replication/{}",
        ("last", "took", "attempted", "in sync", "hand-offs", "doubts", "failures"),
        _replication,
        problems=_replication_problems,
    ),
    Question(
        "auditor",
        "what auditors have read, and found",
        "auditors",
        "auditor/{}",
        ("audit", "passed", "failed", "quarantined", "since", "took"),
        _audits,
    ),
    Question(
        "updater",
        "the last sweep of updaters, which servers of OpenStack Swift have",
        "updaters",
        "updater/{}",
        ("sweep", "last"),
        _updater,
        ("container", "object"),
    ),
    Question(
        "expirer",
        "the last pass of object expirers",
        "object expirers",
        "expirer/object",
        ("took", "expired"),
        _expirer,
        OBJECT,
    ),
    Question(
        "lifecycle",
        "the last pass of the lifecycle rules of buckets",
        "lifecycle rules",
        "lifecycle/object",
        ("began", "took", "expired", "removed", "aborted", "refused", "failures"),
        _lifecycle,
        OBJECT,
    ),
    Question(
        "sharding",
        "the last pass of container sharders",
        "container sharders",
        "sharding",
        ("last", "took", "attempted", "succeeded", "failures"),
        _sharding,
        ("container",),
    ),
    Question(
        "reconciler",
        "the last pass of container reconcilers",
        "container reconcilers",
        "reconciler/container",
        ("last", "took", "moved", "waiting", "unanswered", "failures"),
        _reconciler,
        ("container",),
        problems=_reconciler_problems,
    ),
    Question(
        "unmounted",
        "devices that cannot be used",
        "devices that cannot be used",
        "unmounted",
        ("device", "reason"),
        _unmounted,
        problems=_unmounted_problems,
    ),
    Question(
        "diskusage",
        "the use of each device",
        "disk usage",
        "diskusage",
        ("device", "size", "used", "free", "in use"),
        _disk_usage,
        is_by_device=True,
    ),
    Question(
        "loadstats",
        "load averages of the hosts",
        "load averages",
        "load",
        ("1 min", "5 min", "15 min", "tasks"),
        _load,
        is_of_host=True,
    ),
    Question(
        "memory",
        "memory of the hosts",
        "memory",
        "mem",
        ("total", "available", "swap", "swap free"),
        _memory,
        is_of_host=True,
    ),
    Question(
        "quarantined",
        "databases and objects that were put aside as damaged",
        "quarantine",
        "quarantined",
        ("accounts", "containers", "objects", "objects by policy"),
        _quarantined,
    ),
    Question(
        "sockstat",
        "TCP sockets of the hosts",
        "TCP sockets",
        "sockstat",
        ("IPv4", "IPv6", "time-wait", "orphans", "memory"),
        _sockets,
        is_of_host=True,
    ),
    Question(
        "driveaudit",
        "errors that swift-drive-audit has found in kernel logs",
        "drive audit",
        "driveaudit",
        ("errors",),
        _drive_audit,
        is_of_host=True,
        problems=_drive_audit_problems,
    ),
    Question(
        "validate-servers",
        "whether a server of the right kind answers at each address of the rings",
        "kinds of servers",
        KIND_PATH,
        ("is a",),
        _kind,
        problems=_kind_problems,
        is_grouped=True,
    ),
    Question(
        "md5",
        "whether all servers have the rings of this host",
        "rings",
        "ringmd5",
        ("ring", "md5", "compared"),
        _rings,
        problems=_ring_problems,
        is_grouped=True,
    ),
    Question(
        "conf-md5",
        "whether all servers have the martlet.conf of this host",
        "martlet.conf",
        "swiftconfmd5",
        ("md5", "compared"),
        _conf,
        problems=_conf_problems,
        is_grouped=True,
    ),
    Question(
        "time",
        "whether the clocks of all servers agree with that of this host",
        "clocks",
        "time",
        ("off by",),
        _time,
        problems=_time_problems,
    ),
    Question(
        "versions",
        "releases of the servers",
        "versions",
        "version",
        ("version",),
        _version,
        is_grouped=True,
    ),
)
BY_NAME = {question.name: question for question in QUESTIONS}
