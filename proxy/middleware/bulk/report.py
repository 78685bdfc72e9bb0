# SPDX-License-Identifier: Apache-2.0
"""The answer to a bulk request: the number of successes, and the failures.

The answer starts before the work is done, so that the connection does not look dead. Its status is
always 200. White space is sent while the work is in progress, and the body has the real status.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from urllib.parse import quote

from martlet.http.environ import Environ
from martlet.http.listing import JSON, PLAIN, TEXT_XML, XML, escape_xml, listing_content_type
from martlet.http.response import STATUS_LINES, HTTPException, Response
from martlet.log import get_logger

log = get_logger("proxy.bulk")

#: The work of a bulk request, done during iteration; each pause lets the answer send white space.
Work = Generator[None, None, None]

#: A percent-encoded name and the status line of its failure.
Failure = tuple[str, str]

_XML_HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n'


class Report:
    """The outcome so far. Names are WSGI strings.

    :param root: the XML element: ``extract`` or ``delete``.
    :param status: the status if nothing fails.
    :param counts: the reported figures by name.
    """

    def __init__(self, root: str, status: int, counts: dict[str, int]) -> None:
        self.status = status
        self.sentence = ""
        self.counts = counts
        self.failures: list[Failure] = []
        self._root = root

    def add_failure(self, name: str, status: int) -> None:
        """Record the failure of a file or an object."""
        shown = quote(name.encode("latin-1"))
        self.failures.append((shown, STATUS_LINES.get(status, str(status))))

    def refuse(self, error: HTTPException) -> None:
        """End the whole request with this error."""
        self.status = error.response.status
        self.sentence = error.response.body.decode("utf-8", "replace")

    def render(self, content_type: str) -> bytes:
        """Return the body, without an XML declaration."""
        shown: dict[str, str | int] = {
            "Response Status": STATUS_LINES.get(self.status, str(self.status)),
            "Response Body": self.sentence,
            **self.counts,
        }
        return render_outcome(content_type, self._root, shown, self.failures)


def render_outcome(
    content_type: str, root: str, shown: Mapping[str, str | int], failures: Sequence[Failure]
) -> bytes:
    """Return the named values, then the failures; XML has no declaration."""
    if content_type == JSON:
        return json.dumps({**shown, "Errors": failures}).encode("ascii")
    if content_type in (XML, TEXT_XML):
        return _render_xml(root, shown, failures)
    lines = [f"{name}: {shown[name]}" for name in sorted(shown)]
    lines += ["Errors:", *(f"{name}, {status}" for name, status in failures)]
    return "".join(f"{line}\n" for line in lines).encode()


def _render_xml(root: str, shown: Mapping[str, str | int], failures: Sequence[Failure]) -> bytes:
    parts = [f"<{root}>\n"]
    for name in sorted(shown):
        tag = name.replace(" ", "_").lower()
        parts.append(f"<{tag}>{escape_xml(str(shown[name]))}</{tag}>\n")
    parts.append("<errors>\n")
    for failed, status in failures:
        parts.append(f"<object><name>{escape_xml(failed)}</name>")
        parts.append(f"<status>{escape_xml(status)}</status></object>\n")
    parts.append(f"</errors>\n</{root}>\n")
    return "".join(parts).encode()


def answer(environ: Environ, report: Report, work: Work) -> Response:
    """Return the response of a bulk request.

    :param work: does the work during iteration and fills the report; each of its pauses sends a
        piece of white space. An HTTPException that it raises becomes the status of the request.
    """
    try:
        content_type = listing_content_type(None, environ.get("HTTP_ACCEPT"))
    except HTTPException as error:
        report.refuse(error)
        report.status = 406
        return Response(200, {"Content-Type": PLAIN}, report.render(PLAIN))
    body = _body(report, work, content_type)
    return Response(200, {"Content-Type": content_type}, app_iter=body)


def _body(report: Report, work: Work, content_type: str) -> Iterator[bytes]:
    blank = _XML_HEAD if content_type in (XML, TEXT_XML) else b" "
    separator = b""
    try:
        with closing(work):  # the work stops when the client disconnects
            for _ in work:
                yield blank
                blank, separator = b" ", b"\r\n\r\n"
    except HTTPException as error:
        report.refuse(error)
    except Exception:
        log.exception("a bulk request failed")
        report.status = 500
    yield separator + report.render(content_type)
