# SPDX-License-Identifier: Apache-2.0
"""POST of a form: a browser uploads a file to a bucket, as a signed policy allows.

The fields come before the file, and are small. The file goes from the connection into the write.
The write fails if the policy does not allow the size of the file, or if the form breaks off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from multipart import parse_options_header

from martlet.http.environ import Environ
from martlet.http.response import Response
from martlet.words.names import BadNameError, check_text, str_to_wsgi
from proxy.middleware.signed_urls.formpost_parts import FormError, Part, parts_of
from proxy.s3.call import Call
from proxy.s3.claims import bucket_of_path
from proxy.s3.object_writes import put_object
from proxy.s3.options import S3Options
from proxy.s3.wire.addressing import Address, bucket_in_host
from proxy.s3.wire.credentials import ANONYMOUS, Claim, Message
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.post_policy import Sizes, policy_of
from proxy.s3.wire.signature_v2 import claim_of_policy_v2
from proxy.s3.wire.signature_v4 import claim_of_policy
from proxy.s3.wire.tags import OBJECT_TAGS_MAX, stored_text, tags_of_xml
from proxy.s3.wire.xml_in import parse_xml
from proxy.s3.wire.xml_out import Document

_FIELDS_BYTES_MAX = 20 * 1024
_FIELDS_MAX = 200
_FILENAME = "${filename}"
_NOT_EXPANDED = frozenset({"policy", "signature", "x-amz-signature"})
#: Fields that have another name as a header.
_HEADERS = {"acl": "x-amz-acl"}
#: Fields that are headers of the object.
_TAKEN = frozenset(
    [
        "cache-control",
        "content-type",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "expires",
        "x-amz-acl",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
        "x-robots-tag",
    ]
)
_TAKEN_PREFIXES = (
    "x-amz-meta-",
    "x-amz-checksum-",
    "x-amz-server-side-encryption",
    "x-amz-object-lock-",
    "x-amz-grant-",
)


class Form(NamedTuple):
    """The fields of a form, whose names are in lower case, and the file, yet to be read."""

    fields: Mapping[str, str]
    file: Part


def is_form(environ: Environ, domains: Sequence[str]) -> bool:
    """Whether the request is a POST of a form to a bucket, in its path or in its host."""
    if environ["REQUEST_METHOD"] != "POST" or not _boundary(environ):
        return False
    if "HTTP_AUTHORIZATION" in environ or environ.get("QUERY_STRING"):
        return False
    path: str = environ["PATH_INFO"]
    if bucket_in_host(environ.get("HTTP_HOST", ""), domains):
        return path == "/"
    return bool(bucket_of_path(environ)) and "/" not in path.strip("/")


def _boundary(environ: Environ) -> str:
    kind, parameters = parse_options_header(environ.get("CONTENT_TYPE") or "")
    return str(parameters.get("boundary", "")) if kind == "multipart/form-data" else ""


# --- reading


def read_form(environ: Environ) -> Form:
    """Read a form up to its file.

    :raises S3Error: it is malformed, its fields are too large, or it has no file.
    """
    fields: dict[str, str] = {}
    size = 0
    try:
        for part in parts_of(environ["wsgi.input"], _boundary(environ)):
            if part.name == "file":
                return Form(_expanded(fields, part.filename), part)
            if not part.name:
                raise S3Error("MalformedPOSTRequest")
            value = part.read(_FIELDS_BYTES_MAX - size + 1)
            size += len(part.name) + len(value)
            if size > _FIELDS_BYTES_MAX or len(fields) == _FIELDS_MAX:
                raise S3Error("MaxPostPreDataLengthExceeded")
            if part.name in fields:
                raise S3Error("InvalidArgument", f"The field {part.name} is there more than once.")
            fields[part.name] = check_text(value.decode("utf-8"))
    except (FormError, UnicodeError, BadNameError):
        raise S3Error("MalformedPOSTRequest") from None
    except OSError:
        raise S3Error("IncompleteBody") from None
    reason = "POST requires exactly one file upload per request."
    raise invalid_argument("file", "0", reason)


def _expanded(fields: Mapping[str, str], filename: str) -> dict[str, str]:
    name = re.split(r"[/\\]", filename)[-1]
    return {
        key: value if key in _NOT_EXPANDED else value.replace(_FILENAME, name)
        for key, value in fields.items()
    }


class _File:
    """The file as a stream that refuses what the policy does not allow."""

    def __init__(self, part: Part, sizes: Sizes) -> None:
        self._part = part
        self._sizes = sizes
        self._count = 0

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; none at the end.

        :raises S3Error: the file has a wrong size, or the form breaks off.
        """
        try:
            data = self._part.read(size)
        except FormError:
            raise S3Error("MalformedPOSTRequest") from None
        self._count += len(data)
        least, most = self._sizes
        if most is not None and self._count > most:
            fields = {"ProposedSize": str(self._count), "MaxSizeAllowed": str(most)}
            text = "Your proposed upload exceeds the maximum allowed size"
            raise S3Error("EntityTooLarge", text, fields=fields)
        if not data and size and self._count < least:
            fields = {"ProposedSize": str(self._count), "MinSizeAllowed": str(least)}
            text = "Your proposed upload is smaller than the minimum allowed size"
            raise S3Error("EntityTooSmall", text, fields=fields)
        return data


# --- serving


def post_form(
    environ: Environ,
    address: Address,
    options: S3Options,
    now: float,
    new_call: Callable[[Environ, Address, Message, Claim], Call],
) -> tuple[Call, Callable[[Call], Response]]:
    """Read the fields of a form; return its call and the function that stores the file.

    :raises S3Error: the form is malformed, or its policy does not allow it.
    """
    form = read_form(environ)
    fields = form.fields
    key = fields.get("key", "")
    if not key:
        text = "Bucket POST must contain a field named 'key'.  If it is specified, please check "
        raise invalid_argument("key", "", f"{text}the order of the fields.")
    claim = _claim_of(fields, options)
    sizes = Sizes()
    if "policy" in fields:
        policy = policy_of(fields["policy"])
        policy.check({**fields, "bucket": address.bucket}, now)
        sizes = policy.sizes
    headers = dict(_headers_of(fields))
    for name in ("HTTP_ORIGIN", "HTTP_HOST"):
        if name in environ:
            headers[name.removeprefix("HTTP_").lower()] = environ[name]
    upload = {**environ, "wsgi.input": _File(form.file, sizes)}
    upload.pop("CONTENT_LENGTH", None)
    upload["HTTP_TRANSFER_ENCODING"] = "chunked"
    message = Message("POST", environ["PATH_INFO"], [], headers)
    call = new_call(upload, address._replace(key=key), message, claim)
    call.is_form = True
    return call, lambda call: _answer(call, fields, put_object(call))


def _claim_of(fields: Mapping[str, str], options: S3Options) -> Claim:
    """:raises S3Error: the form is not signed as a whole."""
    if "x-amz-security-token" in fields:
        raise S3Error("InvalidToken")
    is_v4 = "x-amz-signature" in fields or "x-amz-credential" in fields
    is_v2 = "signature" in fields or "awsaccesskeyid" in fields
    needed = ["policy"] if is_v4 or is_v2 or "policy" in fields else []
    if is_v4:
        needed += ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Signature"]
    elif needed:
        needed += ["AWSAccessKeyId", "signature"]
    for name in needed:
        if not fields.get(name.lower()):
            text = f"Bucket POST must contain a field named '{name}'.  If it is specified, please "
            raise invalid_argument(name, "", f"{text}check the order of the fields.")
    if is_v4:
        stated = {name: str_to_wsgi(value) for name, value in fields.items()}
        return claim_of_policy(fields["policy"], stated, options.location)
    if is_v2:
        access_key = str_to_wsgi(fields["awsaccesskeyid"])
        return claim_of_policy_v2(fields["policy"], access_key, str_to_wsgi(fields["signature"]))
    if options.bucket_namespace != "cluster":
        text = "A form without a signature does not tell the account of the bucket."
        raise S3Error("AccessDenied", text)
    return ANONYMOUS


def _headers_of(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The headers, WSGI strings, of the PutObject that the form stands for.

    :raises S3Error: a value cannot be a header, or the tags are malformed.
    """
    for field, value in fields.items():
        name = _HEADERS.get(field, field)
        if field == "tagging":
            tags = tags_of_xml(parse_xml(value.encode("utf-8"), "Tagging"), OBJECT_TAGS_MAX)
            yield "x-amz-tagging", stored_text(tags)
        elif name in _TAKEN or name.startswith(_TAKEN_PREFIXES):
            if re.search(r"[\r\n\x00]", value) or not re.fullmatch(r"[!-~]+", name):
                raise invalid_argument(field, value)
            yield name, str_to_wsgi(value)


def _answer(call: Call, fields: Mapping[str, str], stored: Response) -> Response:
    """The answer that the form asks for, once the file is stored."""
    shown = dict(stored.headers.items())
    etag = str(shown["ETag"])
    redirect = _redirect(call, fields, etag)
    if redirect:
        return Response(303, {**shown, "Location": redirect})
    host = call.headers.get("host", "")
    location = f"{call.environ['wsgi.url_scheme']}://{host}{_path(call)}"
    shown["Location"] = location
    status = fields.get("success_action_status")
    if status != "201":
        return Response(200 if status == "200" else 204, shown)
    document = Document("PostResponse", namespace="")
    document.text("Location", location)
    document.text("Bucket", call.bucket)
    document.text("Key", call.key)
    document.text("ETag", etag)
    return Response(201, {**shown, "Content-Type": "application/xml"}, document.finish())


def _path(call: Call) -> str:
    return quote(f"/{call.key}" if call.address.is_in_host else f"/{call.bucket}/{call.key}")


def _redirect(call: Call, fields: Mapping[str, str], etag: str) -> str:
    """The URL of the page to show then, empty without a valid one."""
    url = fields.get("success_action_redirect") or fields.get("redirect", "")
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    query = urlencode([*pairs, ("bucket", call.bucket), ("key", call.key), ("etag", etag)])
    return quote(urlunsplit(parts._replace(query=query)), safe="%/:=&?~#+!$,;'@()*[]")
