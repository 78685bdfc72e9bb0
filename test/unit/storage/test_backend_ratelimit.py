"""So many requests a second for each device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.grid import GridConf
from martlet.conf.options import ConfigError
from martlet.filters.backend_ratelimit import (
    BackendRatelimit,
    BackendRatelimitOptions,
    filter_factory,
)
from martlet.filters.healthcheck import Healthcheck, HealthcheckOptions
from martlet.grid.handlers import Handler
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.service.gate import Admits, behind_gate


def server(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return Response(204)(environ, start_response)


class Clock:
    """Goes on when told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limited(
    clock: Clock,
    read_file: Callable[[], BackendRatelimitOptions | None] = lambda: None,
    **options: float,
) -> BackendRatelimit:
    options = {"requests_per_device_rate_buffer": 0.0, **options}
    values: Any = options
    return BackendRatelimit(server, BackendRatelimitOptions(**values), read_file, clock)


def ask(app: BackendRatelimit, path: str = "/sda/7/a/c", method: str = "GET") -> int:
    status, _, _ = call_app(app, Request.blank(path, method).environ)
    return int(status.split()[0])


def test_without_limits_all_goes_on(clock: Clock) -> None:
    app = limited(clock)
    assert {ask(app) for _ in range(100)} == {204}


def test_a_device_takes_so_many_in_a_second(clock: Clock) -> None:
    app = limited(clock, requests_per_device_per_second=8)
    assert [ask(app), ask(app, method="PUT")] == [204, 529]
    assert ask(app, "/sdb/7/a/c") == 204
    taken = 0
    for _ in range(640):
        clock.now += 1 / 64
        taken += ask(app) == 204
    assert taken == 80


def test_a_method_has_a_limit_of_its_own(clock: Clock) -> None:
    app = limited(clock, put_requests_per_device_per_second=1)
    assert [ask(app, method=m) for m in ("PUT", "PUT", "GET", "GET")] == [204, 529, 204, 204]


def test_what_one_limit_refuses_does_not_count_for_the_other(clock: Clock) -> None:
    app = limited(clock, put_requests_per_device_per_second=0.1, requests_per_device_per_second=1)
    assert ask(app, method="PUT") == 204
    clock.now += 1
    assert [ask(app, method=m) for m in ("PUT", "GET", "GET")] == [529, 204, 529]


def test_an_idle_device_may_catch_up(clock: Clock) -> None:
    app = limited(clock, requests_per_device_per_second=8, requests_per_device_rate_buffer=1)
    assert [ask(app) for _ in range(2)] == [204, 529]  # one never asked has nothing to catch up
    clock.now += 100
    assert [ask(app) for _ in range(10)] == [204] * 9 + [529]


@pytest.mark.parametrize(
    ("path", "method"),
    [("/healthcheck", "GET"), ("/recon/async", "GET"), ("/", "GET"), ("/sda/7/a", "OPTIONS")],
)
def test_what_is_about_no_device_is_not_counted(clock: Clock, path: str, method: str) -> None:
    app = limited(clock, requests_per_device_per_second=1)
    assert [ask(app, path, method) for _ in range(3)] == [204] * 3


def test_the_file_is_read_again(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "backend-ratelimit.conf"
    conf = {"swift_dir": str(tmp_path)}
    app = filter_factory(conf, requests_per_device_per_second="0")(server)
    app._clock = clock
    app._load()
    assert {ask(app) for _ in range(5)} == {204}
    text = "[backend_ratelimit]\nrequests_per_device_per_second = 1\n"
    path.write_text(text + "requests_per_device_rate_buffer = 0\n")
    clock.now += 59
    assert {ask(app) for _ in range(5)} == {204}
    clock.now += 2
    assert [ask(app), ask(app)] == [204, 529]
    path.write_text("[backend_ratelimit]\nrequests_per_device_per_second = -1\n")
    clock.now += 61
    assert [ask(app), ask(app)] == [204, 529]
    assert "limits unchanged" in caplog.text
    path.write_text("[other]\n")
    clock.now += 61
    assert [ask(app), ask(app)] == [204, 529]
    assert "has no section [backend_ratelimit]" in caplog.text
    path.unlink()
    for _ in range(3):
        clock.now += 61
        assert [ask(app), ask(app)] == [204, 529]
    assert caplog.text.count("the file does not exist") == 1
    path.write_text("[backend_ratelimit]\n")
    clock.now += 61
    assert {ask(app) for _ in range(5)} == {204}


def test_a_named_file_may_come_later(
    clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "limits"
    app = filter_factory({}, backend_ratelimit_conf_path=str(path))(server)
    assert "the file does not exist" in caplog.text
    app._clock = clock
    app._load()
    path.write_text("[backend_ratelimit]\nget_requests_per_device_per_second = 1\n")
    clock.now += 61
    assert [ask(app), ask(app)] == [204, 529]


def test_mistakes_are_said_at_the_start(tmp_path: Path) -> None:
    conf = {"swift_dir": str(tmp_path)}
    with pytest.raises(ConfigError, match="may not be below 0"):
        filter_factory(conf, get_requests_per_device_per_second="-1")
    (tmp_path / "backend-ratelimit.conf").write_text("[backend_ratelimit]\nspeed = 1\n")
    with pytest.raises(ConfigError, match="unknown option 'speed'"):
        filter_factory(conf)


def test_requests_over_the_grid_count(clock: Clock) -> None:
    class App:
        def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            return server(environ, start_response)

        def grid_handlers(self, admits: Admits) -> dict[str, Handler]:
            self.admits = admits
            return {}

    app = App()
    limiter = limited(clock, get_requests_per_device_per_second=1)
    limiter.app = app
    behind_gate(Healthcheck(limiter, HealthcheckOptions()), GridConf(), "test", 8)
    assert [app.admits("sda", m) for m in ("GET", "PUT", "GET")] == [True, True, False]
    assert ask(limiter) == 529
    assert app.admits("sdb", "GET")
