"""crossdomain, name_check, read_only and etag-quoter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from storage_app import StorageApp, account, container

from martlet.conf.options import ConfigError
from martlet.http.response import Response
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.limits import name_check, read_only
from proxy.middleware.links import etag_quoter
from proxy.middleware.web import crossdomain

OBJECT = "/v1/AUTH_a/c/o"


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    clear_info()


def test_crossdomain(ask: Any) -> None:
    app = crossdomain.filter_factory({}, cross_domain_policy="<a/>\n<b/>")(StorageApp())
    answer = ask(app, "/crossdomain.xml")
    assert answer.headers["Content-Type"] == "application/xml"
    assert answer.body.startswith(b'<?xml version="1.0"?>\n<!DOCTYPE cross-domain-policy SYSTEM')
    assert b"<cross-domain-policy>\n<a/>\n<b/>\n</cross-domain-policy>" in answer.body
    for path, method in (("/crossdomain.xml", "PUT"), ("/v1/crossdomain.xml", "GET")):
        assert ask(app, path, method).body == b"body"
    assert collect_info()["crossdomain"] == {}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (OBJECT, 200),
        ("/v1/a/c/%C3%BC%FF", 200),
        ("/v1/a/c/it%27s", 400),
        ("/v1/a/c/%3Cb%3E", 400),
        ("/v1/a/./o", 400),
        ("/v1/a/c/../o", 400),
        ("/v1/a/c/..", 400),
        ("/v1/a/c/...", 200),
        ("/v1/a/c/" + "x" * 247, 200),
        ("/v1/a/c/" + "x" * 248, 400),
    ],
)
def test_name_check(ask: Any, path: str, status: int) -> None:
    assert ask(name_check.filter_factory({})(StorageApp()), path).status == status


def test_name_check_options(ask: Any) -> None:
    options = {"forbidden_chars": "é", "forbidden_regexp": "", "maximum_length": "20"}
    app = name_check.filter_factory({}, **options)(StorageApp())
    assert ask(app, "/v1/a/c/../%27").status == 200
    assert ask(app, "/v1/a/c/%C3%A9").status == 400
    assert collect_info()["name_check"]["maximum_length"] == 20
    with pytest.raises(ConfigError, match="forbidden_regexp"):
        name_check.filter_factory({}, forbidden_regexp="(")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "COPY", "GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize(
    ("cluster", "own", "is_refused"),
    [
        ("false", None, False),
        ("false", "true", True),
        ("true", None, True),
        ("true", "false", False),
        ("true", "nonsense", True),
    ],
)
@pytest.mark.parametrize("deletes", ["true", "false"])
def test_read_only(
    ask: Any, method: str, cluster: str, own: str | None, is_refused: bool, deletes: str
) -> None:
    info = account()
    if own is not None:
        info["sysmeta"] = {"read-only": own}
    options = {"read_only": cluster, "allow_deletes": deletes}
    app = read_only.filter_factory({}, **options)(StorageApp({"/v1/AUTH_a": info}))
    is_write = method in ("PUT", "POST", "COPY") or (method == "DELETE" and deletes == "false")
    expected = 405 if is_refused and is_write else 200
    assert ask(app, OBJECT, method).status == expected


def test_read_only_leaves_the_rest_alone(ask: Any) -> None:
    app = read_only.filter_factory({}, read_only="true")(StorageApp())
    for path in ("/auth/v1.0", "/info", "/v1", "/"):
        assert ask(app, path, "PUT").status == 200


def test_a_copy_is_a_write_to_its_destination(ask: Any) -> None:
    shut = {**account(), "sysmeta": {"read-only": "true"}}
    app = read_only.filter_factory({})(StorageApp({"/v1/AUTH_a": shut, "/v1/AUTH_b": account()}))
    for source, destination, status in (("a", "b", 200), ("b", "a", 405)):
        headers = {"Destination": "c/o", "Destination-Account": f"AUTH_{destination}"}
        assert ask(app, f"/v1/AUTH_{source}/c/o", "COPY", headers).status == status


def quoter(
    default: str = "false", of_account: str | None = None, of_container: str | None = None
) -> tuple[Any, StorageApp]:
    infos = {"/v1/AUTH_a": account(), "/v1/AUTH_a/c": container()}
    for path, setting in (("/v1/AUTH_a", of_account), ("/v1/AUTH_a/c", of_container)):
        if setting is not None:
            infos[path]["sysmeta"] = {"rfc-compliant-etags": setting}
    inner = StorageApp(infos, lambda environ: Response(200, {"Etag": "abc"}))
    return etag_quoter.filter_factory({}, enable_by_default=default)(inner), inner


@pytest.mark.parametrize(
    ("default", "of_account", "of_container", "is_quoted"),
    [
        ("false", None, None, False),
        ("true", None, None, True),
        ("true", "False", None, False),
        ("false", "True", None, True),
        ("false", "True", "False", False),
        ("false", "False", "True", True),
        ("true", "False", "", False),
    ],
)
def test_who_decides_about_quotes(
    ask: Any, default: str, of_account: str | None, of_container: str | None, is_quoted: bool
) -> None:
    app, _ = quoter(default, of_account, of_container)
    for method in ("GET", "HEAD", "PUT", "POST"):
        assert ask(app, OBJECT, method).headers["Etag"] == ('"abc"' if is_quoted else "abc")
    assert ask(app, "/v1/AUTH_a/c").headers["Etag"] == "abc"


@pytest.mark.parametrize(("etag", "quoted"), [('"x"', '"x"'), ('W/"x"', 'W/"x"'), ('"', '"""')])
def test_what_has_quotes_gets_no_more(ask: Any, etag: str, quoted: str) -> None:
    app, inner = quoter("true")
    inner.answer = lambda environ: Response(304, {"Etag": etag})
    assert ask(app, OBJECT).headers["Etag"] == quoted


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/AUTH_a", "Account"), ("/v1/AUTH_a/c", "Container")]
)
def test_the_setting_is_kept_and_shown(ask: Any, path: str, kind: str) -> None:
    app, inner = quoter()
    key = f"HTTP_X_{kind.upper()}_SYSMETA_RFC_COMPLIANT_ETAGS"
    for value, kept in (("yes", "True"), ("no", "False"), ("", "")):
        ask(app, path, "POST", {f"X-{kind}-Rfc-Compliant-Etags": value})
        assert inner.environ[key] == kept
    ask(app, path, "POST", {f"X-Remove-{kind}-Rfc-Compliant-Etags": "x"})
    assert inner.environ[key] == ""
    kept_header = {f"X-{kind}-Sysmeta-Rfc-Compliant-Etags": "True"}
    inner.answer = lambda environ: Response(204, kept_header)
    assert ask(app, path).headers[f"X-{kind}-Rfc-Compliant-Etags"] == "True"
