"""Answers that begin before their outcome is known."""

from __future__ import annotations

import threading
from xml.etree import ElementTree

import pytest

from martlet.http.response import Response
from proxy.s3.call import xml
from proxy.s3.slow_answers import answer_in_time
from proxy.s3.wire.errors import S3Error, error_document
from proxy.s3.wire.xml_out import Document


def document() -> Response:
    found = Document("Done")
    found.text("Name", "é")
    return xml(found.finish(), {"x-amz-version-id": "1"})


def refuse(error: Exception) -> Response:
    known = error if isinstance(error, S3Error) else S3Error("InternalError")
    return Response(known.status, {}, error_document(known, "/b/k", "1", "1"))


class Slow:
    """Work that goes on until it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.may_end = threading.Event()
        self.has_ended = False

    def __call__(self) -> Response:
        assert self.may_end.wait(60)
        self.has_ended = True
        if self.error is not None:
            raise self.error
        return document()


def body_of(slow: Slow) -> bytes:
    """The body of the answer to work that ends after three pieces of white space."""
    response = answer_in_time(slow, 0.001, refuse)
    assert (response.status, dict(response.headers)) == (200, {"Content-Type": "application/xml"})
    assert response.app_iter is not None
    pieces = []
    for piece in response.app_iter:
        pieces.append(piece)
        if len(pieces) == 4:
            slow.may_end.set()
    assert pieces[1:4] == [b" "] * 3
    return b"".join(pieces)


def test_work_that_is_done_in_time() -> None:
    response = answer_in_time(document, 60, refuse)
    assert (response.status, response.body) == (200, document().body)
    assert response.headers["x-amz-version-id"] == "1"


def test_an_error_in_time_is_raised() -> None:
    slow = Slow(S3Error("NoSuchKey"))
    slow.may_end.set()
    with pytest.raises(S3Error) as caught:
        answer_in_time(slow, 60, refuse)
    assert caught.value.code == "NoSuchKey"


def test_white_space_comes_before_the_document() -> None:
    body = body_of(Slow())
    assert body.replace(b" ", b"") == document().body.replace(b" ", b"")
    assert ElementTree.fromstring(body).findtext("{*}Name") == "é"


@pytest.mark.parametrize(
    ("error", "code"), [(S3Error("SlowDown"), "SlowDown"), (OSError("disk"), "InternalError")]
)
def test_a_late_error_is_in_the_body(error: Exception, code: str) -> None:
    assert ElementTree.fromstring(body_of(Slow(error))).findtext("Code") == code


def test_a_client_that_leaves_does_not_end_the_work() -> None:
    slow = Slow()
    response = answer_in_time(slow, 0.001, refuse)
    pieces = iter(response.app_iter or ())
    next(pieces)
    slow.may_end.set()
    pieces.close()  # type: ignore[attr-defined]
    assert slow.has_ended
