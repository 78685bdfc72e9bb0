"""/healthcheck reports whether the proxy should get requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from martlet.filters.healthcheck import filter_factory


def test_ok_while_nothing_disables_it(ask: Any, Inner: Any, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    app = filter_factory({}, disable_path=str(stop))(Inner())
    assert (ask(app, "/healthcheck").status, ask(app, "/healthcheck").body) == (200, b"OK")
    stop.touch()
    answer = ask(app, "/healthcheck")
    assert (answer.status, answer.body) == (503, b"DISABLED BY FILE")
    stop.unlink()
    assert ask(app, "/healthcheck").status == 200


def test_without_a_path_it_is_always_ok(ask: Any, Inner: Any) -> None:
    inner = Inner()
    answer = ask(filter_factory({})(inner), "/healthcheck", "HEAD")
    assert (answer.status, answer.body, inner.environs) == (200, b"", [])


@pytest.mark.parametrize("path", ["/", "/healthcheck/", "/v1/healthcheck", "/healthchecks"])
def test_everything_else_goes_on(ask: Any, Inner: Any, path: str) -> None:
    assert ask(filter_factory({})(Inner()), path).body == b"body"
