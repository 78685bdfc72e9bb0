# SPDX-License-Identifier: Apache-2.0
"""PUT of an archive whose files become objects, which MinIO calls a snowball.

The archive is read to its end before its first file is stored, because its signature and sums
cover all of it. Then each file is a PutObject of the client, with the rights, headers and defaults
of one. The extraction is that of the filter bulk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from tempfile import SpooledTemporaryFile
from typing import IO

from martlet.conf.constraints import Constraints
from martlet.conf.options import is_true
from martlet.http.environ import LOOK_UP, Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response
from martlet.words.names import BadNameError, check_text, str_to_wsgi, wsgi_to_str
from proxy.middleware.bulk.extract import Extraction
from proxy.middleware.bulk.options import BulkOptions
from proxy.s3.actions import access_of
from proxy.s3.bodies import content_md5, framing, open_body
from proxy.s3.call import Call, empty
from proxy.s3.object_headers import META, quoted
from proxy.s3.object_writes import put_object
from proxy.s3.wire.addressing import Address, check_key
from proxy.s3.wire.checksums import PREFIX as CHECKSUM_PREFIX
from proxy.s3.wire.credentials import Message
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.payload import RefusedBody

_SWITCH = f"{META}snowball-auto-extract"
_OPTIONS = f"{META}minio-snowball-"
_PREFIX, _IGNORE_ERRORS = f"{_OPTIONS}prefix", f"{_OPTIONS}ignore-errors"
_STORED_META = "x-object-meta-"
#: Larger archives are kept in a file meanwhile.
_IN_MEMORY_BYTES_MAX = 1024 * 1024
_READ_BYTES = 64 * 1024
#: The first bytes of compressed files -> the name that the extraction has for the form.
_FORMS = {b"\x1f\x8b": "gz", b"BZh": "bz2"}
_OTHER_FORMS = (b"\x28\xb5\x2f\xfd", b"\xff\x06\x00\x00", b"\x04\x22\x4d\x18", b"\xfd7zXZ")
#: Headers about the archive, not about its files.
_OF_ARCHIVE = frozenset(
    [
        "content-encoding",
        "content-length",
        "content-md5",
        "content-type",
        "if-match",
        "if-none-match",
        "transfer-encoding",
        "x-amz-content-sha256",
        "x-amz-decoded-content-length",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-trailer",
    ]
)
_OF_ARCHIVE_PREFIXES = (CHECKSUM_PREFIX, _OPTIONS, _SWITCH)


def is_archive(call: Call) -> bool:
    """Whether the client asks to extract the body of a PutObject."""
    return is_true(call.headers.get(_SWITCH))


def put_archive(call: Call) -> Response:
    """PutObject of an archive: all of its files are stored, or an error tells how many are not."""
    check_key(call.key)
    prefix = _prefix_of(call)
    if call.claim.is_anonymous:
        raise S3Error("AccessDenied", "An archive needs a signature.")
    call.may_see_bucket()  # it proves the signature, before the archive takes room on this host
    with SpooledTemporaryFile(_IN_MEMORY_BYTES_MAX) as file:
        md5 = _receive(call, file)
        failure = _extract(call, file, prefix)
    if failure is not None and not is_true(call.headers.get(_IGNORE_ERRORS)):
        raise failure
    return empty(200, {"ETag": quoted(md5)})


def _receive(call: Call, file: IO[bytes]) -> str:
    """Write the body to a file; return its MD5.

    :raises S3Error: it is not the body that was signed or summed.
    """
    form = framing(call)
    if form.length is None:
        raise S3Error("MissingContentLength")
    if form.length > Constraints().max_file_size:  # it is kept on the disk of the proxy
        raise S3Error("EntityTooLarge")
    wanted, body = content_md5(call), open_body(call, form)
    digest = hashlib.md5(usedforsecurity=False)
    try:
        while piece := body.read(_READ_BYTES):
            digest.update(piece)
            file.write(piece)
    except RefusedBody as refused:
        raise call.with_claim(refused.error) from None
    except (OSError, ValueError):
        raise S3Error("IncompleteBody") from None
    if wanted is not None and digest.hexdigest() != wanted:
        raise S3Error("BadDigest", fields={"ExpectedDigest": wanted})
    return digest.hexdigest()


def _prefix_of(call: Call) -> str:
    """The beginning of the keys of all files.

    :raises S3Error: it cannot be a part of a key.
    """
    value = call.headers.get(_PREFIX, "")
    try:
        return check_text(wsgi_to_str(value)).strip("/")
    except BadNameError:
        raise invalid_argument(_PREFIX, value) from None


def _extract(call: Call, file: IO[bytes], prefix: str) -> S3Error | None:
    """Store the files of the archive; the error tells of those that could not be stored."""
    environ = call.request("PUT", call.bucket, prefix)
    environ["CONTENT_LENGTH"] = str(file.tell())
    compression = _compression_of(file)
    environ["wsgi.input"] = file
    extraction = Extraction(_Files(call), environ, compression, BulkOptions(), Constraints())
    try:
        for _ in extraction.run():
            pass
    except HTTPException as error:
        return S3Error("InvalidRequest", error.response.body.decode("utf-8", "replace").strip())
    failures = extraction.report.failures
    if not failures:
        return None
    name, status = failures[0]
    text = f"{len(failures)} files of the archive were not stored. The first: {name}: {status}"
    return S3Error("ServiceUnavailable" if extraction.report.status >= 500 else "InvalidRequest",
                   text)  # fmt: skip


def _compression_of(file: IO[bytes]) -> str:
    """:raises S3Error: it is one that cannot be read."""
    file.seek(0)
    start = file.read(6)
    file.seek(0)
    if start.startswith(_OTHER_FORMS):
        raise S3Error("NotImplemented", "Archives may be compressed with gzip or bzip2 only.")
    return next((form for magic, form in _FORMS.items() if start.startswith(magic)), "")


class _Files:
    """The pipeline of an extraction, in which a PUT of a file becomes a PutObject."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer with the status of the PutObject."""
        if LOOK_UP in environ:
            return self._call.app(environ, start_response)
        if environ["REQUEST_METHOD"] != "PUT":  # HEAD of the account and of the bucket
            return Response(204)(environ, start_response)
        try:
            response = put_object(self._call_of(environ))
        except S3Error as error:
            response = Response(error.status)
        return response(environ, start_response)

    def _call_of(self, environ: Environ) -> Call:
        call = self._call
        headers = {
            name: value
            for name, value in call.headers.items()
            if name not in _OF_ARCHIVE and not name.startswith(_OF_ARCHIVE_PREFIXES)
        }
        for name, value in Request(environ).headers.items():
            if name.lower().startswith(_STORED_META):
                headers[META + name.lower().removeprefix(_STORED_META)] = value
        if environ.get("CONTENT_TYPE"):
            headers["content-type"] = environ["CONTENT_TYPE"]
        key = wsgi_to_str(environ["PATH_INFO"].split("/", 4)[4])
        message = Message("PUT", f"/{call.bucket}/{str_to_wsgi(key)}", [], headers)
        own = {
            name: value for name, value in call.environ.items() if name != "HTTP_TRANSFER_ENCODING"
        }
        for name in ("CONTENT_LENGTH", "wsgi.input"):
            own[name] = environ[name]
        claim = call.claim._replace(content_sha256="")
        one = Call(call.app, call.options, own, Address(call.bucket, key), message, claim)
        one.owner_of = call.owner_of
        one.judge_as(access_of(one, ""))
        return one
