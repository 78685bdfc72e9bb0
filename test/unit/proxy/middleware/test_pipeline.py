"""The whole pipeline as PasteDeploy loads it, around a fake application."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from paste.deploy import loadapp, loadwsgi

from martlet.conf.options import ConfigError
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request


@pytest.fixture(autouse=True)
def _own_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the loader that OpenStack Swift, imported by other tests, installs in PasteDeploy."""
    classes = loadwsgi.ConfigLoader.__mro__
    own = next(cls for cls in classes if cls.__module__ == loadwsgi.__name__)
    monkeypatch.setattr(loadwsgi, "ConfigLoader", own)


CONF = """
[DEFAULT]
swift_dir = {directory}
bind_port = 8080
[pipeline:main]
pipeline = {pipeline} inner
[app:inner]
paste.app_factory = {module}:app_factory
[filter:catch_errors]
use = egg:martlet#catch_errors
[filter:gatekeeper]
use = egg:martlet#gatekeeper
[filter:healthcheck]
use = egg:martlet#healthcheck
[filter:proxy-logging]
use = egg:martlet#proxy_logging
[filter:listing_formats]
use = egg:martlet#listing_formats
[filter:cache]
use = egg:martlet#memcache
[filter:tempauth]
use = egg:martlet#tempauth
user_test_tester = 50%% .admin
[filter:copy]
use = egg:martlet#copy
{extra}
"""
PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging listing_formats cache tempauth copy "
    "proxy-logging"
)
INNER = '''
"""An application at the end of the pipeline: authorizes, then says what it saw."""
def app_factory(global_conf, **local_conf):
    return app

def app(environ, start_response):
    from martlet.http.request import Request
    from martlet.http.response import Response
    if environ["PATH_INFO"].endswith("/broken"):
        raise RuntimeError("boom")
    environ["martlet.container_info"] = lambda *names: {"status": 404, "sysmeta": {}}
    refusal = environ["swift.authorize"](Request(environ))
    if refusal:
        return refusal(environ, start_response)
    headers = {"X-Backend-Secret": "s", "X-Cache": type(environ["swift.cache"]).__name__}
    return Response(200, headers, environ["REQUEST_METHOD"])(environ, start_response)
'''


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``load(pipeline, extra)``: the application of a conf."""
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = salt\n"
    )
    module = f"inner_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(INNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    logging.getLogger("proxy.access").setLevel(logging.INFO)

    def load(pipeline: str = PIPELINE, extra: str = "") -> Any:
        conf = tmp_path / "proxy-server.conf"
        conf.write_text(
            CONF.format(directory=tmp_path, pipeline=pipeline, module=module, extra=extra)
        )
        return loadapp(f"config:{conf}")

    return load


def test_request_goes_through_all_filters(
    ask: Any, load: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = load()
    login = ask(app, "/auth/v1.0", headers={"X-Auth-User": "test:tester", "X-Auth-Key": "50%"})
    headers = {"X-Auth-Token": login.headers["X-Auth-Token"]}
    answer = ask(app, "/v1/AUTH_test/c/o", headers=headers)
    assert (answer.status, answer.body) == (200, b"GET")
    assert answer.headers["X-Cache"] == "LocalCache"
    assert "X-Backend-Secret" not in answer.headers
    lines = [r.getMessage() for r in caplog.records if r.name == "proxy.access"]
    assert len(lines) == 2
    assert f"trans_id={answer.headers['X-Trans-Id']}" in lines[1]
    assert "user=test:tester" in lines[1]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/healthcheck", {}, 200),
        ("/v1/AUTH_test/c/o", {}, 401),
        ("/v1/AUTH_test/c/o", {"X-Auth-Token": "AUTH_tkforged"}, 401),
        ("/v1/AUTH_test/c", {"Accept": "image/png"}, 406),
        ("/v1/AUTH_test/c/broken", {}, 500),
        ("/auth/v1.0", {}, 401),
    ],
)
def test_every_answer_has_its_transaction_id(
    ask: Any, load: Any, path: str, headers: dict[str, str], status: int
) -> None:
    answer = ask(load(), path, headers=headers)
    assert answer.status == status
    assert answer.headers["X-Trans-Id"] == answer.headers["X-Openstack-Request-Id"]


def test_unknown_option_is_named_with_its_file(load: Any) -> None:
    extra = "[filter:more]\nuse = egg:martlet#healthcheck\ndisabel_path = /x\n"
    with pytest.raises(ConfigError, match=r"proxy-server\.conf \[filter:.*'disabel_path'"):
        load("more", extra)


def test_one_request_does_not_see_the_environ_of_another(ask: Any, load: Any) -> None:
    seen: list[Environ] = []
    app = load()

    def spy(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        seen.append(environ)
        result: Iterable[bytes] = app(environ, start_response)
        return result

    login = ask(app, "/auth/v1.0", headers={"X-Auth-User": "test:tester", "X-Auth-Key": "50%"})
    ask(spy, "/v1/AUTH_test/c", headers={"X-Auth-Token": login.headers["X-Auth-Token"]})
    ask(spy, "/v1/AUTH_test/c")
    assert "REMOTE_USER" in seen[0]
    assert "REMOTE_USER" not in seen[1]
    assert Request(seen[0]).trans_id != Request(seen[1]).trans_id
