"""Containers as web sites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest
from storage_app import StorageApp, container

from martlet.http.environ import Environ
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.web.staticweb import filter_factory
from proxy.middleware.web.staticweb_pages import ListingPage, readable_size

SITE = "/v1/AUTH_a/c"
#: Content types and contents, by name.
OBJECTS = {
    "index.html": ("text/html", b"home"),
    "404error.html": ("text/html", b"not here"),
    "401error.html": ("text/html", b"not you"),
    "marker": ("application/directory", b""),
    "mine": ("text/directory", b""),
    "marker/a": ("a/b", b"a"),
    "sub/index.html": ("text/html", b"sub home"),
    "deep/er/file": ("a/b", b"x" * 5000),
    "a <&b>.txt": ("text/plain; charset=utf-8", b""),
}


def serve(environ: Environ) -> Response:
    """Answer for the container of OBJECTS like the proxy application."""
    name = environ["PATH_INFO"].removeprefix(SITE).removeprefix("/")
    if not name:
        return listing(parse_qs(environ["QUERY_STRING"]))
    if name not in OBJECTS:
        return Response(404, {"Content-Type": "text/html"}, b"none")
    content_type, content = OBJECTS[name]
    return Response(200, {"Content-Type": content_type}, content)


def listing(query: Mapping[str, list[str]]) -> Response:
    prefix = query.get("prefix", [""])[0]
    entries: dict[str, Any] = {}
    for name, (content_type, content) in OBJECTS.items():
        head, slash, _ = name.removeprefix(prefix).partition("/")
        if not name.startswith(prefix):
            continue
        if slash:
            entries[prefix + head + "/"] = {"subdir": f"{prefix}{head}/"}
        else:
            entries[name] = {
                "name": name,
                "bytes": len(content),
                "content_type": content_type,
                "last_modified": "2026-01-02T03:04:05.678900",
            }
    text = json.dumps([entries[name] for name in sorted(entries)])
    return Response(200, {"Content-Type": "application/json"}, text)


def allow(request: Request) -> Response | None:
    return None


def deny(request: Request) -> Response | None:
    return error_response(401, "", {"WWW-Authenticate": "Swift"})


class Site:
    """The filter around ``serve``, with the settings of the container."""

    def __init__(self, ask: Any, **meta: str) -> None:
        self.inner = StorageApp({SITE: container(".r:*", **meta)}, serve)
        self._app = filter_factory({}, **({"url_base": meta["base"]} if "base" in meta else {}))
        self._ask = ask
        self.authorize = allow

    def get(self, path: str = "", method: str = "GET", **environ: str) -> Any:
        given = {"swift.authorize": self.authorize, **environ}
        return self._ask(self._app(self.inner), SITE + path, method, environ=given)


@pytest.fixture
def site(ask: Any) -> Iterator[Any]:
    """``site(web_index=…)``."""
    yield lambda **meta: Site(ask, **meta)
    clear_info()


def links(body: bytes) -> list[str]:
    return re.findall('href="([^"]*)"', body.decode())


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/", 200, b"home"),
        ("/sub/", 200, b"sub home"),
        ("/sub/index.html", 200, b"sub home"),
        ("/marker/a", 200, b"a"),
        ("", 301, b""),
        ("/sub", 301, b""),
        ("/marker", 301, b""),
        ("/deep", 301, b""),
        ("/deep/er", 301, b""),
        ("/none", 404, None),
        ("/none/", 404, None),
        ("/deep/", 404, None),
    ],
)
def test_index_files(site: Any, path: str, status: int, body: bytes | None) -> None:
    answer = site(web_index="index.html").get(path)
    assert answer.status == status
    if body is not None:
        assert answer.body == body
    if status == 301:
        assert answer.headers["Location"] == f"http://localhost:80{SITE}{path}/"


def test_where_listings_are_off_the_page_says_so(site: Any) -> None:
    answer = site(web_index="nope.html").get("/")
    assert answer.status == 404
    assert b"Web Listing Disabled" in answer.body
    assert b"nope.html" in answer.body
    site_without = site(web_listings="false")
    assert [site_without.get(path).status for path in ("", "/", "/deep")] == [301, 404, 301]


def test_listings(site: Any) -> None:
    answer = site(web_listings="true").get("/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=UTF-8")
    assert answer.headers["X-Backend-Content-Generator"] == "staticweb"
    assert links(answer.body)[:3] == ["./deep/", "./marker/", "./sub/"]
    assert "./a%20%3C%26b%3E%2Etxt" in links(answer.body)
    assert b"a &lt;&amp;b&gt;.txt" in answer.body
    assert f"<title>Listing of {SITE}/</title>".encode() in answer.body


@pytest.mark.parametrize(
    ("path", "status"),
    [("/deep/", 200), ("/deep/er/", 200), ("/none/", 404), ("/deep", 301), ("/none", 404)],
)
def test_listings_of_directories(site: Any, path: str, status: int) -> None:
    answer = site(web_listings="yes").get(path)
    assert answer.status == status
    if status == 200:
        assert links(answer.body)[0] == "../"


def test_head_of_a_listing_has_no_body(site: Any) -> None:
    answer = site(web_listings="yes").get("/", "HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(
    ("css", "path", "href"),
    [
        ("l.css", "/", "l.css"),
        ("l.css", "/deep/er/", "../../l.css"),
        ("/l.css", "/deep/", "/l.css"),
        ("https://a/l.css", "/deep/", "https://a/l.css"),
        ('"><b>', "/", "%22%3E%3Cb%3E"),
    ],
)
def test_style_sheets(site: Any, css: str, path: str, href: str) -> None:
    body = site(web_listings="true", web_listings_css=css).get(path).body
    assert f'<link rel="stylesheet" type="text/css" href="{href}" />' in body.decode()


def test_labels(site: Any) -> None:
    body = site(web_listings="true", web_listings_label="<me>.org").get("/deep/").body
    assert b"Listing of &lt;me&gt;.org/deep/" in body


@pytest.mark.parametrize(
    ("path", "turned_on"),
    [
        ("/none", {"web_index": "index.html"}),
        ("/none/", {"web_index": "index.html"}),
        ("/none/", {"web_listings": "true"}),
        ("/deep/", {"web_index": "index.html"}),
        ("/none", {}),
    ],
)
def test_the_owners_page_for_what_is_not_there(
    site: Any, path: str, turned_on: dict[str, str]
) -> None:
    answer = site(web_error="error.html", **turned_on).get(path)
    assert (answer.status, answer.body) == (404, b"not here")


def test_an_error_page_that_is_missing(site: Any) -> None:
    assert site(web_error="none.html", web_listings="true").get("/none/").status == 404


def test_a_denied_page(site: Any) -> None:
    denied = site(web_index="index.html", web_listings="true")
    denied.authorize = deny
    for path in ("", "/", "/sub/", "/index.html"):
        answer = denied.get(path)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Swift")


@pytest.mark.parametrize(("kind", "status"), [("text/directory", 301), ("", 200)])
def test_what_marks_a_directory(site: Any, kind: str, status: int) -> None:
    OBJECTS["mine/x"] = ("a/b", b"")
    settings = {"web_directory_type": kind} if kind else {}
    assert site(web_listings="true", **settings).get("/mine").status == status
    del OBJECTS["mine/x"]


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({}, 301),
        ({"REMOTE_USER": "a,a:u"}, 200),
        ({"REMOTE_USER": "a,a:u", "HTTP_X_WEB_MODE": "true"}, 301),
        ({"REMOTE_USER": ".wsgi.tempurl"}, 301),
    ],
)
def test_whom_it_serves(site: Any, environ: dict[str, str], status: int) -> None:
    assert site(web_listings="true").get("", **environ).status == status


@pytest.mark.parametrize(("path", "web_mode", "status"), [("", "", 200), ("", "1", 404)])
def test_a_container_that_is_no_site(site: Any, path: str, web_mode: str, status: int) -> None:
    environ = {"HTTP_X_WEB_MODE": web_mode} if web_mode else {}
    assert site().get(path, **environ).status == status


@pytest.mark.parametrize("path", ["/v1/AUTH_a", "/info", "/v1/AUTH_a/other/o", "/v1/AUTH_a/%FF/o"])
def test_everything_else_goes_on(ask: Any, path: str) -> None:
    inner = StorageApp({SITE: container(web_index="i")})
    assert ask(filter_factory({})(inner), path, environ={"swift.authorize": allow}).body == b"body"
    clear_info()


def test_a_site_is_read_only(site: Any) -> None:
    own = site(web_listings="true")
    own.get("", "POST")
    assert own.inner.calls == [f"POST {SITE}"]


def test_links_within_a_temporary_url_keep_it(site: Any) -> None:
    query = "temp_url_sig=sha256:a%2Bb&temp_url_expires=9&temp_url_prefix=deep/&inline="
    environ = {"REMOTE_USER": ".wsgi.tempurl", "QUERY_STRING": query}
    body = site(web_listings="true").get("/deep/", **environ).body
    kept = (
        "?temp_url_prefix=deep/&amp;temp_url_expires=9&amp;temp_url_sig=sha256%3Aa%2Bb&amp;inline"
    )
    assert links(body) == [f"./er/{kept}"]  # and no link above the prefix
    inner = site(web_listings="true").get("/deep/er/", **environ).body
    assert links(inner) == [f"../{kept}", f"./file{kept}"]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https:", f"https://localhost:80{SITE}/"),
        ("https://", f"https://localhost:80{SITE}/"),
        ("//other:81", f"http://other:81{SITE}/"),
        ("https://other", f"https://other{SITE}/"),
    ],
)
def test_url_base(site: Any, base: str, expected: str) -> None:
    assert site(web_listings="true", base=base).get("").headers["Location"] == expected


def test_what_it_asks_itself_is_marked(site: Any) -> None:
    own = site(web_index="index.html", web_listings="true")
    own.get("/deep/")
    assert [e.get("swift.source") for e in own.inner.seen] == [None, "SW", "SW"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1023, "1023"), (1024, "1Ki"), (5000, "5Ki"), (3 << 20, "3Mi"), (1 << 62, "4Ei")],
)
def test_readable_size(count: int, text: str) -> None:
    assert readable_size(count) == text


def test_a_directory_does_not_list_its_own_marker() -> None:
    page = ListingPage("l", "d/", "", "", has_parent=False)
    marker = {"name": "d/", "bytes": 0, "content_type": "x/y", "last_modified": "2026-01-01T00"}
    assert "type-x" not in page.render([marker])
    assert "type-x type-y" in page.render([{**marker, "name": "d/e"}])


def test_info(site: Any) -> None:
    site()
    assert collect_info()["staticweb"] == {}
