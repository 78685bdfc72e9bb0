"""Server-side copy, over a store in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.constraints import Constraints
from martlet.conf.options import ConfigError
from martlet.http.environ import Environ, HeaderList, StartResponse
from martlet.http.request import Request
from martlet.http.response import error_response
from proxy.middleware.links.copy import Copy, filter_factory


class Stream:
    """A GET's body in small chunks; it records whether it was closed, and may break off."""

    def __init__(self, data: bytes, stop_after: int | None, error: Exception | None) -> None:
        self._data, self._stop, self._error = data, stop_after, error
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        end = len(self._data) if self._stop is None else self._stop
        for start in range(0, end, 3):
            yield self._data[start : min(start + 3, end)]
        if self._error:
            raise self._error

    def close(self) -> None:
        self.is_closed = True


class Store:
    """A minimal object store: GET with one range, PUT that checks its body."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.requests: list[Environ] = []
        self.streams: list[Stream] = []
        self.denied: set[tuple[str, str]] = set()
        self.stop_after: int | None = None
        self.error: Exception | None = None
        self.length: str | None = None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        self.requests.append(dict(environ))
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if (method, path) in self.denied:
            return error_response(403, "no")(environ, start_response)
        if method == "GET":
            return self._get(environ, path, start_response)
        if method == "PUT":
            return self._put(environ, path, start_response)
        start_response("200 OK", [("Allow", "GET, PUT"), ("X-Else", "GET")])
        return [b""]

    def _get(self, environ: Environ, path: str, start_response: StartResponse) -> Iterable[bytes]:
        if path not in self.objects:
            return error_response(404, "not there")(environ, start_response)
        if environ.get("HTTP_IF_NONE_MATCH") in ("*", self.objects[path][1]["Etag"]):
            return error_response(304)(environ, start_response)
        data, headers = self.objects[path]
        status = "200 OK"
        if "HTTP_RANGE" in environ:
            first, last = environ["HTTP_RANGE"].removeprefix("bytes=").split("-")
            data, status = data[int(first) : int(last) + 1], "206 Partial Content"
        self.streams.append(Stream(data, self.stop_after, self.error))
        length = str(len(data)) if self.length is None else self.length
        listed: HeaderList = [*headers.items(), ("Date", "today"), ("X-Trans-Id", "tx")]
        start_response(status, [*listed, ("Content-Length", length)] if length else listed)
        return self.streams[-1]

    def _put(self, environ: Environ, path: str, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("HTTP_IF_NONE_MATCH") == "*" and path in self.objects:
            return error_response(412)(environ, start_response)
        data = b"".join(iter(lambda: environ["wsgi.input"].read(5), b""))
        if len(data) != int(environ["CONTENT_LENGTH"]):
            return error_response(499)(environ, start_response)
        etag = md5(data).hexdigest()
        if environ.get("HTTP_ETAG", etag) != etag:
            return error_response(422)(environ, start_response)
        headers = {k: v for k, v in Request(environ).headers.items() if k.startswith("X-")}
        headers["Content-Type"] = environ.get("CONTENT_TYPE", "")
        for name in ("Content-Encoding", "Cache-Control"):
            if name in Request(environ).headers:
                headers[name] = Request(environ).headers[name]
        headers["Etag"] = etag
        headers["Last-Modified"] = "then"
        self.objects[path] = (data, headers)
        start_response("201 Created", [("Content-Length", "0"), ("Etag", etag)])
        return [b""]


SOURCE = "/v1/AUTH_a/c1/o1"
DATA = b"some data to be copied"


@pytest.fixture
def store() -> Store:
    store = Store()
    headers = {
        "Content-Type": "text/x-source",
        "Content-Encoding": "gzip",
        "X-Object-Meta-Color": "red",
        "X-Object-Meta-Size": "big",
        "X-Object-Sysmeta-Secret": "s",
        "X-Object-Sysmeta-Container-Update-Override-Size": "9",
        "X-Object-Transient-Sysmeta-Crypto": "t",
        "X-Delete-At": "9999999999",
        "X-Timestamp": "1.0",
        "Etag": md5(DATA).hexdigest(),
        "Last-Modified": "then",
    }
    store.objects[SOURCE] = (DATA, headers)
    return store


def make(store: Store, **limits: int) -> Copy:
    return Copy(store, Constraints(**limits))


@pytest.mark.parametrize(
    ("method", "path", "headers", "target"),
    [
        ("COPY", SOURCE, {"Destination": "c2/o2"}, "/v1/AUTH_a/c2/o2"),
        ("COPY", SOURCE, {"Destination": "/c2/o2/x%20y%3F"}, "/v1/AUTH_a/c2/o2/x y?"),
        ("COPY", SOURCE, {"Destination": "c/%C3%A9"}, "/v1/AUTH_a/c/\xc3\xa9"),
        (
            "COPY",
            SOURCE,
            {"Destination": "c2/o2", "Destination-Account": "AUTH_b"},
            "/v1/AUTH_b/c2/o2",
        ),
        (
            "COPY",  # its source is always its path
            SOURCE,
            {"Destination": "c2/o2", "X-Copy-From": "c9/o9", "X-Copy-From-Account": "AUTH_z"},
            "/v1/AUTH_a/c2/o2",
        ),
        ("PUT", "/v1/AUTH_a/c2/o2", {"X-Copy-From": "c1/o1"}, "/v1/AUTH_a/c2/o2"),
        ("PUT", "/v1/AUTH_a/c2/o2", {"X-Copy-From": "/c%31/o1"}, "/v1/AUTH_a/c2/o2"),
        (
            "PUT",
            "/v1/AUTH_b/c2/o2",
            {"X-Copy-From": "c1/o1", "X-Copy-From-Account": "AUTH_a"},
            "/v1/AUTH_b/c2/o2",
        ),
        ("COPY", SOURCE, {"Destination": "c1/o1"}, SOURCE),
    ],
)
def test_copy(
    ask: Any, store: Store, method: str, path: str, headers: dict[str, str], target: str
) -> None:
    answer = ask(make(store), path.replace(" ", "%20"), method, headers)
    assert answer.status == 201
    data, stored = store.objects[target]
    assert data == DATA
    assert answer.headers["X-Copied-From"] == "c1/o1"
    assert answer.headers["X-Copied-From-Account"] == "AUTH_a"
    assert answer.headers["X-Copied-From-Last-Modified"] == "then"
    assert answer.headers["X-Object-Meta-Color"] == "red"
    assert stored["Content-Type"] == "text/x-source"
    assert stored["Content-Encoding"] == "gzip"
    assert stored["X-Object-Meta-Color"] == "red"
    assert stored["X-Object-Sysmeta-Secret"] == "s"
    assert stored["X-Object-Transient-Sysmeta-Crypto"] == "t"
    assert stored["X-Delete-At"] == "9999999999"
    assert not {"X-Timestamp", "X-Trans-Id", "X-Newest", "X-Copy-From"} & set(stored)
    assert all(stream.is_closed for stream in store.streams)
    get, put = store.requests
    assert (get["HTTP_X_NEWEST"], get["swift.source"]) == ("true", "SSC")
    assert put["HTTP_ETAG"] == md5(DATA).hexdigest()


def test_metadata_of_the_request_goes_first(ask: Any, store: Store) -> None:
    headers = {
        "Destination": "c2/o2",
        "X-Object-Meta-Color": "blue",
        "X-Object-Meta-New": "n",
        "Content-Type": "text/x-mine",
    }
    answer = ask(make(store), SOURCE, "COPY", headers)
    stored = store.objects["/v1/AUTH_a/c2/o2"][1]
    meta = {k: v for k, v in stored.items() if k.startswith("X-Object-Meta-")}
    assert meta == {
        "X-Object-Meta-Color": "blue",
        "X-Object-Meta-Size": "big",
        "X-Object-Meta-New": "n",
    }
    assert meta.items() <= dict(answer.headers).items()
    assert stored["Content-Type"] == "text/x-mine"


def test_names_of_metadata_beyond_ascii_are_kept(ask: Any, store: Store) -> None:
    """Each has a byte that Python would treat as a letter and change."""
    names = [f"X-Object-Meta-{n.encode().decode('latin-1')}" for n in ("\u00f5", "\u65e5")]
    store.objects[SOURCE][1].update(dict.fromkeys(names, "1"))
    assert ask(make(store), SOURCE, "COPY", {"Destination": "c2/o2"}).status == 201
    assert set(names) <= set(store.objects["/v1/AUTH_a/c2/o2"][1])


def test_fresh_metadata_leaves_the_sources_behind(ask: Any, store: Store) -> None:
    headers = {"Destination": "c2/o2", "X-Fresh-Metadata": "true", "X-Object-Meta-New": "n"}
    ask(make(store), SOURCE, "COPY", headers)
    stored = store.objects["/v1/AUTH_a/c2/o2"][1]
    assert {k for k in stored if k.startswith("X-")} == {
        "X-Object-Meta-New",
        "X-Object-Sysmeta-Secret",
        "X-Object-Sysmeta-Container-Update-Override-Size",
    }
    assert "Content-Encoding" not in stored
    assert stored["Content-Type"] == "text/x-source"


def test_an_empty_header_of_a_filter_takes_the_sources_away(ask: Any, store: Store) -> None:
    headers = {"Destination": "c2/o2", "X-Object-Sysmeta-Secret": ""}
    assert ask(make(store), SOURCE, "COPY", headers).status == 201
    assert "X-Object-Sysmeta-Secret" not in store.objects["/v1/AUTH_a/c2/o2"][1]


def test_range(ask: Any, store: Store) -> None:
    headers = {"Destination": "c2/o2", "Range": "bytes=5-8"}
    assert ask(make(store), SOURCE, "COPY", headers).status == 201
    data, stored = store.objects["/v1/AUTH_a/c2/o2"]
    assert data == DATA[5:9]
    assert "X-Object-Sysmeta-Container-Update-Override-Size" not in stored
    assert "HTTP_RANGE" not in store.requests[1]


@pytest.mark.parametrize(
    ("condition", "status", "exists"),
    [("*", 201, False), ("*", 412, True), ("ETAG", 304, False), ("other", 201, True)],
)
def test_conditions(ask: Any, store: Store, condition: str, status: int, exists: bool) -> None:
    if exists:
        store.objects["/v1/AUTH_a/c2/o2"] = (b"", {"Etag": ""})
    etag = md5(DATA).hexdigest()
    headers = {"Destination": "c2/o2", "If-None-Match": condition.replace("ETAG", etag)}
    assert ask(make(store), SOURCE, "COPY", headers).status == status


@pytest.mark.parametrize(
    ("method", "headers", "body", "status"),
    [
        ("COPY", {}, b"", 412),
        ("COPY", {"Destination": ""}, b"", 412),
        ("COPY", {"Destination": "container"}, b"", 412),
        ("COPY", {"Destination": "/container/"}, b"", 412),
        ("COPY", {"Destination": "//o"}, b"", 412),
        ("COPY", {"Destination": "c/o", "Destination-Account": "a/b"}, b"", 412),
        ("COPY", {"Destination": "c/o", "Destination-Account": "a%2Fb"}, b"", 412),
        ("COPY", {"Destination": "c/o", "Destination-Account": ""}, b"", 412),
        ("COPY", {"Destination": "c/o", "Destination-Account": "%FF"}, b"", 412),
        ("COPY", {"Destination": "c/o", "Destination-Account": "x" * 257}, b"", 412),
        ("COPY", {"Destination": "c/o"}, b"body", 400),
        ("PUT", {"X-Copy-From": "container"}, b"", 412),
        ("PUT", {"X-Copy-From": "/"}, b"", 412),
        ("PUT", {"X-Copy-From": "c/o", "X-Copy-From-Account": "a/b"}, b"", 412),
        ("PUT", {"X-Copy-From": "c1/missing", "X-Copy-From-Account": ""}, b"", 404),
        ("PUT", {"X-Copy-From": "c1/o1"}, b"body", 400),
        ("PUT", {"X-Copy-From": "c1/missing"}, b"", 404),
    ],
)
def test_bad_copies_are_refused(
    ask: Any, store: Store, method: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    before = dict(store.objects)
    assert ask(make(store), SOURCE, method, headers, body).status == status
    assert store.objects == before


def test_chunked_body_is_refused_and_an_empty_one_is_not(ask: Any, store: Store) -> None:
    headers = {"Destination": "c2/o2", "Transfer-Encoding": "chunked"}
    environ = {"CONTENT_LENGTH": ""}
    assert ask(make(store), SOURCE, "COPY", headers, environ=environ).status == 201
    request_body = b"x"
    answer = ask(make(store), SOURCE, "COPY", headers, request_body, environ)
    assert answer.status == 400


@pytest.mark.parametrize("method_and_path", [("GET", SOURCE), ("PUT", "/v1/AUTH_a/c2/o2")])
def test_both_ends_are_authorised_on_their_own(
    ask: Any, store: Store, method_and_path: tuple[str, str]
) -> None:
    store.denied.add(method_and_path)
    answer = ask(make(store), SOURCE, "COPY", {"Destination": "c2/o2"})
    assert answer.status == 403
    assert "X-Copied-From" not in answer.headers
    assert "/v1/AUTH_a/c2/o2" not in store.objects
    assert all(stream.is_closed for stream in store.streams)


def test_what_one_end_is_allowed_does_not_leak_to_the_other(ask: Any, store: Store) -> None:
    def authorizing(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        assert "swift_owner" not in environ
        environ["swift_owner"] = True
        return store(environ, start_response)

    answer = ask(Copy(authorizing, Constraints()), SOURCE, "COPY", {"Destination": "c2/o2"})
    assert answer.status == 201
    assert "swift_owner" not in answer.environ


@pytest.mark.parametrize(("length", "status"), [("", 413), ("23", 413), ("22", 201)])
def test_size_limit(ask: Any, store: Store, length: str, status: int) -> None:
    store.length = length
    app = make(store, max_file_size=22)
    assert ask(app, SOURCE, "COPY", {"Destination": "c2/o2"}).status == status
    assert all(stream.is_closed for stream in store.streams)


def test_source_that_breaks_off_is_not_copied(
    ask: Any, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.stop_after, store.error = 4, OSError("disk")
    assert ask(make(store), SOURCE, "COPY", {"Destination": "c2/o2"}).status == 503
    assert "/v1/AUTH_a/c2/o2" not in store.objects
    assert "broke off" in caplog.text


def test_damaged_source_is_not_copied(ask: Any, store: Store) -> None:
    store.objects[SOURCE] = (b"some data to be damaged", store.objects[SOURCE][1])
    assert ask(make(store), SOURCE, "COPY", {"Destination": "c2/o2"}).status == 422
    assert "/v1/AUTH_a/c2/o2" not in store.objects


def test_sub_requests_are_logged_on_their_own(ask: Any, store: Store) -> None:
    environ = {"swift.proxy_access_log_made": True}
    ask(make(store), SOURCE, "COPY", {"Destination": "c2/o2"}, environ=environ)
    get, put = store.requests
    assert "swift.proxy_access_log_made" not in get
    assert put["swift.proxy_access_log_made"]


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", SOURCE, {"X-Copy-From": "c/o"}),
        ("PUT", "/v1/AUTH_a/c2/o2", {}),
        ("PUT", "/v1/AUTH_a/c2/o2", {"X-Copy-From": ""}),
        ("PUT", "/v1/AUTH_a/c2", {"X-Copy-From": "c/o"}),
        ("COPY", "/v1/AUTH_a/c2", {"Destination": "c/o"}),
        ("OPTIONS", "/v1/AUTH_a/c2", {}),
    ],
)
def test_everything_else_goes_on_untouched(
    ask: Any, Inner: Any, method: str, path: str, headers: dict[str, str]
) -> None:
    inner = Inner(headers=[("Allow", "GET"), ("Content-Length", "4")])
    answer = ask(Copy(inner, Constraints()), path, method, headers)
    assert (answer.body, answer.headers["Allow"]) == (b"body", "GET")
    assert inner.environ["REQUEST_METHOD"] == method


def test_options_of_objects_name_copy(ask: Any, store: Store) -> None:
    answer = ask(make(store), SOURCE, "OPTIONS")
    assert (answer.headers["Allow"], answer.headers["X-Else"]) == ("GET, PUT, COPY", "GET")


def test_factory(ask: Any, store: Store, tmp_path: Path) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n"
        "[swift-constraints]\nmax_file_size = 5\n"
    )
    app = filter_factory({"swift_dir": str(tmp_path)})(store)
    assert ask(app, SOURCE, "COPY", {"Destination": "c2/o2"}).status == 413
    with pytest.raises(ConfigError, match="unknown option 'object_post_as_copy'"):
        filter_factory({"swift_dir": str(tmp_path)}, object_post_as_copy="no")
