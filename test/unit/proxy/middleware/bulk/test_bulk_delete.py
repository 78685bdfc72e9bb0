"""Many deletes in one request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.constraints import Constraints
from martlet.conf.options import ConfigError
from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.bulk import delete as bulk_delete
from proxy.middleware.bulk.bulk import Bulk, filter_factory
from proxy.middleware.bulk.options import BulkOptions

URL = "/v1/a?bulk-delete"


class Store:
    """A store of existing paths; ``statuses`` answers for others, the last one repeatedly."""

    def __init__(self, *paths: str) -> None:
        self.paths = set(paths)
        self.statuses: dict[str, list[int]] = {}
        self.requests: list[Environ] = []
        self._lock = threading.Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        with self._lock:
            self.requests.append(environ)
            path = environ["PATH_INFO"]
            given = self.statuses.get(path)
            status = 204 if path in self.paths else 404
            if given:
                status = given.pop(0) if len(given) > 1 else given[0]
            else:
                self.paths.discard(path)
        return Response(status)(environ, start_response)

    @property
    def asked(self) -> list[str]:
        return [environ["PATH_INFO"] for environ in self.requests]


def delete(
    ask: Any,
    store: Store,
    body: str | bytes,
    headers: dict[str, str] | None = None,
    method: str = "POST",
    **options: Any,
) -> dict[str, Any]:
    app = Bulk(store, BulkOptions(**options), Constraints())
    raw = body.encode() if isinstance(body, str) else body
    answer = ask(app, URL, method, {"Accept": "application/json", **(headers or {})}, raw)
    assert answer.status == 200
    report: dict[str, Any] = json.loads(answer.body)
    return report


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_objects_go_before_their_containers(ask: Any, method: str) -> None:
    store = Store("/v1/a/c", "/v1/a/c/o1", "/v1/a/c/o 2", "/v1/a/c/\xc3\xa9")
    body = "/c\n/c/o1\nc/o%202\n\n/c/%C3%A9\r\n/c/none"
    headers = {"Content-Length": str(len(body))}
    report = delete(ask, store, body, headers, method, delete_concurrency=1)
    assert report == {
        "Response Status": "200 OK",
        "Response Body": "",
        "Number Deleted": 4,
        "Number Not Found": 1,
        "Errors": [],
    }
    assert store.paths == set()
    assert store.asked[-1] == "/v1/a/c"
    assert {e["REQUEST_METHOD"] for e in store.requests} == {"DELETE"}
    assert {e["swift.source"] for e in store.requests} == {"BD"}
    assert {e["QUERY_STRING"] for e in store.requests} == {""}


def test_failures_are_told(ask: Any) -> None:
    store = Store("/v1/a/c/o1")
    store.statuses = {"/v1/a/c/o2": [401], "/v1/a/c": [409], "/v1/a/c/o3": [503]}
    report = delete(ask, store, "/c/o1\n/c/o2\n/c\n/c/%FF\n")
    assert report["Response Status"] == "400 Bad Request"
    assert report["Number Deleted"] == 1
    assert sorted(report["Errors"]) == [
        ["/c", "409 Conflict"],
        ["/c/%FF", "412 Precondition Failed"],
        ["/c/o2", "401 Unauthorized"],
    ]
    assert delete(ask, store, "/c/o3")["Response Status"] == "502 Bad Gateway"


def test_a_container_that_is_not_empty_yet_is_tried_again(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(bulk_delete.time, "sleep", pauses.append)
    store = Store()
    store.statuses = {"/v1/a/c": [409, 409, 204]}
    report = delete(ask, store, "/c", delete_container_retry_count=3)
    assert (report["Number Deleted"], pauses) == (1, [1.5, 2.25])
    store.statuses = {"/v1/a/c": [409]}
    assert delete(ask, store, "/c")["Errors"] == [["/c", "409 Conflict"]]


def test_too_many_failures_end_it(ask: Any) -> None:
    store = Store("/v1/a/c")
    names = [f"/c/o{number}" for number in range(10)]
    store.statuses = {f"/v1/a{name}": [403] for name in names}
    body = "\n".join([*names, "/c"])
    report = delete(ask, store, body, max_failed_deletes=3, delete_concurrency=1)
    assert report["Response Status"] == "400 Bad Request"
    assert report["Response Body"] == "Max delete failures exceeded"
    assert len(report["Errors"]) == 3
    assert store.paths == {"/v1/a/c"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ("", {}, "400 Bad Request"),
        ("\n\n", {}, "400 Bad Request"),
        ("/a\n/b\n/c\n/d", {}, "413 Request Entity Too Large"),
        ("x" * 10000, {}, "400 Bad Request"),
        ("/c/o", {"Content-Type": "application/json"}, "406 Not Acceptable"),
    ],
)
def test_what_is_no_list_is_refused(
    ask: Any, body: str, headers: dict[str, str], status: str
) -> None:
    store = Store()
    report = delete(ask, store, body, headers, max_deletes_per_request=3)
    assert (report["Response Status"], store.requests) == (status, [])


def test_a_list_needs_a_length(ask: Any) -> None:
    app = Bulk(Store(), BulkOptions(), Constraints())
    answer = ask(app, URL, "DELETE")
    assert b"Response Status: 411 Length Required" in answer.body
    answer = ask(app, URL, "DELETE", {"Transfer-Encoding": "chunked"}, b"/c/o\n")
    assert b"Number Not Found: 1" in answer.body


@pytest.mark.parametrize(("method", "url"), [("GET", URL), ("PUT", URL), ("POST", "/v1/a")])
def test_the_rest_goes_on(ask: Any, Inner: Any, method: str, url: str) -> None:
    answer = ask(Bulk(Inner(), BulkOptions(), Constraints()), url, method)
    assert answer.body == b"body"


def test_factory(tmp_path: Path) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n"
    )
    conf = {"swift_dir": str(tmp_path)}
    assert isinstance(filter_factory(conf, max_failed_deletes="7")(Store()), Bulk)
    assert collect_info()["bulk_delete"] == {
        "max_deletes_per_request": 10000,
        "max_failed_deletes": 7,
    }
    assert collect_info()["bulk_upload"] == {
        "max_containers_per_extraction": 10000,
        "max_failed_extractions": 1000,
    }
    clear_info()
    with pytest.raises(ConfigError, match="delete_concurrency must be at least 1"):
        filter_factory(conf, delete_concurrency="0")
