"""Object versioning: requests to the object servers, and answers to the client."""

from collections.abc import Iterable
from typing import Any

import pytest

from martlet.http.call import call_app
from martlet.http.environ import (
    ANY_NULL,
    AUTHORIZE,
    LISTING_IS_JSON,
    NULL_MARKER,
    SPARES_VERSIONS,
    VERSION_REQUEST,
    Environ,
    StartResponse,
)
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.timestamp import Timestamp
from proxy.lookup.info import container_info_of, container_key
from proxy.middleware.subrequest import Answered, read_body
from proxy.middleware.versions.header_names import ENABLED_SYSMETA
from proxy.middleware.versions.legacy_versions import LegacyVersions
from proxy.middleware.versions.object_versioning import ObjectVersioning
from proxy.middleware.versions.versioned_writes import filter_factory
from proxy.replicas.quorum import Answer
from proxy.replicas.versions import MARKER_TYPE, VersionRequest

ID = "1795223541.91251"
OTHER = "1795223540.00000"
OBJECT = "/v1/AUTH_test/c/o"


class Application:
    """The application right of the filter: records each request and gives prepared answers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], bool]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        found: VersionRequest = environ.get(VERSION_REQUEST, VersionRequest(""))
        self.seen.append((environ["REQUEST_METHOD"], dict(found.headers), found.owner_only))
        self.environ = environ
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        return Response(status, headers)(environ, start_response)


@pytest.fixture
def app() -> Application:
    return Application()


def call(
    app: Application,
    method: str,
    path: str,
    enabled: str | None = "True",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    environ: Environ | None = None,
) -> Answered:
    container = path.split("?")[0].split("/")[3]
    stored = {} if enabled is None else {ENABLED_SYSMETA.lower(): enabled}
    infos = {container_key("AUTH_test", container): container_info_of(Answer(204, Headers(stored)))}
    request = Request.blank(
        path, method, headers, body, {"swift.infocache": infos} | (environ or {})
    )
    status, header_list, answer = call_app(ObjectVersioning(app), request.environ)
    return Answered(int(status[:3]), Headers(header_list), read_body(answer))


def test_a_write_makes_a_version_of_its_timestamp(app: Application) -> None:
    app.answers = [(201, {})]
    answer = call(app, "PUT", OBJECT)
    ((_, headers, owner_only),) = app.seen
    assert headers == {"X-Backend-Version-Id": app.environ["HTTP_X_TIMESTAMP"]}
    assert not owner_only  # all users who may write
    assert answer.headers["X-Object-Version-Id"] == app.environ["HTTP_X_TIMESTAMP"]
    assert abs(float(Timestamp(headers["X-Backend-Version-Id"])) - float(Timestamp.now())) < 60
    app.answers = [(202, {})] * 2  # another write has that timestamp
    assert call(app, "PUT", OBJECT).status == 503
    assert call(app, "PUT", OBJECT, headers={"X-Timestamp": ID}).status == 202  # the same again
    app.answers = [(202, {})] * 2  # or there is a later one: nothing is written
    for condition in ({"If-None-Match": "*"}, {"X-Backend-If-Timestamp": ID}):
        assert call(app, "PUT", OBJECT, headers=condition).status == 409


def test_a_delete_makes_a_marker(app: Application) -> None:
    for status in (204, 404):
        app.answers = [(status, {"X-Backend-Version-Id": ID})]
        answer = call(app, "DELETE", OBJECT, headers={"X-Timestamp": ID})
        assert app.seen.pop()[1:] == (
            {"X-Backend-Version-Id": ID, "X-Backend-Version-Marker": "true"},
            False,
        )
        assert (answer.status, answer.headers["X-Object-Version-Id"]) == (status, ID)
    app.answers = [(404, {})]  # for example no such container
    assert "X-Object-Version-Id" not in call(app, "DELETE", OBJECT).headers


@pytest.mark.parametrize(
    ("enabled", "meant", "query", "marks"),
    [
        ("False", "c/o", "", True),
        ("False", "c/other", "", False),
        ("False", "c/o", "?version-id=null", False),
        (None, "c/o", "", False),
    ],
)
def test_a_delete_of_s3_leaves_a_null_marker(
    app: Application, enabled: str | None, meant: str, query: str, marks: bool
) -> None:
    app.answers = [(204, {"X-Backend-Version-Id": "null"} if marks else {})]
    answer = call(app, "DELETE", OBJECT + query, enabled, environ={NULL_MARKER: meant})
    sent = {"X-Backend-Version-Id": "null", "X-Backend-Version-Marker": "true"}
    assert app.seen == [("DELETE", sent if marks else {}, False)]
    assert answer.headers.get("X-Object-Version-Id") == ("null" if marks else None)


@pytest.mark.parametrize("enabled", ["False", None])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_without_versioning_writes_are_plain(
    app: Application, method: str, enabled: str | None
) -> None:
    app.answers = [(201, {})]
    assert "X-Object-Version-Id" not in call(app, method, OBJECT, enabled).headers
    assert app.seen == [(method, {}, False)]


def test_plain_deletes_of_a_versioned_container(app: Application) -> None:
    call(app, "DELETE", f"{OBJECT}?version-id=null")
    call(app, "DELETE", OBJECT, headers={"X-If-Delete-At": "1800000000"})
    assert app.seen == [("DELETE", {}, False)] * 2


@pytest.mark.parametrize("current", [ID, "null", None])
@pytest.mark.parametrize("enabled", ["True", "False"])
def test_a_post_names_the_version(app: Application, enabled: str, current: str | None) -> None:
    stored = {"X-Backend-Version-Id": current} if current else {}
    app.answers = [(200, stored), (202, {})]
    assert call(app, "POST", OBJECT, enabled).status == 202
    named = {"X-Backend-Version-Id": current or "null"}
    assert app.seen == [("HEAD", {}, False), ("POST", named, False)]


def test_a_post_of_nothing(app: Application) -> None:
    app.answers = [(404, {"X-Backend-Version-Id": ID}), (404, {})]
    assert call(app, "POST", OBJECT).status == 404  # the refusal of a write is passed on
    assert app.seen[1][1] == {"X-Backend-Version-Id": app.environ["HTTP_X_TIMESTAMP"]}
    app.answers = [(503, {})]
    assert call(app, "POST", OBJECT).status == 503
    assert app.environ["QUERY_STRING"] == "symlink=get"
    assert len(app.seen) == 3
    call(app, "POST", OBJECT, None)  # a container without versions
    assert app.seen[3:] == [("POST", {}, False)]


def test_reads_name_the_version(app: Application) -> None:
    app.answers = [(206, {"X-Backend-Version-Id": ID})]
    answer = call(app, "GET", "/v1/AUTH_test/c/%C3%A4%20b")
    assert answer.headers["X-Object-Version-Id"] == ID
    assert answer.headers["Content-Location"] == f"/v1/AUTH_test/c/%C3%A4%20b?version-id={ID}"
    for status, stored in ((200, {"X-Backend-Version-Id": "null"}), (200, {}), (404, {})):
        app.answers = [(status, stored)]
        answer = call(app, "HEAD", OBJECT)
        assert answer.headers["X-Object-Version-Id"] == "null"
        assert "Content-Location" not in answer.headers
    app.answers = [(200, {"X-Backend-Version-Id": ID, "Content-Location": "/v1/AUTH_test/d/t"})]
    symlink = call(app, "GET", OBJECT, None)  # to an object of a container with versions
    assert "X-Object-Version-Id" not in symlink.headers
    assert symlink.headers["Content-Location"] == "/v1/AUTH_test/d/t"


def test_reads_of_a_version(app: Application) -> None:
    answer = call(app, "GET", f"{OBJECT}?version-id={ID}", "False")
    assert app.seen.pop() == ("GET", {"X-Backend-Version-Id": ID}, True)
    assert answer.headers["X-Object-Version-Id"] == ID
    app.answers = [(404, {})]
    assert "X-Object-Version-Id" not in call(app, "GET", f"{OBJECT}?version-id={ID}").headers
    app.answers = [(404, {"X-Backend-Version-Marker": "true"})]
    marker = call(app, "HEAD", f"{OBJECT}?version-id={ID}")
    assert (marker.status, marker.headers["Content-Type"]) == (404, MARKER_TYPE)
    assert marker.headers["X-Object-Version-Id"] == ID


def test_a_version_has_no_time_of_expiry(app: Application) -> None:
    expiring = {"X-Delete-At": "1795223999", "X-Backend-Version-Id": ID}
    app.answers = [(200, expiring)]
    assert "X-Delete-At" not in call(app, "GET", f"{OBJECT}?version-id={ID}").headers
    app.answers = [(200, expiring)]
    assert "X-Delete-At" in call(app, "GET", OBJECT).headers
    # The header appears for the target of a symlink.
    app.answers = [(200, {"X-Delete-At": "1795223999"})]
    assert "X-Delete-At" in call(app, "GET", f"{OBJECT}?version-id={ID}").headers


def test_reads_of_the_null_version(app: Application) -> None:
    answer = call(app, "GET", f"{OBJECT}?version-id=null")
    assert app.seen.pop() == ("GET", {"X-Backend-Version-Id": "null"}, False)
    assert answer.headers["X-Object-Version-Id"] == "null"
    call(app, "GET", f"{OBJECT}?version-id=null", None)
    assert app.seen.pop() == ("GET", {}, False)


def test_s3_finds_the_null_version_whatever_is_current(app: Application) -> None:
    call(app, "HEAD", f"{OBJECT}?version-id=null", environ={ANY_NULL: True})
    assert app.seen.pop() == ("HEAD", {"X-Backend-Version-Id": "null-any"}, False)
    call(app, "HEAD", f"{OBJECT}?version-id={ID}", environ={ANY_NULL: True})
    assert app.seen.pop() == ("HEAD", {"X-Backend-Version-Id": ID}, True)
    call(app, "HEAD", f"{OBJECT}?version-id=null", None, environ={ANY_NULL: True})
    assert app.seen.pop() == ("HEAD", {}, False)


@pytest.mark.parametrize(
    ("newest", "status"),
    [((200, ID), 404), ((404, ID), 404), ((200, "null"), 204), ((404, ""), 204)],
)
def test_s3_deletes_no_other_version_as_the_null_version(
    app: Application, newest: tuple[int, str], status: int
) -> None:
    known = {"X-Backend-Version-Id": newest[1]} if newest[1] else {}
    app.answers = [(newest[0], known), (204, {})]
    answer = call(app, "DELETE", f"{OBJECT}?version-id=null", environ={SPARES_VERSIONS: True})
    assert answer.status == status
    assert [method for method, *_ in app.seen] == ["HEAD", "DELETE"][: 1 if status == 404 else 2]


def test_a_client_without_rights_learns_nothing_of_the_null_version(app: Application) -> None:
    app.answers = [(200, {"X-Backend-Version-Id": ID})]
    denied = {SPARES_VERSIONS: True, AUTHORIZE: lambda request: Response(403)}
    assert call(app, "DELETE", f"{OBJECT}?version-id=null", environ=denied).status == 403


def test_removal_of_a_version_that_is_not_current(app: Application) -> None:
    app.answers = [(200, {"X-Backend-Version-Id": OTHER}), (204, {})]
    answer = call(app, "DELETE", f"{OBJECT}?version-id={ID}")
    assert app.seen == [("HEAD", {}, False), ("DELETE", {"X-Backend-Version-Id": ID}, True)]
    assert answer.headers["X-Object-Version-Id"] == ID
    assert answer.headers["X-Object-Current-Version-Id"] == OTHER


def test_removal_of_the_current_version(app: Application) -> None:
    app.answers = [(404, {"X-Backend-Version-Id": ID, "X-Backend-Version-Marker": "t"}), (204, {})]
    answer = call(app, "DELETE", f"{OBJECT}?version-id={ID}")
    hiding = {"X-Backend-Version-Id": ID, "X-Backend-Version-Hide": "true"}
    assert app.seen[1] == ("DELETE", hiding, True)
    assert answer.headers["X-Object-Current-Version-Id"] == "null"


def test_a_delete_marker_is_not_told_as_current(app: Application) -> None:
    app.answers = [(404, {"X-Backend-Version-Id": OTHER}), (204, {})]
    answer = call(app, "DELETE", f"{OBJECT}?version-id={ID}")
    assert app.seen[1] == ("DELETE", {"X-Backend-Version-Id": ID}, True)
    assert answer.headers["X-Object-Current-Version-Id"] == "null"


def test_restore(app: Application) -> None:
    known = {"Last-Modified": "then", "Etag": "e"}
    app.answers = [(200, known | {"Content-Length": "3"}), (201, {"Etag": "of what is stored"})]
    answer = call(app, "PUT", f"{OBJECT}?version-id={ID}", "False")
    assert app.seen == [
        ("HEAD", {"X-Backend-Version-Id": ID}, True),
        ("PUT", {"X-Backend-Version-Restore": ID}, True),
    ]
    assert answer.status == 201
    assert known.items() <= dict(answer.headers).items()
    assert answer.headers["X-Object-Version-Id"] == ID
    app.seen.clear()
    for status in (404, 403):
        app.answers = [(status, {"Content-Length": "3"})]
        assert call(app, "PUT", f"{OBJECT}?version-id={ID}").status == status
        assert app.environ["QUERY_STRING"] == "symlink=get"  # of the link, not of its target
    assert [method for method, *_ in app.seen] == ["HEAD", "HEAD"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_no_write_where_nobody_can_say_whether_versioning_is_enabled(
    app: Application, method: str
) -> None:
    app.answers = [(503, {})]
    request = Request.blank(OBJECT, method)
    status, _, body = call_app(ObjectVersioning(app), request.environ)
    assert (status[:3], bool(read_body(body))) == ("503", True)
    assert [method for method, *_ in app.seen] == ["HEAD"]


def test_no_removal_where_nobody_can_say_what_is_current(app: Application) -> None:
    app.answers = [(503, {})]
    assert call(app, "DELETE", f"{OBJECT}?version-id={ID}").status == 503
    assert [method for method, *_ in app.seen] == ["HEAD"]


@pytest.mark.parametrize(
    ("method", "query", "enabled"),
    [
        ("GET", "version-id=bad", "True"),
        ("DELETE", "version-id=%FF", "True"),
        ("DELETE", "version%2Did=bad", "True"),
        ("HEAD", "version-id=-1", "True"),
        ("PUT", "version-id=null", "True"),
        ("DELETE", "version-id=1_x", "True"),
        ("POST", f"version-id={ID}", "True"),
        ("POST", "version-id=null", "True"),
        ("GET", f"version-id={ID}", None),
        ("PUT", f"version-id={ID}", None),
        ("DELETE", f"version-id={ID}", None),
    ],
)
def test_bad_requests(app: Application, method: str, query: str, enabled: str | None) -> None:
    assert call(app, method, f"{OBJECT}?{query}", enabled).status == 400
    assert app.seen == []


def test_a_delete_marker_is_not_restored(app: Application) -> None:
    app.answers = [(404, {"X-Backend-Version-Marker": "true"})]
    answer = call(app, "PUT", f"{OBJECT}?version-id={ID}")
    assert (answer.status, answer.headers["X-Object-Version-Id"]) == (400, ID)
    assert len(app.seen) == 1


def test_a_restore_has_no_body(app: Application) -> None:
    assert call(app, "PUT", f"{OBJECT}?version-id={ID}", body=b"x").status == 400
    assert app.seen == []


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_an_empty_version_id_is_none(app: Application, method: str) -> None:
    call(app, method, f"{OBJECT}?version-id=", None)
    assert app.seen == [(method, {}, False)]


def test_enabling(app: Application) -> None:
    container = "/v1/AUTH_test/c"
    for value, stored in (("true", "True"), ("1", "True"), ("false", "False"), ("banana", "False")):
        call(app, "POST", container, None, {"X-Versions-Enabled": value})
        assert Request(app.environ).headers[ENABLED_SYSMETA] == stored
    app.answers = [(204, {ENABLED_SYSMETA: "True"})]
    assert call(app, "HEAD", container).headers["X-Versions-Enabled"] == "True"
    assert "X-Versions-Enabled" not in call(app, "GET", container).headers
    for other in ("X-Versions-Location", "X-History-Location"):
        headers = {"X-Versions-Enabled": "true", other: "archive"}
        assert call(app, "PUT", container, None, headers).status == 400


def test_listing_of_versions(app: Application) -> None:
    container = "/v1/AUTH_test/c?versions"
    for good in ("", "&format=json", f"&marker=o&version_marker={ID}"):
        assert call(app, "GET", container + good, None).status == 200
        assert app.environ[LISTING_IS_JSON] is True
    for accept in ("*/*", "application/json", "text/plain;q=0.5,application/*"):
        assert call(app, "GET", container, None, {"Accept": accept}).status == 200
    call(app, "GET", "/v1/AUTH_test/c?prefix=versions")
    assert LISTING_IS_JSON not in app.environ
    app.seen.clear()
    for bad in ("&version_marker=null", "&marker=o&version_marker=x"):
        assert call(app, "GET", container + bad).status == 400
    for bad in ("&format=xml", "&format=plain"):
        assert call(app, "GET", container + bad).status == 406
    for accept in ("text/plain", "application/xml", "foo/bar"):
        assert call(app, "GET", container, headers={"Accept": accept}).status == 406
    assert app.seen == []


def test_a_container_with_versions_is_not_empty(app: Application) -> None:
    app.answers = [(409, {})] * 2
    refused = call(app, "DELETE", "/v1/AUTH_test/c", "False")
    assert (refused.status, refused.body) == (
        409,
        b"Delete all versions before deleting container.",
    )
    assert call(app, "DELETE", "/v1/AUTH_test/c", None).body == b""


def test_what_is_not_about_objects_passes(app: Application) -> None:
    for path in ("/info", "/v1/AUTH_test", "/healthcheck"):
        request = Request.blank(path)
        call_app(ObjectVersioning(app), request.environ)
    assert len(app.seen) == 3


def test_the_filter_of_a_conf(app: Application) -> None:
    plain: Any = filter_factory({})(app)
    assert isinstance(plain, LegacyVersions)  # for containers that have old versions already
    assert plain._app is app
    native: Any = filter_factory({}, allow_object_versioning="yes")(app)
    assert isinstance(native._app, ObjectVersioning)


def test_a_lock_of_any_version_is_changed(app: Application) -> None:
    hold = {"X-Backend-Lock-Hold": "on"}
    for version in (ID, "null"):
        call(app, "POST", f"{OBJECT}?version-id={version}", headers=hold)
        assert app.seen.pop() == ("POST", {"X-Backend-Version-Id": version}, True)
    assert call(app, "POST", f"{OBJECT}?version-id={ID}", None, headers=hold).status == 400
    assert app.seen == []


def test_versioning_stays_enabled_where_objects_may_be_locked(app: Application) -> None:
    stored = Headers({ENABLED_SYSMETA.lower(): "True", "x-container-sysmeta-object-lock": "on"})
    infos = {container_key("AUTH_test", "c"): container_info_of(Answer(204, stored))}
    for value, expected in (("false", 409), ("true", 200)):
        request = Request.blank(
            "/v1/AUTH_test/c",
            "POST",
            {"X-Versions-Enabled": value},
            b"",
            {"swift.infocache": infos},
        )
        status, _, _ = call_app(ObjectVersioning(app), request.environ)
        assert int(status[:3]) == expected
    assert len(app.seen) == 1
