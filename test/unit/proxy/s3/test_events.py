"""Events of objects: which requests make them, their records, the queue, and the webhook."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from running_cluster import await_true
from storage_app import StorageApp
from webhook import Webhook

from martlet.http.call import call_app
from martlet.http.environ import NOTIFICATION_TARGETS, S3_WRITE, SOURCE, Environ
from martlet.http.request import Request
from martlet.http.response import Response
from proxy import spool
from proxy.s3.events import outbox
from proxy.s3.events.notifications import Notifications, filter_factory
from proxy.s3.events.options import NotificationOptions, Target
from proxy.s3.events.outbox import Line, Outbox, Outcome, Webhooks
from proxy.s3.events.record import Event, record_of
from proxy.s3.wire.notification import CREATED, REMOVED, SETTING, Rule, arn_of, xml_of_rules
from proxy.s3.wire.stored_documents import SYSMETA, headers_of
from proxy.spool import Spool, SpoolFile

_MOMENT = 1_700_000_000_123_456_789


def info_of(*rules: Rule) -> dict[str, Any]:
    headers = headers_of(SETTING, xml_of_rules(rules))
    sysmeta = {name.removeprefix(SYSMETA).lower(): value for name, value in headers.items()}
    return {"status": 200, "meta": {}, "sysmeta": sysmeta, "storage_policy": 0}


ALL = Rule("all", arn_of("orders"), "orders", (f"{CREATED}*", f"{REMOVED}*"))


class Stage:
    """The filter before a storage; its outbox only keeps what is put into it."""

    def __init__(self, *rules: Rule, answer: Any = None) -> None:
        options = NotificationOptions(webhooks=["orders=http://h/", "audit=http://h/"])
        self.outbox = Outbox(options, lambda target, record: Outcome.DONE)
        self.outbox.start = lambda: None  # type: ignore[method-assign]
        self.storage = StorageApp({"/v1/a/b": info_of(*(rules or (ALL,)))}, answer or _stored)
        self.app = Notifications(self.storage, options, self.outbox, lambda: _MOMENT)

    def ask(
        self, method: str, path: str = "/v1/a/b/k", body: bytes = b"", **environ: Any
    ) -> tuple[int, bytes]:
        request = Request.blank(path, method, {}, body, environ=environ)
        status, _, chunks = call_app(self.app, request.environ)
        return int(status[:3]), b"".join(chunks)

    def events(self, target: str = "orders") -> list[dict[str, Any]]:
        return [json.loads(record) for record in self.outbox.lines[target].memory]

    def names(self) -> list[str]:
        return [event["EventName"] for event in self.events()]


def _stored(environ: Environ) -> Response:
    method = environ["REQUEST_METHOD"]
    status = {"PUT": 201, "DELETE": 204}.get(method, 200)
    return Response(status, {"Etag": '"e"', "Content-Length": "0"})


def test_the_record_of_a_put() -> None:
    tested = Stage()
    environ = {
        "swift.access_logging": {"user_id": "test:tester"},
        "swift.trans_id": "tx1",
        "REMOTE_ADDR": "192.0.2.7",
    }
    assert tested.ask("PUT", "/v1/a/b/d%20%C3%BC/k%22", b"12345", **environ) == (201, b"")
    (event,) = tested.events()
    assert (event["EventName"], event["Key"]) == ("s3:ObjectCreated:Put", 'b/d ü/k"')
    (record,) = event["Records"]
    assert record == {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": "2023-11-14T22:13:20.123Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "test:tester"},
        "requestParameters": {"sourceIPAddress": "192.0.2.7"},
        "responseElements": {"x-amz-request-id": "tx1", "x-amz-id-2": "tx1"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "all",
            "bucket": {
                "name": "b",
                "ownerIdentity": {"principalId": "a"},
                "arn": "arn:aws:s3:::b",
            },
            "object": {
                "key": "d+%C3%BC/k%22",
                "size": 5,
                "eTag": "e",
                "sequencer": f"{_MOMENT:016X}",
            },
        },
    }


@pytest.mark.parametrize(
    ("method", "path", "environ", "name"),
    [
        ("PUT", "/v1/a/b/k", {S3_WRITE: "Post"}, f"{CREATED}Post"),
        ("PUT", "/v1/a/b/k", {S3_WRITE: "Copy"}, f"{CREATED}Copy"),
        ("PUT", "/v1/a/b/k", {SOURCE: "SSC"}, f"{CREATED}Copy"),
        ("PUT", "/v1/a/b/k?multipart-manifest=put", {}, f"{CREATED}CompleteMultipartUpload"),
        ("DELETE", "/v1/a/b/k", {}, f"{REMOVED}Delete"),
        ("DELETE", "/v1/a/b/k?version-id=5", {}, f"{REMOVED}Delete"),
    ],
)
def test_names_of_events(method: str, path: str, environ: dict[str, str], name: str) -> None:
    tested = Stage()
    tested.ask(method, path, **environ)
    assert tested.names() == [name]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/a/b/k"),
        ("POST", "/v1/a/b/k"),
        ("PUT", "/v1/a/b"),
        ("DELETE", "/v1/a/b"),
        ("PUT", "/v1/a/b/k?version-id=5"),
        ("PUT", "/v1/a/other/k"),
    ],
)
def test_requests_without_events(method: str, path: str) -> None:
    tested = Stage()
    tested.ask(method, path)
    assert tested.names() == []


@pytest.mark.parametrize(
    ("method", "status"), [("PUT", 202), ("PUT", 403), ("PUT", 503), ("DELETE", 404)]
)
def test_what_did_not_happen_makes_no_event(method: str, status: int) -> None:
    tested = Stage(answer=lambda environ: Response(status))
    assert tested.ask(method)[0] == status
    assert tested.names() == []


def test_versions_and_delete_markers() -> None:
    def answer(environ: Environ) -> Response:
        response = _stored(environ)
        response.headers["X-Object-Version-Id"] = "17.5"
        return response

    tested = Stage(answer=answer)
    tested.ask("PUT")
    tested.ask("DELETE")
    tested.ask("DELETE", "/v1/a/b/k?version-id=3.5")
    objects = [event["Records"][0]["s3"]["object"] for event in tested.events()]
    assert [found["versionId"] for found in objects] == ["17.5", "17.5", "3.5"]
    assert tested.names() == [
        f"{CREATED}Put",
        f"{REMOVED}DeleteMarkerCreated",
        f"{REMOVED}Delete",
    ]


def test_a_size_that_is_not_known_is_asked_for() -> None:
    def answer(environ: Environ) -> Response:
        if environ["REQUEST_METHOD"] == "HEAD":
            return Response(200, {"Content-Length": "77", "X-Object-Sysmeta-S3Api-Etag": "m-2"})
        return _stored(environ)

    tested = Stage(answer=answer)
    tested.ask("PUT", "/v1/a/b/k?multipart-manifest=put", b"[]")
    assert tested.storage.calls[-1] == "HEAD /v1/a/b/k"
    found = tested.events()[0]["Records"][0]["s3"]["object"]
    assert (found["size"], found["eTag"]) == (77, "m-2")


@pytest.mark.parametrize(
    ("report", "names"),
    [
        (b'{"Response Status": "200 OK", "Errors": []}', [f"{REMOVED}Delete"]),
        (b"Response Status: 200 OK\n", [f"{REMOVED}Delete"]),
        (b'{"Response Status": "400 Bad Request", "Number Deleted": 200}', []),
    ],
)
def test_the_report_about_a_large_object_decides(report: bytes, names: list[str]) -> None:
    tested = Stage(answer=lambda environ: Response(200, {}, report))
    assert tested.ask("DELETE", "/v1/a/b/k?multipart-manifest=delete") == (200, report)
    assert tested.names() == names


def test_each_rule_gets_its_events() -> None:
    audit = Rule("two", arn_of("audit"), "audit", (f"{REMOVED}*",), "logs/")
    gone = Rule("three", arn_of("removed"), "removed", (f"{REMOVED}*",))
    tested = Stage(ALL, audit, gone)
    for key in ("logs/a", "b"):
        tested.ask("PUT", f"/v1/a/b/{key}")
        tested.ask("DELETE", f"/v1/a/b/{key}")
    assert len(tested.events()) == 4
    assert [event["Key"] for event in tested.events("audit")] == ["b/logs/a"]


def test_a_failure_here_does_not_fail_the_request(caplog: pytest.LogCaptureFixture) -> None:
    tested = Stage()
    tested.outbox.put = lambda *_: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    assert tested.ask("PUT")[0] == 201
    assert "a notification is lost" in caplog.text


def test_s3api_learns_the_targets() -> None:
    found: set[str] = set()
    Stage().ask("HEAD", "/v1/a/b", **{NOTIFICATION_TARGETS: found})
    assert found == {"orders", "audit"}


def test_without_targets_the_filter_does_nothing() -> None:
    storage = StorageApp({}, _stored)
    app = filter_factory({})(storage)
    found: set[str] = set()
    environ = Request.blank("/v1/a/b/k", "PUT", environ={NOTIFICATION_TARGETS: found}).environ
    assert call_app(app, environ)[0][:3] == "201"
    assert (found, len(storage.seen)) == (set(), 1)


@pytest.mark.parametrize(
    "options",
    [
        {"webhooks": ["orders"]},
        {"webhooks": ["orders=ftp://h/"]},
        {"webhooks": ["a b=http://h/"]},
        {"webhooks": ["a=http://h/", "a=http://i/"]},
        {"webhooks": ["a=http://h/"], "webhook_tokens": ["b=x"]},
        {"queue_bytes_max": 5},
        {"queue_dir": "here"},
        {"timeout": 0.0},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"webhook|queue|timeout"):
        NotificationOptions(**options)


# --- the queue


def _line(number: int) -> bytes:
    return b'{"n":%d}' % number


def _take(queue: Spool) -> list[bytes]:
    taken = []
    while (file := queue.next_file()) is not None:
        line = file.peek()
        assert line is not None
        taken.append(line.rstrip(b"\n"))
        file.finish(line)
    return taken


def test_events_leave_the_queue_in_order(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(spool, "FILE_BYTES_MAX", 50)
    queue = Spool(tmp_path / "orders", 10**6)
    lines = [_line(n) for n in range(40)]
    for at in range(0, 40, 4):
        assert queue.store(lines[at : at + 4]) == 4
    assert len(list((tmp_path / "orders").iterdir())) > 1
    assert queue.waiting_bytes == sum(len(line) + 1 for line in lines)
    assert _take(queue) == lines
    assert queue.waiting_bytes == 0
    assert len(list((tmp_path / "orders").iterdir())) == 1


def test_a_queue_has_a_bound(tmp_path: Path) -> None:
    queue = Spool(tmp_path / "orders", 60)
    assert queue.store([_line(n) for n in range(9)]) == 7  # no file is there yet
    assert queue.store([_line(9)]) == 0
    assert len(_take(queue)) == 7


def test_another_process_takes_over_what_is_left(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # it stores, sends one event, and is killed
        queue = Spool(tmp_path / "orders", 10**6)
        queue.store([_line(n) for n in range(3)])
        file = queue.next_file()
        assert file is not None
        file.finish(_line(0) + b"\n")
        os.write(writer, b"x")
        signal.pause()
    assert os.read(reader, 1) == b"x"
    queue = Spool(tmp_path / "orders", 10**6)
    assert not queue.adopt()  # the process lives
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert queue.adopt()
    assert _take(queue) == [_line(1), _line(2)]
    assert list((tmp_path / "orders").iterdir()) == []


@pytest.mark.parametrize("torn", [b'{"n":', b""])
def test_a_torn_line_does_not_count(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "00000000000000000001-1.events"
    path.write_bytes(b"%020d\n" % 21 + _line(1) + b"\n" + torn)
    queue = Spool(tmp_path, 10**6)
    assert queue.adopt()
    assert _take(queue) == [_line(1)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a number", b"\0" * 30])
def test_a_damaged_file_goes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1-1.events").write_bytes(content)
    queue = Spool(tmp_path, 10**6)
    assert queue.adopt()
    assert _take(queue) == []
    assert list(tmp_path.iterdir()) == []


def test_the_format_of_a_file(tmp_path: Path) -> None:
    file = SpoolFile.create(tmp_path)
    file.append([_line(1), _line(2)])
    file.finish(_line(1) + b"\n")
    assert re.fullmatch(rf"\d{{20}}-{os.getpid()}\.events", file.path.name)
    expected = b"00000000000000000029\n" + b'{"n":1}\n{"n":2}\n'
    assert file.path.read_bytes() == expected
    file.remove()


# --- the webhook


class Answers:
    """Stands for a webhook: gives these outcomes, then DONE."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.got: list[bytes] = []

    def __call__(self, target: Target, record: bytes) -> Outcome:
        self.got.append(record)
        return self.outcomes.pop(0) if self.outcomes else Outcome.DONE


def _new_line(tmp_path: Path, answers: Answers, bytes_max: int = 10**6) -> Line:
    return Line(Target("orders", "http://h/", ""), Spool(tmp_path / "orders", bytes_max), answers)


def test_an_event_is_sent_until_it_is_accepted(tmp_path: Path) -> None:
    answers = Answers(Outcome.FAILED, Outcome.FAILED)
    line = _new_line(tmp_path, answers)
    line.put(_line(1))
    line.put(_line(2))
    line.store()
    while line.send_next() is not None:
        pass
    assert answers.got == [_line(1), _line(1), _line(1), _line(2)]
    assert line.counts == {"sent": 2, "failed": 2, "refused": 0, "lost": 0}
    assert line.waiting_bytes == 0


def test_a_refused_event_does_not_hold_the_next_one(tmp_path: Path) -> None:
    answers = Answers(Outcome.REFUSED)
    line = _new_line(tmp_path, answers)
    for n in (1, 2):
        line.put(_line(n))
    line.store()
    assert [line.send_next() for _ in range(3)] == [Outcome.REFUSED, Outcome.DONE, None]


def test_events_without_room_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    line = _new_line(tmp_path, Answers(), bytes_max=16)
    for _ in range(2):
        for n in range(3):
            line.put(_line(n))
        line.store()
    assert line.counts["lost"] == 4
    assert caplog.text.count("notifications are lost") == 1
    monkeypatch.setattr(outbox, "MEMORY_EVENTS_MAX", 1)
    line.put(_line(1))
    line.put(_line(2))
    assert (line.counts["lost"], len(line.memory)) == (5, 1)


def test_a_disk_that_fails_loses_events(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("no directory")
    line = _new_line(tmp_path, Answers())
    line.put(_line(1))
    line.store()
    assert line.counts["lost"] == 1


class _Stop(BaseException):
    pass


def test_the_pauses_after_failures_grow(tmp_path: Path) -> None:
    line = _new_line(tmp_path, Answers(*[Outcome.FAILED] * 20))
    line.put(_line(1))
    line.store()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            raise _Stop

    with pytest.raises(_Stop):
        line.send_forever(sleep)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.DONE),
        (204, Outcome.DONE),
        (302, Outcome.FAILED),
        (400, Outcome.REFUSED),
        (404, Outcome.FAILED),
        (500, Outcome.FAILED),
    ],
)
def test_answers_of_a_webhook(status: int, outcome: Outcome) -> None:
    with Webhook(status=status) as webhook:
        assert Webhooks(5.0)(Target("orders", webhook.url, "secret"), b"{}") is outcome
    ((path, headers, body),) = webhook.posts
    assert (path, body) == ("/in?x=1", b"{}")
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/json"


def test_a_webhook_that_is_down() -> None:
    assert Webhooks(1.0)(Target("orders", "http://127.0.0.1:1/", ""), b"{}") is Outcome.FAILED


def test_the_threads_bring_an_event_to_the_webhook(tmp_path: Path) -> None:
    event = Event(f"{CREATED}Put", "a", "b", "k", _MOMENT, "e", 1)
    with Webhook() as webhook:
        options = NotificationOptions(webhooks=[f"orders={webhook.url}"], queue_dir=str(tmp_path))
        box = Outbox(options)
        box.start()
        box.put("orders", record_of(event, "id", "us-east-1"))
        line = box.lines["orders"]
        await_true(lambda: line.counts["sent"] and not line.waiting_bytes, "the end", 30)
    assert webhook.events[0]["Key"] == "b/k"
    gauges = box.gauges()
    assert gauges["martlet_notifications", "orders", "sent"] == 1.0
    assert gauges["martlet_notifications_waiting_bytes", "orders"] == 0.0
