"""A waiting green thread has nothing of a pipeline on its stack of C."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import greenlet
import pytest

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.metrics.service import worker_gauges
from martlet.service.pipeline import called_directly, create_pipeline

#: More than a few frames of C, and less than one for each of the filters.
SMALL = 2000
COUNT = 20


class Context:
    """A context as PasteDeploy makes it; ``created`` is what it is for."""

    def __init__(self, kind: str, created: Any, filters: Iterable[Any] = ()) -> None:
        self.object_type = type("Kind", (), {"name": kind})
        self.created = created
        self.app_context = self if kind == "app" else Context("app", created)
        self.filter_contexts = [Context("filter", one) for one in filters]

    def create(self) -> Any:
        return self.created


class Numbered:
    """A filter that adds its number to the path."""

    def __init__(self, app: WSGIApp, number: int) -> None:
        self.app = app
        self.number = number

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ["PATH_INFO"] += f"{self.number} "
        return self.app(environ, start_response)


class Waiting:
    """An application that waits before it answers."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        main = greenlet.getcurrent().parent
        assert main is not None
        main.switch()
        return Response(200, {}, environ["PATH_INFO"])(environ, start_response)


def numbered(number: int) -> Callable[[WSGIApp], WSGIApp]:
    return lambda app: Numbered(app, number)


def bytes_while_waiting(app: WSGIApp) -> int:
    """The size of the stack that is saved when another green thread runs."""

    def other() -> None:
        main.switch()

    main = greenlet.getcurrent()
    waiting = greenlet.greenlet(call_app)
    waiting.switch(app, Request.blank("/").environ)
    greenlet.greenlet(other).switch()
    size: int = waiting._stack_saved
    _, _, body = waiting.switch()
    assert b"".join(body).split()[1:] == [b"%d" % number for number in range(1, COUNT)]
    return size


def test_filters_leave_nothing_on_the_stack() -> None:
    filters = [numbered(number) for number in range(COUNT)]
    app: WSGIApp = Waiting()
    for make in reversed(filters):
        app = make(app)
    assert bytes_while_waiting(app) > COUNT * 500  # as PasteDeploy makes it
    assert bytes_while_waiting(create_pipeline(Context("pipeline", Waiting(), filters))) < SMALL


def test_the_order_is_that_of_the_conf() -> None:
    seen: list[Environ] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        seen.append(environ)
        return Response(200)(environ, start_response)

    made = create_pipeline(Context("pipeline", app, [numbered(1), numbered(2)]))
    call_app(made, Request.blank("/").environ)
    assert seen[0]["PATH_INFO"] == "/1 2 "


def test_what_is_no_pipeline_is_made_by_paste() -> None:
    app = Waiting()
    assert create_pipeline(Context("app", app)) is app


def plain(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return Response(200)(environ, start_response)


class Generator:
    """An application whose answer is a generator."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"text"


@pytest.mark.parametrize("app", [plain, Response(200, {}, "text"), Generator()])
def test_any_application_answers_as_before(app: WSGIApp) -> None:
    expected = call_app(app, Request.blank("/").environ)
    status, headers, body = call_app(called_directly(app), Request.blank("/").environ)
    assert (status, headers) == expected[:2]
    assert b"".join(body) == b"".join(expected[2])


def test_an_instance_may_have_a_call_of_its_own() -> None:
    """Python calls the method of the class; so does the pipeline."""
    app: Any = Generator()
    app.__call__ = None
    status, _, _ = call_app(called_directly(app), Request.blank("/").environ)
    assert status == "200 OK"


class Gauged:
    """An application with a figure for GET /metrics."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [b""]

    def gauges(self) -> dict[tuple[str, ...], float]:
        return {("martlet_hints_waiting",): 3.0}


def test_the_figures_of_an_application_behind_filters_are_found() -> None:
    app = create_pipeline(Context("pipeline", Gauged(), [lambda app: Numbered(app, 1)] * 2))
    assert worker_gauges(app)["martlet_hints_waiting",] == 3.0
