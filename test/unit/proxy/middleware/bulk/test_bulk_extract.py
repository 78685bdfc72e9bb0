"""Extraction of archives into objects."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import pytest

from martlet.conf.constraints import Constraints
from martlet.http.call import call_app
from martlet.http.environ import LOOK_UP, Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.middleware.bulk.bulk import Bulk
from proxy.middleware.bulk.extract import READ_AHEAD_MAX
from proxy.middleware.bulk.options import BulkOptions

URL = "/v1/a?extract-archive=tar"


class Store:
    """Containers and objects; ``statuses`` answers for a method and path, or for a path."""

    def __init__(self) -> None:
        self.containers: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.requests: list[Environ] = []
        self.statuses: dict[str, int] = {}
        self.account_status = 204
        self.lock = threading.Lock()
        self.most_at_once = self.at_once = 0

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/v1/a":  # the authentication check
            return Response(self.account_status)(environ, start_response)
        with self.lock:
            self.requests.append(environ)
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
        response = Response(self.respond(Request(environ)))
        with self.lock:
            self.at_once -= 1
        return response(environ, start_response)

    def respond(self, req: Request) -> int:
        path = req.environ["PATH_INFO"]
        status = self.statuses.get(f"{req.method} {path}") or self.statuses.get(path)
        if status:
            return status
        _, account, container, obj = req.split_path(3, 4, True)
        if obj is None:
            if req.method == "PUT":
                self.containers.add(path)
            return 204 if path in self.containers else 404
        if path.rpartition("/")[0] and f"/v1/{account}/{container}" not in self.containers:
            return 404
        stream: Any = req.body_file
        length = int(req.environ["CONTENT_LENGTH"])
        body = b""
        while piece := stream.read(min(1000, length - len(body)) or 1):
            body += piece
        if len(body) != length:
            return 499
        self.objects[path] = body
        return 201

    def puts(self) -> list[Request]:
        return [Request(e) for e in self.requests if e["PATH_INFO"].count("/") > 3]


@pytest.fixture
def store() -> Store:
    return Store()


def tar(files: dict[str, bytes], **pax: dict[str, str]) -> bytes:
    """Return an archive; ``pax`` has the extended attributes of files by name."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.pax_headers = pax.get(name, {})
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def extract(
    ask: Any,
    store: Any,
    body: bytes,
    url: str = URL,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    limits = Constraints(max_file_size=options.pop("max_file_size", 200_000))
    app = Bulk(store, BulkOptions(**options), limits)
    headers = {"Accept": "application/json", **(headers or {})}
    answer = ask(app, url, "PUT", headers, body)
    assert answer.status == 200
    report: dict[str, Any] = json.loads(answer.body)
    return report


FILES = {"c1/o1": b"one", "c1/dir/o2": b"two", "c2/o3": b"x" * (READ_AHEAD_MAX + 1), "top": b"no"}
STORED = {f"/v1/a/{name}": content for name, content in FILES.items() if name != "top"}


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize(
    ("kind", "pack"), [("tar", bytes), ("tar.gz", gzip.compress), (".TAR.BZ2", bz2.compress)]
)
def test_every_file_becomes_an_object(
    ask: Any, store: Store, kind: str, pack: Any, concurrency: int
) -> None:
    url = f"/v1/a?extract-archive={kind}"
    report = extract(ask, store, pack(tar(FILES)), url, upload_concurrency=concurrency)
    assert report == {
        "Response Status": "201 Created",
        "Response Body": "",
        "Number Files Created": 3,
        "Errors": [],
    }
    assert store.objects == STORED
    assert store.containers == {"/v1/a/c1", "/v1/a/c2"}
    assert {e["swift.source"] for e in store.requests} == {"EA"}


def test_a_container_is_known_before_its_first_file(ask: Any, store: Store) -> None:
    extract(ask, store, tar({f"{c}/{n}": b"x" for c in ("c1", "c2") for n in range(20)}))
    paths = [e["PATH_INFO"] for e in store.requests]
    for container in ("/v1/a/c1", "/v1/a/c2"):
        wanted = [
            number
            for number, environ in enumerate(store.requests)
            if environ["PATH_INFO"] == container and LOOK_UP in environ
        ]
        first_put = min(n for n, path in enumerate(paths) if path.startswith(f"{container}/"))
        assert len(wanted) == 1
        assert wanted[0] < first_put


@pytest.mark.parametrize(
    ("base", "name", "stored"),
    [
        ("/c", "o", "c/o"),
        ("/c/", "o", "c/o"),
        ("/c/dir", "./o", "c/dir/o"),
        ("/c/dir//", "//o", "c/dir/o"),
        ("", "./c/o", "c/o"),
        ("/c%20d", "é", "c d/\xc3\xa9"),
    ],
)
def test_where_files_go(ask: Any, store: Store, base: str, name: str, stored: str) -> None:
    report = extract(ask, store, tar({name: b"x"}), f"/v1/a{base}?extract-archive=tar")
    assert report["Number Files Created"] == 1
    assert store.objects == {f"/v1/a/{stored}": b"x"}


def test_small_files_are_stored_together(ask: Any, store: Store) -> None:
    together = threading.Barrier(5)

    def slow(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].count("/") > 3:
            together.wait(60)
        return store(environ, start_response)

    files = {f"c/o{number}": b"x" for number in range(20)}
    report = extract(ask, slow, tar(files), upload_concurrency=5)
    assert report["Number Files Created"] == 20
    assert store.most_at_once <= 5


def test_of_files_of_one_name_the_last_wins(ask: Any, store: Store) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number in range(50):
            info = tarfile.TarInfo("c/o")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"%02d" % number))
    report = extract(ask, store, stream.getvalue(), upload_concurrency=8)
    assert report["Number Files Created"] == 50
    assert store.objects == {"/v1/a/c/o": b"49"}


def test_a_file_waits_for_an_earlier_one_of_its_name(ask: Any, store: Store) -> None:
    """It is also woken up: otherwise the test would not end."""

    def slow(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].count("/") > 3:
            time.sleep(0.005)  # by now the next file is waiting
        return store(environ, start_response)

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number in range(20):
            archive.addfile(tarfile.TarInfo(f"c/o{number % 2}"))
    reports: list[dict[str, Any]] = []

    def work() -> None:
        reports.append(extract(ask, slow, stream.getvalue(), upload_concurrency=4))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    assert [report["Number Files Created"] for report in reports] == [20]
    assert store.most_at_once <= 2


def test_what_is_no_regular_file_is_left_out(ask: Any, store: Store) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, kind in (("c/d", tarfile.DIRTYPE), ("c/l", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "o"
            archive.addfile(info)
    report = extract(ask, store, stream.getvalue())
    assert report["Response Status"] == "400 Bad Request"
    assert report["Response Body"] == "Invalid Tar File: No Valid Files"
    assert store.requests == []


def test_metadata_from_the_request_and_from_the_archive(ask: Any, store: Store) -> None:
    attributes = {
        "SCHILY.xattr.user.mime_type": "text/x-own",
        "SCHILY.xattr.user.meta.lunch": "burger é",
        "LIBARCHIVE.xattr.user.meta.dinner": "ziti",
        "SCHILY.xattr.user.meta.é": "x",
        "SCHILY.xattr.user.stuff": "whee",
        "SCHILY.xattr.security.selinux": "x",
    }
    headers = {
        "X-Object-Meta-Color": "blue",
        "X-Object-Meta-Lunch": "soup",
        "X-Delete-At": "9999999999",
        "X-Container-Meta-No": "1",
        "Content-Type": "application/x-tar",
        "User-Agent": "test",
    }
    body = tar({"c/o": b"x", "c/p": b"y"}, **{"c/o": attributes})
    extract(ask, store, body, headers=headers, upload_concurrency=1)
    first, second = store.puts()
    metadata = {k: v for k, v in first.headers.items() if k.startswith("X-Object-Meta-")}
    assert metadata == {
        "X-Object-Meta-Color": "blue",
        "X-Object-Meta-Lunch": "burger \xc3\xa9",
        "X-Object-Meta-Dinner": "ziti",
        "X-Object-Meta-\xc3\xa9": "x",
    }
    assert first.headers["Content-Type"] == "text/x-own"
    assert first.headers["X-Delete-At"] == "9999999999"
    assert first.headers["User-Agent"] == "test BulkExpand"
    assert "X-Container-Meta-No" not in first.headers
    assert "Content-Type" not in second.headers
    assert second.headers["X-Object-Meta-Lunch"] == "soup"


@pytest.mark.parametrize("key", ["a b", "a:b", "a\r\nX-Evil"])
def test_an_attribute_that_cannot_be_a_header_is_refused(ask: Any, store: Store, key: str) -> None:
    body = tar({"c/o": b"x"}, **{"c/o": {f"SCHILY.xattr.user.meta.{key}": "v"}})
    report = extract(ask, store, body)
    assert report["Errors"] == [["c/o", "400 Bad Request"]]
    assert store.objects == {}


def test_failures_are_told(ask: Any, store: Store) -> None:
    store.statuses = {"/v1/a/c1/o1": 413, "/v1/a/c1/\xc3\xbc \xc3\xb6": 403}
    report = extract(ask, store, tar({"c1/o1": b"x", "c1/ok": b"y", "c1/ü ö": b"z"}))
    assert report["Response Status"] == "400 Bad Request"
    assert report["Number Files Created"] == 1
    assert sorted(report["Errors"]) == [
        ["c1/%C3%BC%20%C3%B6", "403 Forbidden"],
        ["c1/o1", "413 Request Entity Too Large"],
    ]
    store.statuses = {"/v1/a/c1/o1": 503}
    assert extract(ask, store, tar(FILES))["Response Status"] == "502 Bad Gateway"


def test_too_many_failures_end_it(ask: Any, store: Store) -> None:
    files = {f"c/o{number}": b"x" for number in range(20)}
    store.statuses = {f"/v1/a/{name}": 403 for name in files}
    report = extract(ask, store, tar(files), max_failed_extractions=3, upload_concurrency=1)
    assert len(report["Errors"]) == 3
    assert report["Response Status"] == "400 Bad Request"


def test_names_and_sizes_that_may_not_be(ask: Any, store: Store) -> None:
    body = tar({"c/ok": b"x", "c/large": b"x" * 11})
    bad = tarfile.TarInfo("c/\udcff")
    bad.size = 0
    body = bad.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") + body
    report = extract(ask, store, body, max_file_size=10, upload_concurrency=1)
    assert report["Errors"] == [
        ["c/%FF", "412 Precondition Failed"],
        ["c/large", "413 Request Entity Too Large"],
    ]
    assert store.objects == {"/v1/a/c/ok": b"x"}


def test_who_is_not_known_learns_it_at_once(ask: Any, store: Store) -> None:
    store.statuses = {"/v1/a/c1": 401}
    report = extract(ask, store, tar(FILES))
    assert (report["Response Status"], len(store.requests)) == ("401 Unauthorized", 1)
    store.statuses = {"/v1/a/c1/o1": 401}
    report = extract(ask, store, tar(FILES), upload_concurrency=1)
    assert report["Response Status"] == "401 Unauthorized"
    assert report["Errors"] == [["c1/o1", "401 Unauthorized"]]


def test_for_a_stranger_nothing_is_unpacked(ask: Any, store: Store) -> None:
    store.account_status = 401
    report = extract(ask, store, b"no archive at all")
    assert (report["Response Status"], store.requests) == ("401 Unauthorized", [])


def test_without_the_container_an_object_may_succeed(ask: Any, store: Store) -> None:
    store.statuses = {"/v1/a/c1": 403}
    store.containers.add("/v1/a/c1")
    report = extract(ask, store, tar({"c1/o1": b"x"}))
    assert (report["Number Files Created"], report["Errors"]) == (1, [])
    store.statuses["/v1/a/c1/o1"] = store.statuses["/v1/a/c1/o2"] = 403
    report = extract(ask, store, tar({"c1/o1": b"x", "c1/o2": b"x"}), upload_concurrency=1)
    assert [name for name, _ in report["Errors"]] == ["/v1/a/c1", "c1/o1", "c1/o2"]


def test_too_many_containers(ask: Any, store: Store) -> None:
    files = {f"c{number}/o": b"x" for number in range(5)}
    report = extract(ask, store, tar(files), max_containers_per_extraction=2, upload_concurrency=1)
    assert report["Response Status"] == "400 Bad Request"
    assert report["Response Body"] == "More than 2 containers to create from tar."
    assert len(store.objects) == 2


@pytest.mark.parametrize("size", [10, READ_AHEAD_MAX * 2])
def test_an_archive_that_breaks_off(ask: Any, store: Store, size: int) -> None:
    body = tar({"c/o1": b"1", "c/o2": b"x" * size})
    report = extract(ask, store, body[: 512 * 3 + size // 2])
    assert report["Response Status"] == "400 Bad Request"
    assert report["Response Body"].startswith("Invalid Tar File: ")
    assert set(store.objects) <= {"/v1/a/c/o1"}


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.bz2"])
@pytest.mark.parametrize("body", [b"", b"no archive", b"\x1f\x8b" + b"x" * 2000, b"BZh9" * 1000])
def test_no_archive_at_all(ask: Any, store: Store, kind: str, body: bytes) -> None:
    report = extract(ask, store, body, f"/v1/a?extract-archive={kind}")
    assert report["Response Status"] == "400 Bad Request"
    assert report["Response Body"].startswith("Invalid Tar File: ")
    assert store.requests == []


def test_an_unknown_kind_is_refused(ask: Any, store: Store) -> None:
    app = Bulk(store, BulkOptions(), Constraints())
    answer = ask(app, "/v1/a?extract-archive=zip", "PUT", body=b"x")
    assert (answer.status, answer.body) == (400, b"Unsupported archive format")


@pytest.mark.parametrize(
    ("method", "url"), [("GET", URL), ("PUT", "/v1/a/c?x=extract-archive"), ("POST", URL)]
)
def test_the_rest_goes_on(ask: Any, Inner: Any, method: str, url: str) -> None:
    answer = ask(Bulk(Inner(), BulkOptions(), Constraints()), url, method)
    assert answer.body == b"body"


def test_forms_of_the_report(ask: Any, store: Store) -> None:
    store.statuses = {"/v1/a/c/o<2>": 403}
    app = Bulk(store, BulkOptions(), Constraints())
    body = tar({"c/o1": b"x", "c/o<2>": b"x"})
    text = ask(app, URL, "PUT", {}, body)
    assert text.headers["Content-Type"] == "text/plain"
    assert text.body.decode() == (
        "Number Files Created: 1\nResponse Body: \nResponse Status: 400 Bad Request\nErrors:\n"
        "c/o%3C2%3E, 403 Forbidden\n"
    )
    for accept in ("text/xml", "application/xml"):
        answer = ask(app, URL, "PUT", {"Accept": accept}, body)
        assert answer.headers["Content-Type"] == accept
        root = ElementTree.fromstring(answer.body)
        assert root.tag == "extract"
        assert root.findtext("number_files_created") == "1"
        assert root.findtext("errors/object/name") == "c/o%3C2%3E"
        assert root.findtext("errors/object/status") == "403 Forbidden"
    for accept in ("image/png", "nonsense"):
        refused = ask(app, URL, "PUT", {"Accept": accept}, body)
        assert refused.status == 200
        assert b"Response Status: 406 Not Acceptable" in refused.body


def test_white_space_while_the_work_goes_on(store: Store) -> None:
    pauses = threading.Semaphore(0)

    def slow(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/v1/a/c/o1":
            for _ in range(2):
                assert pauses.acquire(timeout=60)  # it lasts until two pieces of white space
        return store(environ, start_response)

    app = Bulk(slow, BulkOptions(yield_frequency=0.01), Constraints())
    for accept, start in (("application/json", b"  "), ("text/xml", b"<?xml")):
        body = tar({"c/o1": b"x"})
        _, _, chunks = call_app(app, Request.blank(URL, "PUT", {"Accept": accept}, body).environ)
        sent = b""
        for chunk in chunks:
            pauses.release()
            sent += chunk
        assert sent.startswith(start)
        assert b"\r\n\r\n" in sent
        while pauses.acquire(blocking=False):
            pass


def test_an_error_of_ours_is_told(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        raise RuntimeError("broken")

    report = extract(ask, broken, tar({"c/o1": b"x"}))
    assert report["Response Status"] == "500 Internal Server Error"
    assert "a bulk request failed" in caplog.text


def test_a_size_beyond_the_end_is_not_waited_for(ask: Any, store: Store) -> None:
    archive = tar({"c/o": b"content"}, **{"c/o": {"size": str(10**18)}})
    began = time.monotonic()
    assert extract(ask, store, archive)["Response Status"] == "400 Bad Request"
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("kind", ["gz", "bz2"])
def test_a_small_archive_does_not_fill_the_memory(ask: Any, store: Store, kind: str) -> None:
    header = tarfile.TarInfo("c/o")
    header.size = 80_000_000
    pack = {"gz": zlib.compressobj(wbits=31), "bz2": bz2.BZ2Compressor()}[kind]
    body = pack.compress(header.tobuf())
    for _ in range(80):
        body += pack.compress(bytes(1_000_000))
    body += pack.flush()
    tracemalloc.start()
    try:
        report = extract(ask, store, body, f"/v1/a?extract-archive=tar.{kind}")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report["Errors"] == [["c/o", "413 Request Entity Too Large"]]
    assert most < 20_000_000


def test_a_header_too_long_for_the_memory(ask: Any, store: Store) -> None:
    archive = tar({"c/o": b""}, **{"c/o": {"comment": "x" * 2_000_000}})
    report = extract(ask, store, archive)
    assert report["Response Body"] == "Invalid Tar File: a header is too long"


def test_headers_about_all_files_do_not_fill_the_memory(ask: Any, store: Store) -> None:
    directory = tarfile.TarInfo("d")
    directory.type = tarfile.DIRTYPE
    headers = ({f"k{i}": "v" * 100_000} for i in range(3))
    parts = (tarfile.TarInfo.create_pax_global_header(h) + directory.tobuf() for h in headers)
    report = extract(ask, store, b"".join(parts) + tar({"c/o": b""}))
    assert report["Response Body"] == "Invalid Tar File: the headers of all files are too long"


def test_headers_about_headers(ask: Any, store: Store) -> None:
    header = tarfile.TarInfo("c/o")
    header.type = tarfile.GNUTYPE_LONGNAME
    report = extract(ask, store, header.tobuf() * 5000)
    assert report["Response Status"] == "400 Bad Request"
