"""The console's files: what is served, with which headers, and what they may contain."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from proxy.console.console import PREFIX, filter_factory
from proxy.console.static_files import DIRECTORY, read_files

#: The file `lit-html.js` of lit-html 3.3.3, from the npm registry (doc/console.md).
LIBRARY_SHA256 = "b878e7f95dec8a9b6e9b217faca6b6a11bad82ebc44c0caa77419ed83edd81f2"
OWN_FILES = sorted(
    path for path in DIRECTORY.rglob("*") if path.is_file() and "vendor" not in path.parts
)


@pytest.fixture
def app(Inner: Any) -> Any:
    return filter_factory({})(Inner())


def test_the_page(ask: Any, app: Any) -> None:
    answer = ask(app, PREFIX)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=UTF-8"
    assert b'src="app.js"' in answer.body
    assert ask(app, f"{PREFIX}index.html").body == answer.body
    assert ask(app, "/console").headers["Location"] == PREFIX


def test_every_file_is_served_as_what_it_is(ask: Any, app: Any) -> None:
    types = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg"}
    for path in OWN_FILES:
        answer = ask(app, PREFIX + path.relative_to(DIRECTORY).as_posix())
        assert (answer.status, answer.body) == (200, path.read_bytes())
        assert answer.headers["Content-Type"].startswith(types[path.suffix[1:]])


def test_headers_that_protect(ask: Any, app: Any) -> None:
    paths = [f"{PREFIX}{name}" for name in ("", "app.js", "settings.json", "absent", "../x")]
    for path in [*paths, "/console"]:
        headers = ask(app, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "connect-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    ["absent", "console.py", "../console.py", "%2e%2e/console.py", "/etc/passwd", "vendor", "\xff"],
)
def test_other_names(ask: Any, app: Any, path: str) -> None:
    answer = ask(app, PREFIX + path)
    assert answer.status == 404
    assert path.encode("utf-8") not in answer.body


def test_methods(ask: Any, app: Any) -> None:
    assert ask(app, PREFIX, "HEAD").status == 200
    for method in ("PUT", "POST", "DELETE", "COPY", "OPTIONS"):
        answer = ask(app, PREFIX, method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_browsers_ask_again_and_load_only_what_changed(ask: Any, app: Any) -> None:
    first = ask(app, f"{PREFIX}app.js")
    assert first.headers["Cache-Control"] == "no-cache"
    again = ask(app, f"{PREFIX}app.js", headers={"If-None-Match": first.headers["Etag"]})
    assert (again.status, again.body) == (304, b"")
    assert ask(app, f"{PREFIX}app.js", headers={"If-None-Match": '"old"'}).status == 200


@pytest.mark.parametrize("path", ["/", "/v1/AUTH_a/console/", "/consoles", "/console.html"])
def test_other_paths_are_passed_on(ask: Any, app: Any, path: str) -> None:
    assert ask(app, path).body == b"body"


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"Authorization": "AWS4-HMAC-SHA256 Credential=x"}),
        ("", {"Authorization": "AWS test:tester:x"}),
        ("?X-Amz-Algorithm=x&X-Amz-Signature=1", {}),
        ("?AWSAccessKeyId=x&Signature=y", {}),
    ],
)
def test_a_bucket_of_s3_may_have_the_name_console(
    ask: Any, app: Any, query: str, headers: dict[str, str]
) -> None:
    assert ask(app, f"/console/key{query}", headers=headers).body == b"body"


@pytest.mark.parametrize(
    ("headers", "content_type", "option", "is_apart"),
    [
        ({"Sec-Fetch-Mode": "navigate"}, "text/html", "true", True),
        ({"Sec-Fetch-Mode": "navigate"}, "image/svg+xml", "true", True),
        ({"Sec-Fetch-Mode": "navigate"}, "", "true", True),
        ({"Sec-Fetch-Mode": "navigate"}, "application/pdf", "true", False),
        ({"Sec-Fetch-Mode": "navigate"}, "Application/PDF ; a=b", "true", False),
        ({"Sec-Fetch-Mode": "navigate"}, "application/pdf, text/html", "true", True),
        ({"Sec-Fetch-Mode": "navigate"}, "application/pdf;a=b,text/html", "true", True),
        ({"Sec-Fetch-Mode": "navigate"}, "application/pdf+xml", "true", True),
        ({"Sec-Fetch-Mode": "navigate"}, "text/html", "false", False),
        ({"Accept": "text/html,application/xml;q=0.9"}, "text/html", "true", True),
        ({"Sec-Fetch-Mode": "cors", "Accept": "text/html"}, "text/html", "true", False),
        ({"Accept": "*/*"}, "text/html", "true", False),
        ({}, "text/html", "true", False),
    ],
)
def test_documents_that_are_objects_get_a_sandbox(
    ask: Any,
    Inner: Any,
    headers: dict[str, str],
    content_type: str,
    option: str,
    is_apart: bool,
) -> None:
    inner = Inner(headers=[("Content-Type", content_type)] if content_type else [])
    answer = ask(filter_factory({}, sandbox_objects=option)(inner), "/v1/a/c/o", headers=headers)
    policy = answer.headers.get("Content-Security-Policy", "")
    assert policy.startswith("sandbox ") == is_apart
    assert "allow-same-origin" not in policy


def test_settings(ask: Any, Inner: Any) -> None:
    app = filter_factory({}, keystone_url="https://keys.example.com:5000/v3/")(Inner())
    answer = ask(app, f"{PREFIX}settings.json")
    url = "https://keys.example.com:5000/v3"
    assert json.loads(answer.body) == {"auth_path": "/auth/v1.0", "keystone_url": url}
    policy = answer.headers["Content-Security-Policy"]
    assert "connect-src 'self' https://keys.example.com:5000;" in policy


@pytest.mark.parametrize(
    "options",
    [
        {"keystone_url": "keys.example.com"},
        {"keystone_url": "ftp://keys.example.com"},
        {"keystone_url": "https://keys.example.com; script-src *"},
        {"keystone_url": "https://user@keys.example.com/v3"},
        {"keystone_url": "https://[bad/v3"},
        {"auth_path": "auth/v1.0"},
        {"auth_path": "//other.example.com/auth"},
        {"unknown": "1"},
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        filter_factory({}, **options)


def test_the_library_is_the_released_one() -> None:
    found = (DIRECTORY / "vendor" / "lit-html.js").read_bytes()
    assert hashlib.sha256(found).hexdigest() == LIBRARY_SHA256
    licence = (DIRECTORY / "vendor" / "lit-html.LICENSE").read_text()
    assert licence.startswith("BSD 3-Clause License")
    assert "vendor/lit-html.js" in read_files()


def test_no_file_asks_another_server_or_runs_what_is_no_file() -> None:
    for path in OWN_FILES:
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"'`]+", text) == [], path
        assert re.findall(r"\.innerHTML|insertAdjacentHTML|eval\(|new Function", text) == [], path
        assert re.findall(r"\sstyle=|\son\w+=[\"']|<script>", text) == [], path


def test_imports_name_files_that_are_served() -> None:
    names = read_files()
    for path in OWN_FILES:
        for name in re.findall(r"(?m)^.* from \"(.+)\";$", path.read_text(encoding="utf-8")):
            assert name.startswith("."), name
            target = (path.parent / name).resolve().relative_to(DIRECTORY).as_posix()
            assert target in names, name
