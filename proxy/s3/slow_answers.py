# SPDX-License-Identifier: Apache-2.0
"""Answers to requests that may take minutes: copies, and the completion of uploads.

Clients and load balancers close a connection that is silent for a minute. So the status 200 is sent
before the outcome is known, as at Amazon: white space follows the XML declaration until the work is
done, then the document. An error that comes so late is in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from martlet.http.response import Response
from proxy.crew import run_crew
from proxy.s3.wire.xml_out import DECLARATION


def answer_in_time(
    work: Callable[[], Response], seconds: float, refuse: Callable[[Exception], Response]
) -> Response:
    """The response of ``work``; one that begins with white space if that takes longer.

    A client that closes its connection does not end the work.

    :param seconds: between two pieces of white space, and before the first.
    :param refuse: makes the document of a late error.
    :raises Exception: of ``work``, if it came in time.
    """
    done: list[Response] = []

    def once() -> bool:
        done.append(work())
        return False

    beats = run_crew(once, 1, seconds)
    for _ in beats:
        return Response(
            200, {"Content-Type": "application/xml"}, app_iter=_late(beats, done, refuse)
        )
    return done[0]


def _late(
    beats: Generator[None, None, None],
    done: list[Response],
    refuse: Callable[[Exception], Response],
) -> Iterator[bytes]:
    try:
        with closing(beats):
            yield DECLARATION
            for _ in beats:
                yield b" "
        response = done[0]
    except Exception as error:
        response = refuse(error)
    yield response.body.removeprefix(DECLARATION)
