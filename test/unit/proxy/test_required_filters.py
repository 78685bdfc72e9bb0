"""A proxy without its required filters gets them; one that cannot know who asks stays down."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from paste.deploy import loadwsgi

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.request import Request
from martlet.service.server import load_pipeline
from proxy.required_filters import insert_required_filters

INNER = """
def app_factory(global_conf, **local_conf):
    def app(environ, start_response):
        SEEN.append(environ)
        start_response("200 OK", [("X-Backend-Secret", "s"), ("Content-Length", "0")])
        return [b""]
    return app

SEEN = []
"""
WHOLE = [
    "catch_errors",
    "gatekeeper",
    "listing_formats",
    "copy",
    "dlo",
    "versioned_writes",
]
FORGED = {
    "X-Backend-Storage-Policy-Index": "1",
    "X-Account-Sysmeta-Quota-Bytes": "1",
    "X-Timestamp": "9999999999.00000",
}


@pytest.fixture(autouse=True)
def _own_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenStack Swift, which other tests import, puts a loader of its own into PasteDeploy."""
    classes = loadwsgi.ConfigLoader.__mro__
    own = next(cls for cls in classes if cls.__module__ == loadwsgi.__name__)
    monkeypatch.setattr(loadwsgi, "ConfigLoader", own)


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``conf(pipeline, app_options)``: the path of a conf with these filters left of ``inner``."""
    module = f"inner_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(INNER)
    (tmp_path / "auth_token.py").write_text(
        "def filter_factory(global_conf, **conf):\n    return lambda app: app\n"
    )
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = salt\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(pipeline: str, app_options: str = "") -> Path:
        filters = set(pipeline.split()) - {"authtoken"}
        sections = [
            f"[DEFAULT]\nswift_dir = {tmp_path}\n[pipeline:main]\npipeline = {pipeline} inner\n",
            f"[app:inner]\npaste.app_factory = {module}:app_factory\n{app_options}\n",
            "[filter:authtoken]\npaste.filter_factory = auth_token:filter_factory\n",
            *(f"[filter:{n}]\nuse = egg:martlet#{n.replace('-', '_')}\n" for n in filters),
            "user_t_t = t\n" if "tempauth" in filters else "",
        ]
        path = tmp_path / "proxy-server.conf"
        path.write_text("".join(_tempauth_last(sections)))
        return path

    return write


def _tempauth_last(sections: list[str]) -> list[str]:
    """Its user must follow it."""
    return sorted(sections, key=lambda text: ("#tempauth" in text) + 2 * (text[:5] == "user_"))


def completed(path: Path) -> list[str]:
    """The filters after completion, by the module that makes them."""
    context = loadwsgi.loadcontext(loadwsgi.APP, f"config:{path}")
    insert_required_filters(context)
    return [one.object.__module__.rpartition(".")[2] for one in context.filter_contexts]


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("", " ".join(WHOLE)),
        (
            "healthcheck cache tempauth",
            "catch_errors gatekeeper healthcheck cache listing_formats tempauth copy dlo "
            "versioned_writes",
        ),
        (
            "catch_errors proxy-logging tempauth account-quotas slo proxy-logging",
            "catch_errors gatekeeper proxy_logging listing_formats tempauth copy account_quotas "
            "dlo slo versioned_writes proxy_logging",
        ),
        (
            "healthcheck catch_errors",
            "gatekeeper healthcheck catch_errors listing_formats copy dlo versioned_writes",
        ),
        (" ".join(WHOLE), " ".join(WHOLE)),
    ],
    ids=["nothing", "auth", "quotas", "catch_errors late", "whole"],
)
def test_what_is_missing_is_put_where_it_belongs(conf: Any, pipeline: str, expected: str) -> None:
    assert completed(conf(pipeline)) == expected.split()


def test_each_insertion_is_logged(conf: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        completed(conf("catch_errors tempauth listing_formats copy dlo versioned_writes"))
    lines = [r.getMessage() for r in caplog.records if r.name == "proxy.pipeline"]
    assert len(lines) == 1
    assert "filter=gatekeeper right_of=catch_errors" in lines[0]


def test_private_headers_of_a_client_do_not_get_through(conf: Any) -> None:
    app = load_pipeline(conf("cache"), insert_required_filters)
    environ = Request.blank("/v1/a/c/o", "PUT", FORGED).environ
    _, headers, _ = call_app(app, environ)
    for key in ("STORAGE_POLICY_INDEX", "ACCOUNT_SYSMETA_QUOTA_BYTES", "TIMESTAMP"):
        assert not [name for name in environ if name in (f"HTTP_X_{key}", f"HTTP_X_BACKEND_{key}")]
    names = {name.lower() for name, _ in headers}
    assert "x-trans-id" in names
    assert "x-backend-secret" not in names


def test_an_internal_pipeline_stays_as_it_is(conf: Any) -> None:
    assert completed(conf("cache keystoneauth", "internal_pipeline = yes")) == [
        "cache",
        "keystoneauth",
    ]


@pytest.mark.parametrize("pipeline", ["keystoneauth", "keystoneauth authtoken"])
def test_identities_that_a_client_could_forge_are_refused(conf: Any, pipeline: str) -> None:
    with pytest.raises(ConfigError, match="keystoneauth needs authtoken"):
        completed(conf(pipeline))


def test_keystoneauth_right_of_authtoken(conf: Any) -> None:
    assert "keystoneauth" in completed(conf("authtoken keystoneauth"))


def test_a_pipeline_within_the_pipeline(conf: Any) -> None:
    """Filters in it are kept; missing ones come behind its auth filter."""
    path = conf("catch_errors gatekeeper proxy-logging tempauth copy")
    text = path.read_text()
    whole = "catch_errors gatekeeper proxy-logging tempauth copy inner"
    assert whole in text
    nested = "[pipeline:storage]\npipeline = tempauth copy inner\n"
    text = text.replace(whole, "catch_errors gatekeeper proxy-logging storage")
    path.write_text(text + nested)
    assert completed(path) == [*WHOLE[:2], "proxy_logging", WHOLE[2], "tempauth", *WHOLE[3:]]


def test_an_internal_pipeline_within_the_pipeline(conf: Any) -> None:
    path = conf("cache", "internal_pipeline = yes")
    text = path.read_text().replace("pipeline = cache inner", "pipeline = cache storage")
    path.write_text(text + "[pipeline:storage]\npipeline = inner\n")
    assert completed(path) == ["cache"]


def test_keystoneauth_in_a_pipeline_within_the_pipeline(conf: Any) -> None:
    path = conf("cache keystoneauth")
    text = path.read_text().replace("= cache keystoneauth inner", "= cache storage")
    path.write_text(text + "[pipeline:storage]\npipeline = keystoneauth inner\n")
    with pytest.raises(ConfigError, match="keystoneauth needs authtoken"):
        completed(path)


def test_an_application_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "proxy-server.conf"
    path.write_text("[app:main]\nuse = egg:martlet#proxy\n")
    with pytest.raises(ConfigError, match=r"no \[pipeline:main\]"):
        load_pipeline(path, insert_required_filters)
