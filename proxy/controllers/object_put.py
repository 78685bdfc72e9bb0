# SPDX-License-Identifier: Apache-2.0
"""Storing an object at its replicas.

A small body is read first and sent to every device in one message, together with the headers. A
large body, one of unknown length and one with a condition is sent in pieces, after the devices have
agreed to accept it (100-continue). `proxy.controllers.conditional` explains conditions.

In both cases a hand-off replaces a device that fails, as long as that is possible. The answer to
the client needs a quorum. For metadata that filters know only after the body, see
`proxy.replicas.footers`. The proxy takes the MD5 of a body once, for all replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from martlet.http.environ import REPLACED_UPLOADS, SENT_BEFORE
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.http.response import Response, http_date, http_error
from proxy.controllers.conditional import (
    after_the_first,
    is_conditional_put,
    majority,
    may_outvote,
)
from proxy.controllers.object_write import Write
from proxy.replicas.body_sums import BodySums
from proxy.replicas.core import Core
from proxy.replicas.engine import Outcome
from proxy.replicas.footers import MimeBody, footers_of, has_footers, overridden
from proxy.replicas.gone_uploads import replaced_uploads
from proxy.replicas.locks import refuse_locked
from proxy.replicas.quorum import Answer, have_quorum, own_write_done, quorum_size
from proxy.replicas.updates import have_known_rows, row_headers, told_by
from proxy.replicas.uploads import Uploads
from proxy.replicas.versions import rows_of_put

# Bodies up to this size are sent in one message. A GET reads them as a whole before it answers.
ONE_MESSAGE_BYTES_MAX = 64 * 1024

_SENTENCES = {
    422: "The Etag that was sent is not the MD5 of the body; nothing was stored.",
    503: "Too few storage servers took the object; try again.",
}


class Store(NamedTuple):
    """One object to be stored."""

    core: Core
    req: Request
    write: Write

    def run(self) -> Response:
        """201; 202 if a newer one exists; 408, 412, 413, 422, 499, 503."""
        length = self.req.content_length
        if self.req.is_chunked:
            length = None
        is_small = length is not None and length <= ONE_MESSAGE_BYTES_MAX
        if length is not None and is_small and not is_conditional_put(self.req.environ):
            body = b"".join(self._read_client(length))
            footers = footers_of(self.req.environ)
            sums = BodySums()
            sums.add(body)
            outcomes = self._send_in_one(body, footers, sums)
            sent_etag = sums.etag
        else:
            length, footers, outcomes, sent_etag = self._send_in_pieces(length)
        self.write.note_missed(self.core, outcomes)
        answers = self._done(outcomes)
        response = self._response(answers)
        if sent_etag and "Etag" not in response.headers:
            # All answers were lost: at the second request, each device found its own write done.
            response.headers["Etag"] = sent_etag
        self._tell_replaced(response.status, outcomes)
        told = told_by(outcomes)
        etag = response.headers.get("Etag")
        if len(told) < len(self.write.updates) and etag is not None:
            self._tell_containers(told, length, etag, footers)
        if have_known_rows(outcomes):
            self.write.row.send_known(outcomes, row_headers(self.write.headers))
        return response

    def _done(self, outcomes: list[Outcome]) -> list[Answer]:
        """The answers; 201 where this same write was refused as it is there already."""
        environ = self.req.environ
        answers = [outcome.answer for outcome in outcomes]
        return own_write_done(
            answers, environ["HTTP_X_TIMESTAMP"], 201, was_sent_before=SENT_BEFORE in environ
        )

    def _tell_replaced(self, status: int, outcomes: list[Outcome]) -> None:
        """Tell s3api the upload that this write replaced; one with status 202 replaces nothing."""
        gone: list[tuple[str, str]] | None = self.req.environ.get(REPLACED_UPLOADS)
        if gone is not None and status == 201:
            ids = replaced_uploads(outcomes, self.write.nodes.primaries)
            gone += [(self.write.request.path, name) for name in ids]

    def _tell_containers(self, told: set[int], size: int, etag: str, footers: Headers) -> None:
        metadata = Headers(self.write.headers)
        metadata.update(footers)
        shown = overridden(size, etag, metadata["Content-Type"], metadata)
        headers = {
            **row_headers(metadata),
            "X-Size": shown[0],
            "X-Etag": shown[1],
            "X-Content-Type": shown[2],
        }
        for method, values in rows_of_put(headers, self.write.headers):
            self.write.row.send_missed(method, told, values)

    def _send_in_one(self, body: bytes, footers: Headers, sums: BodySums) -> list[Outcome]:
        self._check_etag(footers, sums.etag)
        self.write.headers.update(sums.headers())
        if "Etag" in footers:
            footers["Etag"] = sums.etag  # which may be quoted
        request = self.write.request._replace(body=body)
        headers = self.write.wire_headers(footers)
        return self.core.ask(request, self.write.nodes, headers)

    def _send_in_pieces(self, length: int | None) -> tuple[int, Headers, list[Outcome], str]:
        """Returns the number of bytes received, the footers, the outcomes, and the MD5 if taken."""
        received = 0
        nodes = self.write.nodes
        replicas = nodes.primary_count
        is_conditional = is_conditional_put(self.req.environ)
        enough = majority(replicas) if is_conditional else quorum_size(replicas)
        patience = self.core.options.post_quorum_timeout
        is_small = length is not None and length <= ONE_MESSAGE_BYTES_MAX
        frame = None if is_small and not has_footers(self.req.environ) else MimeBody()
        # A device stores a body of known length at its last byte, before the first primary decides.
        framed_length = length if frame is None and not is_conditional else None
        headers = self.write.wire_headers(None if frame is None else frame.headers(length))
        uploads = Uploads(self.core.backends, self.write.request, needs_footers=frame is not None)
        try:
            refusals = uploads.open(nodes, headers, framed_length, enough, patience)
            known = self._done(refusals)
            having = sum(answer.status == 201 for answer in known)  # no body is sent to these
            agree = uploads.accepts(nodes.primaries)
            if agree < enough or not may_outvote(self.req.environ, refusals, nodes.first_primary):
                self._check_refusals(known, uploads.live_count + having)
            if is_conditional and agree < enough:
                raise http_error(503)
            uploads.start_writers()
            for chunk in self._read_client(length):
                received += len(chunk)
                uploads.send(chunk if frame is None else frame.add(chunk))
                if uploads.live_count + having < enough:
                    raise http_error(503, "Too few storage servers took the object.")
            footers = footers_of(self.req.environ)
            if frame is not None:
                self._check_etag(footers, frame.etag)
                uploads.send(frame.closing(footers))
            if is_conditional:
                self._check_first(uploads.finish_first(nodes.first_primary))
        except BaseException:  # also if the green thread is killed: no half object may stay
            uploads.abort()
            raise
        if is_conditional:
            refusals = after_the_first(self.write, refusals)
        said = [answer.status for answer in self._done(refusals)]
        outcomes = uploads.finish(
            lambda statuses: have_quorum(said + statuses, replicas),
            patience,
        )
        if is_conditional:
            outcomes = after_the_first(self.write, outcomes)
        etag = "" if frame is None else frame.etag
        return received, footers, refusals + outcomes, etag

    def _check_etag(self, footers: Headers, etag: str) -> None:
        """Compare the MD5 of the body with the one that the client or a filter has given."""
        given = footers.get("Etag") or self.write.headers.get("Etag", "")
        if given and given.strip('"').lower() != etag:
            raise http_error(422, _SENTENCES[422])

    def _check_first(self, answer: Answer | None) -> None:
        if answer is None or answer.status != 201:
            status = 503 if answer is None else answer.status
            raise http_error(202 if status == 409 else status, _SENTENCES.get(status, ""))

    def _check_refusals(self, answers: list[Answer], ready: int) -> None:
        refuse_locked(answers)
        statuses = {answer.status for answer in answers}
        if 412 in statuses:
            raise http_error(412)
        if 409 in statuses:
            raise http_error(202)  # a newer object exists, so this write has no effect
        replicas = self.write.nodes.primary_count
        if ready < quorum_size(replicas):
            answer = self.core.best(self.write.request, answers, replicas)
            raise http_error(answer.status)

    def _read_client(self, length: int | None) -> Iterator[bytes]:
        """The body in pieces.

        :raises HTTPException: (400) a malformed chunk; (408) no data in time; (413) too large;
            (499) the client closed the connection.
        """
        limit = self.core.constraints.max_file_size
        piece_size = self.core.options.client_chunk_size
        stream = self.req.body_file
        received = 0
        while length is None or received < length:
            wanted = piece_size if length is None else min(piece_size, length - received)
            try:
                chunk = stream.read(wanted)
            except TimeoutError:
                raise http_error(408, "The client sent nothing for too long.") from None
            except OSError:
                raise http_error(499, "The client went away.") from None
            except ValueError:
                raise http_error(400, "The chunked encoding of the body is malformed.") from None
            if not chunk:
                break
            received += len(chunk)
            if received > limit:
                raise http_error(413, f"The object is larger than {limit} bytes.")
            yield chunk
        if length is not None and received < length:
            raise http_error(499, "The client went away before the end of the object.")

    def _response(self, answers: list[Answer]) -> Response:
        refuse_locked(answers)
        statuses = {answer.status for answer in answers}
        if 412 in statuses:
            raise http_error(412)
        if 409 in statuses:
            raise http_error(202)
        etags = {
            answer.headers["etag"].strip('"')
            for answer in answers
            if "etag" in answer.headers and 200 <= answer.status < 300
        }
        if len(etags) > 1:
            self.core.logger.error(
                "event=etag_mismatch path=%s etags=%s trans_id=%s",
                self.write.request.path,
                ",".join(sorted(etags)),
                self.write.request.trans_id,
            )
            raise http_error(500, "The storage servers disagree about what they stored.")
        best = self.core.best(self.write.request, answers, self.write.nodes.primary_count)
        if not 200 <= best.status < 300:
            raise http_error(best.status, _SENTENCES.get(best.status, ""))
        headers = {
            "Content-Type": "text/html; charset=UTF-8",
            "Last-Modified": _http_date(self.req.timestamp.ceil()),
        }
        for etag in etags:
            headers["Etag"] = etag
        return Response(best.status, headers)


@lru_cache(16)
def _http_date(seconds: int) -> str:
    """Cached, because all PUTs of a second have the same date."""
    return http_date(seconds)
