"""Rate limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_proxy import FakeProxy
from hypothesis import given
from hypothesis import strategies as st

from martlet.conf.options import ConfigError
from proxy.cache.local import LocalCache
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.limits.ratelimit import Ratelimit, RatelimitOptions, filter_factory
from proxy.middleware.limits.ratelimit_rules import WRITES_PREFIX, RateStep, rate_for, read_steps

OBJECT, CONTAINER, ACCOUNT = "/v1/a/c/o", "/v1/a/c", "/v1/a"


class Time:
    """A clock that sleeping advances; it records the sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Limited:
    """A filter with its own clock, in front of a proxy with one container."""

    def __init__(self, steps: list[RateStep] | None = None, **options: Any) -> None:
        self.proxy = FakeProxy()
        self.proxy.container["object_count"] = 1000
        self.time = Time()
        self.cache = LocalCache()
        self.app = Ratelimit(
            self.proxy,
            RatelimitOptions(**options),
            steps or [],
            steps or [],
            ["v1", "v1.0"],
            self.time.clock,
            self.time.sleep,
        )

    def ask(self, ask: Any, path: str = OBJECT, method: str = "PUT", **environ: Any) -> int:
        environ = {"swift.cache": self.cache, **environ}
        status: int = ask(self.app, path, method, environ=environ).status
        return status


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (CONTAINER, "PUT"),
        (CONTAINER, "DELETE"),
    ],
)
def test_containers_of_an_account(ask: Any, path: str, method: str) -> None:
    limited = Limited(account_ratelimit=2)
    began = limited.time.now
    for _ in range(21):
        assert limited.ask(ask, path, method) == 204
    assert limited.time.now - began == pytest.approx(10)


@pytest.mark.parametrize("rate", [0.7, 300, 667, 700, 1500])
def test_a_rate_need_not_be_a_whole_step_of_the_clock(ask: Any, rate: float) -> None:
    limited = Limited(account_ratelimit=rate)
    began = limited.time.now
    limited.ask(ask, CONTAINER)
    for _ in range(2000):
        limited.ask(ask, CONTAINER)
    assert 2000 / (limited.time.now - began) == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize(
    ("path", "method"), [(CONTAINER, "POST"), (CONTAINER, "GET"), (OBJECT, "PUT"), (ACCOUNT, "PUT")]
)
def test_the_rest_of_the_account_is_not_held(ask: Any, path: str, method: str) -> None:
    limited = Limited(account_ratelimit=2)
    for _ in range(20):
        limited.ask(ask, path, method)
    assert limited.time.slept == []


@pytest.mark.parametrize(
    ("path", "method", "is_held"),
    [
        (OBJECT, "PUT", True),
        (OBJECT, "POST", True),
        (OBJECT, "DELETE", True),
        (OBJECT, "COPY", True),
        (OBJECT, "GET", False),
        (CONTAINER, "GET", True),
        (CONTAINER, "HEAD", False),
    ],
)
def test_objects_and_listings_of_a_container(
    ask: Any, path: str, method: str, is_held: bool
) -> None:
    limited = Limited([RateStep(100, 10)])
    for _ in range(3):
        limited.ask(ask, path, method)
    assert bool(limited.time.slept) == is_held
    limited.time.slept.clear()
    limited.proxy.container["object_count"] = 99
    for _ in range(30):
        limited.ask(ask, path, method)
    assert limited.time.slept == []


def test_a_wait_too_long_is_refused_and_takes_no_turn(ask: Any) -> None:
    limited = Limited([RateStep(0, 1)], max_sleep_time_seconds=3)
    limited.app._sleep = lambda seconds: None  # no waiting
    statuses = [limited.ask(ask) for _ in range(10)]
    assert statuses == [201] * 3 + [498] * 7
    limited.time.now += 1
    assert [limited.ask(ask) for _ in range(2)] == [201, 498]


def test_turns_that_were_not_used_come_back_for_a_while(ask: Any) -> None:
    limited = Limited([RateStep(0, 1)], rate_buffer_seconds=5)
    limited.ask(ask)
    limited.time.now += 4.5
    for _ in range(4):
        limited.ask(ask)
    assert limited.time.slept == []
    limited.time.now += 100
    limited.ask(ask)
    limited.ask(ask)
    assert limited.time.slept == [1.0]


def test_white_and_black(ask: Any) -> None:
    limited = Limited([RateStep(0, 1)], account_whitelist=["a"])
    assert {limited.ask(ask) for _ in range(5)} == {201}
    assert limited.time.slept == []
    limited = Limited(account_blacklist=["a"])
    assert limited.ask(ask) == 497
    assert limited.time.slept == [1.0]
    assert limited.ask(ask, "/v1/b/c/o") == 201


def test_an_account_has_limits_of_its_own(ask: Any) -> None:
    limited = Limited([RateStep(0, 1)])
    sysmeta = limited.proxy.account["sysmeta"]
    sysmeta["global-write-ratelimit"] = "WHITELIST"
    limited.ask(ask)
    limited.ask(ask)
    assert limited.time.slept == []
    sysmeta["global-write-ratelimit"] = "BLACKLIST"
    assert limited.ask(ask) == 497
    limited = Limited()
    limited.proxy.account["sysmeta"]["global-write-ratelimit"] = "10"
    for path in (OBJECT, CONTAINER, ACCOUNT):
        limited.ask(ask, path, "POST")
    assert limited.time.slept == [pytest.approx(0.1)] * 2
    limited.ask(ask, OBJECT, "GET")
    assert len(limited.time.slept) == 2
    limited.proxy.account["sysmeta"]["global-write-ratelimit"] = "fast"
    limited.ask(ask)
    assert len(limited.time.slept) == 2


def test_a_request_is_counted_once(ask: Any) -> None:
    limited = Limited([RateStep(0, 1)])
    limited.ask(ask)
    limited.ask(ask, **{"swift.ratelimit.handled": True})
    assert limited.time.slept == []
    assert limited.proxy.requests[0]["swift.ratelimit.handled"]


@pytest.mark.parametrize("path", ["/info", "/v1", "/v1/a/%FF/o", "/v2/a/c/o", "/endpoints/a/c/o"])
def test_what_has_no_account_goes_on(ask: Any, path: str) -> None:
    limited = Limited([RateStep(0, 1)], account_ratelimit=1)
    for _ in range(3):
        limited.ask(ask, path)
    assert limited.time.slept == []


def test_without_a_cache_there_are_no_limits(ask: Any) -> None:
    limited = Limited([RateStep(0, 1)])
    for _ in range(3):
        assert ask(limited.app, OBJECT, "PUT").status == 201
    limited.cache.incr = lambda key, delta: None  # type: ignore[method-assign]
    for _ in range(3):
        assert limited.ask(ask) == 201
    assert limited.time.slept == []


def test_long_waits_are_logged(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    limited = Limited([RateStep(0, 1)], log_sleep_time_seconds=0.5)
    limited.ask(ask)
    limited.ask(ask)
    assert "held back method=PUT key=ratelimit/a/c wait=1.00" in caplog.text


STEPS = [RateStep(100, 50.0), RateStep(200, 10.0), RateStep(400, 5.0)]


@pytest.mark.parametrize(
    ("count", "rate"),
    [(0, None), (99, None), (100, 50), (150, 30), (200, 10), (300, 7.5), (400, 5), (10**9, 5)],
)
def test_the_rate_goes_with_the_size(count: int, rate: float | None) -> None:
    assert rate_for(STEPS, count) == rate


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_larger_container_is_never_faster(one: int, other: int) -> None:
    slow, fast = rate_for(STEPS, max(one, other)), rate_for(STEPS, min(one, other))
    assert fast is None or (slow is not None and slow <= fast)


def test_steps_are_read(caplog: pytest.LogCaptureFixture) -> None:
    values = {"container_ratelimit_200": "10", "container_ratelimit_0": "50.5", "other": "x"}
    assert read_steps(values, WRITES_PREFIX) == [RateStep(0, 50.5), RateStep(200, 10)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("container_ratelimit_x", "1"),
        ("container_ratelimit_", "1"),
        ("container_ratelimit_5", "fast"),
        ("container_listing_ratelimit_5", "-1"),
        ("clock_accuracy", "0"),
        ("account_ratelimit", "-1"),
        ("speed", "1"),
    ],
)
def test_mistakes_are_said_at_the_start(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        filter_factory({}, **{name: value})


def test_info(tmp_path: Path) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = x\n"
    )
    conf = {"swift_dir": str(tmp_path)}
    filter_factory(conf, account_ratelimit="5", container_ratelimit_100="50")
    assert collect_info()["ratelimit"] == {
        "account_ratelimit": 5.0,
        "max_sleep_time_seconds": 60.0,
        "container_ratelimits": [[100, 50.0]],
        "container_listing_ratelimits": [],
    }
    clear_info()
