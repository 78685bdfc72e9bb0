"""Websites of buckets: what a configuration may say, and which page a request gets."""

from __future__ import annotations

from typing import Any

import pytest
from policed_bucket import Cluster, sysmeta_of
from s3_pipeline import INFO, Pipeline, code_of

from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.s3.options import S3Options
from proxy.s3.s3api import S3Api
from proxy.s3.settings import headers_of
from proxy.s3.wire.acl import ALL_USERS, OBJECT_ACL, Grant, stored_text
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.public_access import PublicAccessBlock
from proxy.s3.wire.website import Redirect, Rule, Website, location_of, website_of_xml

INDEX = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>"
ERROR = "<ErrorDocument><Key>error.html</Key></ErrorDocument>"
ALL = "<RedirectAllRequestsTo><HostName>a.test</HostName></RedirectAllRequestsTo>"
SITE = "bucket.web.test"


def xml(*parts: str) -> bytes:
    return f"<WebsiteConfiguration>{''.join(parts)}</WebsiteConfiguration>".encode()


def routing(*rules: str) -> str:
    inner = "".join(f"<RoutingRule>{rule}</RoutingRule>" for rule in rules)
    return f"<RoutingRules>{inner}</RoutingRules>"


def rule(redirect: str, condition: str = "") -> str:
    before = f"<Condition>{condition}</Condition>" if condition else ""
    return f"{before}<Redirect>{redirect}</Redirect>"


PREFIX = "<KeyPrefixEquals>old/</KeyPrefixEquals>"
MISSING = "<HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>"
FOUND = "<HttpRedirectCode>302</HttpRedirectCode>"
NEW = "<ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith>"


def test_what_a_configuration_says() -> None:
    found = website_of_xml(
        xml(
            INDEX,
            ERROR,
            routing(
                rule(NEW, PREFIX),
                rule(
                    "<HostName>b.test</HostName><HttpRedirectCode>302</HttpRedirectCode>", MISSING
                ),
            ),
        )
    )
    rules = (
        Rule("old/", 0, Redirect(key_prefix="new/")),
        Rule("", 404, Redirect("b.test", status=302)),
    )
    assert found == Website("index.html", "error.html", rules, None)
    assert website_of_xml(xml(ALL)).redirect_all == Redirect("a.test")


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((), "InvalidArgument"),
        ((INDEX, INDEX), "MalformedXML"),
        ((ERROR,), "InvalidArgument"),
        ((INDEX.replace("index.html", "a/b"),), "InvalidArgument"),
        ((INDEX.replace("index.html", ""),), "InvalidArgument"),
        ((INDEX, ERROR.replace("error.html", "")), "MalformedXML"),
        ((ALL, INDEX), "InvalidRequest"),
        ((ALL.replace("a.test", ""),), "MalformedXML"),
        ((ALL.replace("</HostName>", "</HostName><Protocol>ftp</Protocol>"),), "InvalidRequest"),
        ((INDEX, routing("")), "MalformedXML"),
        ((INDEX, routing(rule("", PREFIX))), "MalformedXML"),
        ((INDEX, routing(rule(NEW, "<x/>"))), "MalformedXML"),
        ((INDEX, routing(rule(NEW + "<ReplaceKeyWith>x</ReplaceKeyWith>"))), "InvalidRequest"),
        ((INDEX, routing(rule(NEW, MISSING.replace("404", "200")))), "InvalidRequest"),
        ((INDEX, routing(rule("<HttpRedirectCode>200</HttpRedirectCode>"))), "InvalidRequest"),
        ((INDEX, routing(*[rule(NEW)] * 51)), "InvalidRequest"),
    ],
)
def test_configurations_that_are_refused(parts: tuple[str, ...], code: str) -> None:
    with pytest.raises(S3Error) as caught:
        website_of_xml(xml(*parts))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("redirect", "location"),
    [
        (Redirect(), "http://h/old/k%20%C3%BC"),
        (Redirect("a.test", "https"), "https://a.test/old/k%20%C3%BC"),
        (Redirect(key_prefix="new/"), "http://h/new/k%20%C3%BC"),
        (Redirect(key=""), "http://h/"),
        (Redirect("a.test\r\nX: y"), "http://a.test%0D%0AX:%20y/old/k%20%C3%BC"),
    ],
)
def test_locations(redirect: Redirect, location: str) -> None:
    assert location_of(redirect, "old/k \u00fc", "old/", "http", "h") == location


class Site:
    """The pages of a bucket."""

    def __init__(self, configuration: bytes | None, **pages: str) -> None:
        self.pages = {name.replace("_", "/"): text for name, text in pages.items()}
        self.headers: dict[str, str] = {}
        options = S3Options(bucket_namespace="cluster", website_domain=["web.test"])
        self.pipeline = Pipeline(self._answer)
        # Without tempauth: all may read, and the storage of these tests knows no ACLs.
        self.pipeline.app = S3Api(self.pipeline.storage, options)
        stored = headers_of("Website", configuration) if configuration else {}
        names = {k.removeprefix("X-Container-Sysmeta-").lower(): v for k, v in stored.items() if v}
        info = {**INFO, "sysmeta": names}
        self.pipeline.storage.infos["/v1/AUTH_test/bucket"] = info

    def _answer(self, environ: Environ) -> Response:
        path = environ["PATH_INFO"]
        if path == "/v1/.martlet_s3/buckets/bucket":
            return Response(200, {"X-Object-Sysmeta-S3Api-Account": "AUTH_test"})
        page = self.pages.get(path.removeprefix("/v1/AUTH_test/bucket/").removesuffix(".html"))
        return Response(404) if page is None else Response(200, {"Etag": "e", **self.headers}, page)

    def get(self, path: str, method: str = "GET", host: str = SITE, **headers: str) -> Any:
        return self.pipeline.send(method, path, {"Host": host, **headers})


PAGES = {"index": "home", "dir_index": "inner", "a": "page", "error": "sorry"}


def test_pages() -> None:
    site = Site(xml(INDEX), **PAGES)
    for path, text in (("/", b"home"), ("/dir/", b"inner"), ("/a.html", b"page")):
        assert site.get(path)[::2] == (200, text)
    assert site.get("/a.html", "HEAD")[::2] == (200, b"")
    assert site.get("/a.html?versionId=x&response-expires=y")[0] == 200
    status, headers, _ = site.get("/dir")
    assert (status, headers["location"]) == (302, f"http://{SITE}/dir/")
    status, headers, body = site.get("/no")
    assert (status, headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b"<li>Code: NoSuchKey</li>" in body
    assert site.get("/no", "HEAD")[::2] == (404, b"")
    assert site.get("/a.html", "PUT")[0] == 405


def test_the_error_document() -> None:
    site = Site(xml(INDEX, ERROR), **PAGES)
    status, _, body = site.get("/no", Range="bytes=0-1")
    assert (status, body) == (404, b"sorry")
    assert "HTTP_RANGE" not in site.pipeline.storage.environ
    del site.pages["error"]
    assert b"NoSuchKey" in site.get("/no")[2]


def test_redirects() -> None:
    every = Site(xml(ALL))
    status, headers, _ = every.get("/a/b")
    assert (status, headers["location"]) == (301, "http://a.test/a/b")
    rules = routing(rule(NEW, PREFIX), rule("<HostName>b.test</HostName>", MISSING))
    site = Site(xml(INDEX, rules), **PAGES)
    status, headers, _ = site.get("/old/x")
    assert (status, headers["location"]) == (301, f"http://{SITE}/new/x")
    assert site.get("/no")[1]["location"] == "http://b.test/no"
    secure = {"X-Forwarded-Proto": "https"}
    assert site.get("/old/x", **secure)[1]["location"] == f"https://{SITE}/new/x"
    site.headers = {"X-Object-Sysmeta-S3Api-Redirect": "/other"}
    status, headers, body = site.get("/a.html")
    assert (status, headers["location"], body) == (301, "/other", b"")


def test_buckets_without_a_site() -> None:
    status, _, body = Site(None, **PAGES).get("/")
    assert (status, b"NoSuchWebsiteConfiguration" in body) == (404, True)
    status, _, body = Site(xml(INDEX)).get("/", host="nobody.web.test")
    assert (status, b"NoSuchBucket" in body) == (404, True)
    assert Site(xml(INDEX)).get("/", host="x/<b>.web.test")[0] == 404


def test_the_configuration_is_stored_as_it_came() -> None:
    pipeline = Pipeline()
    document = xml(INDEX, ERROR)
    assert pipeline.ask("PUT", "/bucket?website", body=document)[0] == 200
    stored = pipeline.storage.environ["HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_WEBSITE"]
    expected = headers_of("Website", document)["X-Container-Sysmeta-S3Api-Setting-Website"]
    assert stored == expected
    assert code_of(pipeline.ask("PUT", "/bucket?website", body=xml())[2]) == "InvalidArgument"
    assert pipeline.ask("DELETE", "/bucket?website")[0] == 204


def test_the_location_of_an_object() -> None:
    pipeline = Pipeline(lambda environ: Response(201, {"Etag": "e"}))
    name = "x-amz-website-redirect-location"
    for location in ("/a", "https://a.test/"):
        assert pipeline.ask("PUT", "/bucket/k", {name: location}, b"x")[0] == 200
        assert pipeline.storage.environ["HTTP_X_OBJECT_SYSMETA_S3API_REDIRECT"] == location
    for location in ("a", "ftp://a", "/" + "a" * 2048):
        _, _, body = pipeline.ask("PUT", "/bucket/k", {name: location}, b"x")
        assert code_of(body) == "InvalidRedirectLocation"
    copy = {"x-amz-copy-source": "/bucket/k"}
    pipeline.ask("PUT", "/bucket/c", copy)
    assert pipeline.storage.environ["HTTP_X_OBJECT_SYSMETA_S3API_REDIRECT"] == ""


def test_a_site_needs_one_namespace() -> None:
    with pytest.raises(ValueError, match="bucket_namespace"):
        S3Options(website_domain=["web.test"])


@pytest.mark.parametrize(("blocks", "status"), [(False, 200), (True, 403)])
def test_the_acl_of_an_object_makes_it_a_page(blocks: bool, status: int) -> None:
    cluster = Cluster()
    cluster.sysmeta |= sysmeta_of("Website", xml(INDEX))
    if blocks:
        block = PublicAccessBlock(ignore_public_acls=True)
        cluster.sysmeta |= sysmeta_of("PublicAccessBlock", block.document())
    options = S3Options(bucket_namespace="cluster", website_domain=["web.test"])
    app = S3Api(cluster.auth, options)

    def get(method: str, path: str) -> int:
        return cluster.send(app, method, path, {"Host": "box.web.test"}, b"")[0]

    for method in ("GET", "HEAD"):
        assert get(method, "/a/") == 403
    cluster.head = {OBJECT_ACL: stored_text((Grant(ALL_USERS, "READ"),))}
    for method in ("GET", "HEAD"):
        assert get(method, "/a/") == status
