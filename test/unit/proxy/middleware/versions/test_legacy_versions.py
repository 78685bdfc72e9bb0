"""Old versions in another container: stack, history, and failures."""

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from martlet.http.call import call_app
from martlet.http.environ import SPARES_LARGE, Environ, StartResponse
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from proxy.lookup.info import container_info_of, container_key
from proxy.middleware.subrequest import Answered, read_body
from proxy.middleware.versions.legacy_versions import LOCATION_SYSMETA, MODE_SYSMETA, LegacyVersions
from proxy.replicas.quorum import Answer
from proxy.replicas.versions import MARKER_TYPE

OBJECT = "/v1/AUTH_test/c/o"
ARCHIVE = "/v1/AUTH_test/archive"


class Store:
    """The application right of the filter: objects in memory, listings of the archive."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[dict[str, str], bytes]] = {}
        self.failing: dict[tuple[str, str], int] = {}  # (method, part of the path) -> status
        self.breaks_off = False
        self.clock = 1795223500
        self.environ: Environ = {}
        self.overrides: list[bool | None] = []  # of the symlink filter, for each PUT

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        self.environ = environ
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        for (failing, part), status in self.failing.items():
            if failing == method and part in path:
                return Response(status)(environ, start_response)
        handlers = {"PUT": self.put, "GET": self.get, "HEAD": self.get, "DELETE": self.delete}
        if len(path.split("/")) < 5 and method != "GET":
            return Response(204)(environ, start_response)
        return handlers[method](environ, path)(environ, start_response)

    def put(self, environ: Environ, path: str) -> Response:
        self.overrides.append(environ.get("swift.symlink_override"))
        body = environ["wsgi.input"].read()
        if len(body) < int(environ["CONTENT_LENGTH"]):
            return Response(499)
        self.clock += 1
        headers = {
            name: value
            for name, value in Request(environ).headers.items()
            if name.startswith(("X-Object", "Content-Type", "X-Static", "X-Symlink"))
        }
        headers["X-Timestamp"] = Timestamp(self.clock).normal
        self.objects[path] = headers, body
        return Response(201)

    def get(self, environ: Environ, path: str) -> Response:
        if path == ARCHIVE:
            return self.listing(parse_qs(environ["QUERY_STRING"]))
        if path not in self.objects:
            return Response(404)
        headers, body = self.objects[path]
        if self.breaks_off:
            length = {"Content-Length": str(len(body) + 1)}
            return Response(200, headers | length, app_iter=self.broken(body))
        return Response(200, headers, body)

    def broken(self, body: bytes) -> Iterator[bytes]:
        yield body
        raise OSError("the device is gone")

    def delete(self, environ: Environ, path: str) -> Response:
        return Response(204 if self.objects.pop(path, None) else 404)

    def listing(self, params: dict[str, list[str]]) -> Response:
        assert params["reverse"] == ["on"]
        names = sorted((p.removeprefix(f"{ARCHIVE}/") for p in self.archived()), reverse=True)
        entries = [
            {"name": name, "content_type": self.objects[f"{ARCHIVE}/{name}"][0]["Content-Type"]}
            for name in names
            if name.startswith(params["prefix"][0])
        ]
        return Response(200, body=json.dumps(entries))

    def archived(self) -> list[str]:
        return sorted(path for path in self.objects if path.startswith(ARCHIVE))

    def bodies(self) -> list[bytes]:
        """The bodies in the archive, oldest first; a marker appears by its name."""
        found = [self.objects[path] for path in self.archived()]
        return [b"marker" if h["Content-Type"] == MARKER_TYPE else body for h, body in found]


@pytest.fixture
def store() -> Store:
    return Store()


def call(
    store: Store,
    method: str,
    path: str = OBJECT,
    body: bytes = b"",
    mode: str = "stack",
    headers: dict[str, str] | None = None,
    stored: dict[str, str] | None = None,
    environ: dict[str, Any] | None = None,
    is_allowed: bool = True,
) -> Answered:
    if stored is None:
        stored = {LOCATION_SYSMETA.lower(): "archive", MODE_SYSMETA.lower(): mode}
    infos = {container_key("AUTH_test", "c"): container_info_of(Answer(204, Headers(stored)))}
    given = {"Content-Type": "text/plain"} | (headers or {})
    shared = {"swift.infocache": infos} | (environ or {})
    request = Request.blank(path, method, given, body, shared)
    filtered = LegacyVersions(store, is_allowed)
    status, header_list, answer = call_app(filtered, request.environ)
    return Answered(int(status[:3]), Headers(header_list), read_body(answer))


def put(store: Store, *bodies: bytes, mode: str = "stack") -> None:
    for body in bodies:
        assert call(store, "PUT", body=body, mode=mode).status == 201


@pytest.mark.parametrize("mode", ["stack", "history"])
def test_what_is_overwritten_goes_to_the_archive(store: Store, mode: str) -> None:
    put(store, b"one", b"two", b"three", mode=mode)
    assert store.objects[OBJECT][1] == b"three"
    assert store.archived() == [
        f"{ARCHIVE}/001o/{Timestamp(1795223501).normal}",
        f"{ARCHIVE}/001o/{Timestamp(1795223503).normal}",
    ]
    assert store.bodies() == [b"one", b"two"]


def test_a_copy_in_the_archive_has_all_metadata(store: Store) -> None:
    kept = {
        "X-Object-Meta-Color": "blue",
        "X-Object-Sysmeta-Slo-Etag": "e",
        "X-Object-Sysmeta-Slo-Size": "1000",
        "X-Static-Large-Object": "True",
        "Content-Type": "text/blue",
    }
    call(store, "PUT", body=b"one", headers=kept)
    call(store, "PUT", body=b"two")
    headers, _ = store.objects[store.archived()[0]]
    assert headers.pop("Content-Type") == "text/blue;swift_bytes=1000"  # for the listing
    assert kept.items() <= (headers | {"Content-Type": "text/blue"}).items()
    assert "X-Object-Meta-Color" not in store.objects[OBJECT][0]


def test_a_large_object_keeps_its_size_in_listings(store: Store) -> None:
    # The application hides that part of the content type from all clients.
    large = {"X-Object-Sysmeta-Slo-Size": "999", "Content-Type": "text/blue"}
    call(store, "PUT", body=b"[]", headers=large)
    call(store, "PUT", body=b"two")
    headers, _ = store.objects[store.archived()[0]]
    assert headers["Content-Type"] == "text/blue;swift_bytes=999"


def test_a_symlink_is_kept_as_it_is(store: Store) -> None:
    link = {"X-Symlink-Target": "t/gone", "X-Symlink-Target-Etag": "e"}
    known = link | {"X-Symlink-Target-Bytes": "5"}
    call(store, "PUT", headers=known)
    call(store, "PUT", body=b"two")
    headers, body = store.objects[store.archived()[0]]
    assert (known.items() <= headers.items(), body) == (True, b"")
    assert store.overrides == [None, True, None]


def test_names_are_counted_in_bytes(store: Store) -> None:
    for body in (b"one", b"two"):
        call(store, "PUT", "/v1/AUTH_test/c/%C3%A4/%25", body)
    assert store.archived()[0].startswith(f"{ARCHIVE}/004\xc3\xa4/%/")


def test_stack_delete_brings_versions_back(store: Store) -> None:
    put(store, b"one", b"two", b"three")
    for body, archived in ((b"two", [b"one"]), (b"one", [])):
        assert call(store, "DELETE").status == 204
        assert (store.objects[OBJECT][1], store.bodies()) == (body, archived)
    assert call(store, "DELETE").status == 204
    assert OBJECT not in store.objects
    assert call(store, "DELETE").status == 404


@pytest.mark.parametrize("mode", ["stack", "history"])
def test_a_delete_that_spares_large_objects_is_refused(store: Store, mode: str) -> None:
    put(store, b"one", mode=mode)
    answer = call(store, "DELETE", mode=mode, environ={SPARES_LARGE: True})
    assert (answer.status, answer.headers["X-Static-Large-Object"]) == (409, "true")
    assert (store.objects[OBJECT][1], store.bodies()) == (b"one", [])


def test_history_delete_leaves_a_marker(store: Store) -> None:
    put(store, b"one", b"two", mode="history")
    assert call(store, "DELETE", mode="history").status == 204
    assert store.bodies() == [b"one", b"two", b"marker"]
    assert call(store, "DELETE", mode="history").status == 404
    assert store.bodies() == [b"one", b"two", b"marker", b"marker"]


def test_stack_delete_after_history(store: Store) -> None:
    put(store, b"one", b"two", mode="history")
    call(store, "DELETE", mode="history")
    call(store, "DELETE", mode="history")
    assert call(store, "DELETE").status == 204  # one of two markers is removed
    assert (store.bodies(), OBJECT in store.objects) == ([b"one", b"two", b"marker"], False)
    assert call(store, "DELETE").status == 204
    assert (store.bodies(), store.objects[OBJECT][1]) == ([b"one"], b"two")
    call(store, "DELETE", mode="history")
    put(store, b"three", mode="history")
    assert call(store, "DELETE").status == 204  # the object is newer than the marker
    assert OBJECT not in store.objects
    assert store.bodies() == [b"one", b"two", b"marker"]


@pytest.mark.parametrize(("failure", "status"), [(404, 412), (403, 412), (503, 503)])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_nothing_is_lost_where_the_archive_fails(
    store: Store, method: str, failure: int, status: int
) -> None:
    put(store, b"one")
    store.failing["PUT", "archive"] = failure
    assert call(store, method, body=b"two", mode="history").status == status
    assert store.objects[OBJECT][1] == b"one"


def test_nothing_is_lost_where_the_current_object_cannot_be_read(store: Store) -> None:
    put(store, b"one")
    store.failing["GET", "/c/o"] = 503
    assert call(store, "PUT", body=b"two").status == 503
    store.failing.clear()
    store.breaks_off = True
    assert call(store, "PUT", body=b"two").status == 503
    assert store.objects == {OBJECT: store.objects[OBJECT]}
    assert store.objects[OBJECT][1] == b"one"


def test_a_restore_that_fails_keeps_the_archive(store: Store) -> None:
    put(store, b"one", b"two")
    store.failing["PUT", "/c/o"] = 503
    assert call(store, "DELETE").status == 503
    assert (store.bodies(), store.objects[OBJECT][1]) == ([b"one"], b"two")


def test_a_missing_archive_holds_no_delete_up(store: Store) -> None:
    put(store, b"one")
    store.failing["GET", "archive"] = 404
    assert call(store, "DELETE").status == 204
    assert store.objects == {}


def test_who_may_not_write_archives_nothing(store: Store) -> None:
    put(store, b"one")
    refusing = {"swift.authorize": lambda request: Response(403)}
    for method in ("PUT", "DELETE"):
        for mode in ("stack", "history"):
            assert call(store, method, body=b"x", mode=mode, environ=refusing).status == 403
    assert list(store.objects) == [OBJECT]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_no_write_where_nobody_can_say_whether_there_is_an_archive(
    store: Store, method: str
) -> None:
    put(store, b"one")
    request = Request.blank(OBJECT, method, {}, b"two", {"swift.infocache": {}})
    status, _, _ = call_app(LegacyVersions(store), request.environ)
    assert status[:3] == "503"
    assert store.objects[OBJECT][1] == b"one"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_name_that_clients_may_not_use_is_their_mistake(method: str) -> None:
    request = Request.blank("/v1/AUTH_a/%00c/o", method)
    status, _, _ = call_app(LegacyVersions(Response(412)), request.environ)
    assert status[:3] == "412"


def test_containers_without_an_archive(store: Store) -> None:
    for stored in ({}, {"x-container-sysmeta-versions-enabled": "True"}):
        for body in (b"one", b"two"):
            call(store, "PUT", body=body, stored=stored)
        assert list(store.objects) == [OBJECT]


def test_setting_a_location(store: Store) -> None:
    container = "/v1/AUTH_test/c"
    for name, mode in (("X-Versions-Location", "stack"), ("X-History-Location", "history")):
        removal = {name.replace("X-", "X-Remove-"): "x"}
        call(store, "POST", container, headers={name: " ar%20c "} | removal, stored={})
        headers = Request(store.environ).headers
        assert (headers[LOCATION_SYSMETA], headers[MODE_SYSMETA]) == ("ar%20c", mode)
        for clearing in (removal, {name: ""}):
            call(store, "PUT", container, headers=clearing, stored={})
            headers = Request(store.environ).headers
            assert headers[LOCATION_SYSMETA] == headers[MODE_SYSMETA] == ""
    call(store, "POST", container, headers={"X-Container-Meta-A": "b"}, stored={})
    assert LOCATION_SYSMETA not in Request(store.environ).headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Versions-Location": "a", "X-History-Location": "b"}, 400),
        ({"X-Versions-Location": "a/b"}, 412),
        ({"X-History-Location": "a%2Fb"}, 412),
        ({"X-Versions-Location": "%FF"}, 412),
    ],
)
def test_bad_locations(store: Store, headers: dict[str, str], status: int) -> None:
    assert call(store, "PUT", "/v1/AUTH_test/c", headers=headers, stored={}).status == status


@pytest.mark.parametrize("name", ["voilà", "\u3705"])
def test_a_location_keeps_its_last_byte(store: Store, name: str) -> None:
    """A byte of a character may look like white space."""
    headers = {"X-Versions-Location": str_to_wsgi(f" {name} ")}
    call(store, "POST", "/v1/AUTH_test/c", headers=headers, stored={})
    stored = Request(store.environ).headers[LOCATION_SYSMETA]
    assert unquote(stored, "latin-1") == str_to_wsgi(name)


def test_locations_that_are_refused(store: Store) -> None:
    headers = {"X-Versions-Location": "a"}
    container = "/v1/AUTH_test/c"
    assert call(store, "PUT", container, headers=headers, is_allowed=False).status == 412
    enabled = {"x-container-sysmeta-versions-enabled": "True"}
    assert call(store, "POST", container, headers=headers, stored=enabled).status == 400


def test_showing_a_location() -> None:
    shown = {"stack": "X-Versions-Location", "history": "X-History-Location"}
    for mode, name in shown.items():

        def app(environ: Environ, start_response: StartResponse, mode: str = mode) -> Any:
            headers = {LOCATION_SYSMETA: "ar%20c", MODE_SYSMETA: mode}
            return Response(204, headers)(environ, start_response)

        request = Request.blank("/v1/AUTH_test/c", "HEAD")
        _, header_list, _ = call_app(LegacyVersions(app), request.environ)
        assert Headers(header_list)[name] == "ar%20c"
