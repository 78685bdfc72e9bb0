"""``martlet recon``: the servers of the rings, their answers as tables, and what is wrong."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from patience import patiently

from cluster.command import main
from cluster.recon import cells
from cluster.recon.cells import Cell, footer, table
from cluster.recon.questions import BY_NAME, QUESTIONS, Here
from cluster.recon.report import Report
from cluster.recon.summary import as_line
from martlet.recon.ask import KIND_PATH, Answer, Reply, Server

NOW = 1_800_000_000.0
MD5 = "0" * 32
OTHER_MD5 = "f" * 32


def rows(question: str, value: Any, kind: str = "object", here: Here | None = None) -> list[Any]:
    """The texts of the rows of one server."""
    reply = Reply(Server(kind, "10.0.0.1", 6200))
    reply.answers["time"] = Answer(200, value, NOW, NOW + 1)
    found = BY_NAME[question].rows(here or Here(NOW), reply, value)
    return [[c if isinstance(c, str) else c.text for c in row] for row in found]


def problems(
    question: str, value: Any, kind: str = "object", here: Here | None = None
) -> list[str]:
    """The sentences about one server."""
    reply = Reply(Server(kind, "10.0.0.1", 6200))
    reply.answers["time"] = Answer(200, value, NOW, NOW + 1)
    return list(BY_NAME[question].problems(here or Here(NOW), reply, value))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (cells.count(3), "3"),
        (cells.count(0.125), "0.12"),
        (cells.count(None), "-"),
        (cells.count("3"), "-"),
        (cells.count(True), "-"),
        (cells.count(float("nan")), "-"),
        (cells.span(0.25), "0.2 s"),
        (cells.span(90), "90 s"),
        (cells.span(150), "2 min"),
        (cells.span(7200), "2 h"),
        (cells.span(200_000), "2 d"),
        (cells.age(NOW - 12, NOW), "12 s ago"),
        (cells.age(NOW + 5, NOW), "0.0 s ago"),
        (cells.age(None, NOW), "never"),
        (cells.age(0, NOW), "never"),
        (cells.age("yesterday", NOW), "yesterday"),
        (cells.size(1023), "1023 B"),
        (cells.size(1536), "1.5 KiB"),
        (cells.size(3 << 40), "3.0 TiB"),
        (cells.size(None), "-"),
        (cells.share(1, 8), "12.5 %"),
        (cells.share(1, 0), "-"),
    ],
)
def test_figures_as_text(cell: Cell, text: str) -> None:
    assert cell.text == text


def test_a_table() -> None:
    found = [("a", cells.count(5), cells.size(10)), ("bb", cells.count(70), Cell(cells.NOTHING))]
    assert table(("name", "n", "size"), found, footer(found)).splitlines() == [
        "  name         n  size",
        "  a            5  10 B",
        "  bb          70     -",
        "  lowest       5  10 B",
        "  average  37.50  10 B",
        "  highest     70  10 B",
        "  total       75  10 B",
    ]
    assert footer(found[:1]) == []


def test_a_table_has_no_control_sequences() -> None:
    assert "\x1b" not in table(("name",), [("\x1b[31m",)])


def test_rows_of_replication() -> None:
    stats = {"attempted": 7, "in_sync": 6, "handoffs": 1, "doubtful": 0, "failure": 2}
    value = {"replication_last": NOW - 30, "replication_time": 2.0, "replication_stats": stats}
    assert rows("replication", value) == [["30 s ago", "2 min", "7", "6", "1", "0", "2"]]
    assert rows("replication", value, "container")[0][:2] == ["30 s ago", "2.0 s"]
    swift = {"object_replication_last": NOW - 30, "object_replication_time": 2.0}
    assert rows("replication", swift) == [["30 s ago", "2 min", "-", "-", "-", "-", "-"]]
    counted = {**swift, "replication_stats": {"attempted": 4, "success": 3}}
    assert rows("replication", counted)[0][2:4] == ["4", "3"]
    assert rows("replication", {"replication_last": None})[0][0] == "never"
    assert problems("replication", value) == []
    for last, says in ((None, "ended no pass"), (NOW - 3 * 86400, "last pass 3 d ago")):
        (told,) = problems("replication", {"replication_last": last})
        assert says in told
    value["replication_stats"] = {**stats, "doubtful": 3}
    (told,) = problems("replication", value)
    assert told.startswith("3 partitions have lost records")


def test_rows_of_auditors_whether_by_device_or_not() -> None:
    one = {"passes": 3, "errors": 1, "quarantined": 1, "audit_time": 5.0, "start_time": NOW - 60}
    two = {"passes": 4, "errors": 0, "quarantined": 0, "audit_time": 6.0, "start_time": NOW - 20}
    value = {"object_auditor_stats_ALL": {"d1": one, "d2": two}, "object_auditor_stats_ZBF": two}
    assert rows("auditor", value) == [
        ["ALL", "7", "1", "1", "60 s ago", "11 s"],
        ["ZBF", "4", "0", "0", "20 s ago", "6.0 s"],
    ]
    database = {
        "account_audits_passed": 9,
        "account_audits_failed": 0,
        "account_audits_since": NOW - 20,
        "account_auditor_pass_completed": 1.5,
    }
    assert rows("auditor", database, "account") == [["account", "9", "0", "-", "20 s ago", "1.5 s"]]


@pytest.mark.parametrize("question", [q.name for q in QUESTIONS])
@pytest.mark.parametrize("value", [None, {}, [], 3, "x", [3], {"a": [1]}, [{"mounted": "x"}]])
def test_any_answer_has_rows(question: str, value: Any) -> None:
    for kind in BY_NAME[question].kinds:
        for row in rows(question, value, kind):
            assert len(row) == len(BY_NAME[question].heads)
        assert isinstance(problems(question, value, kind), list)


def test_what_is_wrong() -> None:
    here = Here(NOW, {"account.ring.gz": MD5, "object-1.ring.gz": MD5}, MD5, 0.1)
    same = {"/x/account.ring.gz": MD5, "/y/object-1.ring.gz": MD5}
    assert problems("md5", same, here=here) == []
    lacking, other = problems("md5", {"/x/account.ring.gz": OTHER_MD5}, here=here)[::-1]
    assert "account.ring.gz is another one" in other
    assert OTHER_MD5 in other
    assert "it has no object-1.ring.gz" in lacking
    assert problems("conf-md5", {"/x/martlet.conf": MD5}, here=here) == []
    assert problems("conf-md5", {"/x/martlet.conf": OTHER_MD5}, here=here)
    assert problems("time", NOW + 0.5, here=here) == []
    assert "off by +1.500 s" in problems("time", NOW + 2.5, here=here)[0]
    assert "off by -0.500 s" in problems("time", NOW - 0.5, here=here)[0]
    assert problems("time", NOW - 0.05, here=here) == []
    assert problems("validate-servers", "object-server") == []
    assert "its kind is account-server" in problems("validate-servers", "account-server")[0]
    assert (
        "device d7 cannot be used" in problems("unmounted", [{"device": "d7", "mounted": False}])[0]
    )
    assert "an I/O error" in problems("unmounted", [{"device": "d", "mounted": "an I/O error"}])[0]
    assert problems("reconciler", {"reconciler_waits_for": None}) == []
    assert problems("reconciler", {"reconciler_waits_for": []}) == []
    (waits,) = problems("reconciler", {"reconciler_waits_for": [["10.0.0.2:6201/d2", 7]]})
    assert "7 objects" in waits
    assert "10.0.0.2:6201/d2 does not answer" in waits
    assert problems("driveaudit", {"drive_audit_errors": 0}) == []
    assert "4 errors" in problems("driveaudit", {"drive_audit_errors": 4})[0]


def usage(device: str, used: int) -> dict[str, Any]:
    return {"device": device, "mounted": True, "size": 100, "used": used, "avail": 100 - used}


def test_devices_come_once_and_by_their_use() -> None:
    replies = []
    for kind, devices in (("account", ("d1", "d2")), ("object", ("d1", "d2", "d3"))):
        reply = Reply(Server(kind, "10.0.0.1", 6200))
        value = [usage(name, 10 * int(name[1])) for name in devices]
        reply.answers["diskusage"] = Answer(200, value, NOW, NOW)
        replies.append(reply)
    question = [BY_NAME["diskusage"]]
    text = Report(Here(NOW), question, replies).as_text()
    assert [line.split()[1] for line in text.splitlines()[2:5]] == ["d1", "d2", "d3"]
    text = Report(Here(NOW), question, replies, top=1, lowest=2).as_text()
    most, least = text.split("\n\n")[:2]
    assert most.splitlines()[2].split()[1] == "d3"
    assert [line.split()[1] for line in least.splitlines()[2:4]] == ["d1", "d2"]


def test_a_server_without_a_figure_is_named() -> None:
    reply = Reply(Server("object", "10.0.0.1", 6200))
    reply.answers["async"] = Answer(404, None, NOW, NOW)
    report = Report(Here(NOW), [BY_NAME["async"]], [reply])
    (told,) = report.problems()
    assert told == (
        "object server 10.0.0.1:6200 has no figures of pending container updates: it answers 404 "
        "to async"
    )
    assert "pending container updates: none" in report.as_text()


def test_the_line_of_status() -> None:
    found = {"servers": 4, "answered": 4, "last": NOW - 12, "attempted": 9, "in_sync": 9}
    found |= {"handoffs": 0, "failures": 0}
    none = {**found, "last": None, "attempted": 0, "in_sync": 0}
    assert as_line({"account": none, "object": found}, NOW) == (
        "replication  objects 12 s ago, 9 of 9 partitions in sync, 0 hand-offs left"
    )
    assert as_line({"account": none}, NOW) == "replication  no pass has ended yet"
    bad = {**found, "last": None, "answered": 3, "failures": 2}
    assert as_line({"container": bad}, NOW) == (
        "replication  containers never, 9 of 9 databases in sync, 0 hand-offs left, 2 FAILURES "
        "(1 of 4 servers silent)"
    )


Answers = Mapping[str, Any]


class Serving:
    """Servers on this host: each is a map of answers by path, or a script of its own."""

    def __init__(self) -> None:
        self.servers: list[ThreadingHTTPServer] = []
        self.sockets: list[socket.socket] = []

    def serve(self, answers: Answers, kind: str = "object-server") -> int:
        """Serve and return the port. An answer may be a status."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = answers.get(self.path.removeprefix("/recon/"), 404)
                status = found if isinstance(found, int) else 200
                self.reply(status, json.dumps(found).encode())

            def do_OPTIONS(self) -> None:
                self.reply(200, b"")

            def version_string(self) -> str:
                return f"{kind}/1"

            def reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.servers.append(server)
        return int(server.server_address[1])

    def hang(self) -> int:
        """A port whose server accepts connections, and never answers."""
        self.sockets.append(socket.create_server(("127.0.0.1", 0)))
        return int(self.sockets[-1].getsockname()[1])

    def refuse(self) -> int:
        """A port without a server."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    def close(self) -> None:
        for server in self.servers:
            server.shutdown()
            server.server_close()
        for sock in self.sockets:
            sock.close()


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving()
    yield made
    made.close()


def recon(
    capsys: pytest.CaptureFixture[str], directory: Path, *arguments: str
) -> tuple[int, dict[str, Any]]:
    status = main(["recon", "--json", "-d", str(directory), *arguments])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, found


def test_servers_that_hang_or_are_away_are_named(
    capsys: pytest.CaptureFixture[str], serving: Serving, swift_dir: Callable[..., Path]
) -> None:
    good = serving.serve({"load": {"1m": 0.5}, "async": {"async_pending": 3}})
    away, hangs = serving.refuse(), serving.hang()
    directory = swift_dir(object=[good, away, hangs])

    def attempt(timeout: float) -> None:
        asked = ("object", "-p", "gold", "--loadstats", "--async", "-t", str(timeout))
        status, report = recon(capsys, directory, *asked)
        assert status == 3
        assert report["no_answer"] == [f"object 127.0.0.1:{port}" for port in sorted((away, hangs))]
        (answered,) = [one for one in report["servers"] if not one["error"]]
        assert answered["answers"] == {"async": {"async_pending": 3}, "loadstats": {"1m": 0.5}}
        told = " ".join(report["problems"])
        assert f"127.0.0.1:{hangs} does not answer: no answer in {timeout:g} s" in told
        assert f"127.0.0.1:{away} does not answer: cannot connect" in told
        assert main(["recon", "-d", str(directory), *asked]) == 3
        text = capsys.readouterr().out
        assert "1 of 3 servers answered; what is wrong:" in text

    patiently(attempt)


def test_all_questions_at_once(
    capsys: pytest.CaptureFixture[str], serving: Serving, swift_dir: Callable[..., Path]
) -> None:
    directory = swift_dir(object=[serving.serve({})])
    status, report = recon(capsys, directory, "object", "-p", "0", "--all")
    assert status == 1
    (server,) = report["servers"]
    wanted = {question.name for question in QUESTIONS if "object" in question.kinds}
    assert set(server["answers"]) == wanted
    assert server["answers"].pop("validate-servers") == "object-server"
    assert set(server["answers"].values()) == {None}
    # All but the kind of the server, which is right.
    assert len(report["problems"]) == len(wanted) - 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["object"], {"object": {3, 4, 5}}),
        (["object", "-p", "silver"], {"object": {5}}),
        (["object", "-p", "0", "-z", "2"], {"object": {4}}),
        (["account", "container"], {"account": {1}, "container": {2}}),
        ([], {"account": {1}, "container": {2}, "object": {3, 4, 5}}),
    ],
)
def test_the_choice_of_servers(
    capsys: pytest.CaptureFixture[str],
    swift_dir: Callable[..., Path],
    arguments: list[str],
    expected: dict[str, set[int]],
) -> None:
    directory = swift_dir(object=[3, 4], object_1=[5])
    _, report = recon(capsys, directory, *arguments, "--loadstats", "-t", "1")
    found: dict[str, set[int]] = {}
    for server in report["servers"]:
        found.setdefault(server["kind"], set()).add(int(server["address"].rpartition(":")[2]))
    assert found == expected


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["proxy"], "'proxy' is no kind of server: account, container, object"),
        (["-p", "bronze"], "there is no storage policy 'bronze'; there are: gold (0), silver (1)"),
        (["object", "-z", "9"], "there is nothing to ask"),
        (["account", "--async"], "there is nothing to ask"),
    ],
)
def test_what_cannot_be_asked(
    capsys: pytest.CaptureFixture[str],
    swift_dir: Callable[..., Path],
    arguments: list[str],
    part: str,
) -> None:
    assert main(["recon", "-d", str(swift_dir()), *arguments]) == 1
    assert part in capsys.readouterr().err


def test_a_directory_without_rings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["recon", "-d", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "martlet.conf" in told
    assert "-d names another directory" in told


@pytest.mark.parametrize("words", [["--timeout", "0"], ["--timeout", "x"], ["--top", "x"]])
def test_usage_errors(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["recon", *words])
    assert ended.value.code == 2


def test_the_kind_is_asked_with_options() -> None:
    assert BY_NAME["validate-servers"].path_for("object") == KIND_PATH
