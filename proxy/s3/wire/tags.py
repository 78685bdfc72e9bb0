# SPDX-License-Identifier: Apache-2.0
"""Tags of objects and buckets: their XML, the header x-amz-tagging, and the text that is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, urlencode
from xml.etree.ElementTree import Element

from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.xml_in import child_text, children
from proxy.s3.wire.xml_out import Document

#: The header that stores those of an object; a POST replaces it.
OBJECT_TAGS = "X-Object-Transient-Sysmeta-S3Api-Tagging"
OBJECT_TAGS_MAX, BUCKET_TAGS_MAX = 10, 50
_KEY_CHARACTERS_MAX, _VALUE_CHARACTERS_MAX = 128, 256
#: Stored as one header; servers limit those to 8192 bytes.
_STORED_BYTES_MAX = 7168
_FORBIDDEN = re.compile(r"[^\w\s.:/=+@-]")
_HEADER = "x-amz-tagging"

Tags = dict[str, str]


def tags_of_xml(root: Element, most: int) -> Tags:
    """The tags of a document ``Tagging``.

    :raises S3Error: MalformedXML, InvalidTag or BadRequest.
    """
    sets = list(children(root, "TagSet"))
    if len(sets) != 1:
        raise S3Error("MalformedXML")
    pairs = []
    for tag in children(sets[0], "Tag"):
        key, value = child_text(tag, "Key"), _value_of(tag)
        if key is None or value is None:
            raise S3Error("MalformedXML")
        pairs.append((key, value))
    return checked_tags(pairs, most)


def _value_of(tag: Element) -> str | None:
    return next(((child.text or "") for child in children(tag, "Value")), None)


def tags_of_header(value: str) -> Tags:
    """The tags of the header x-amz-tagging, a WSGI string in the form of a query.

    :raises S3Error: InvalidArgument, InvalidTag or BadRequest.
    """
    try:
        text = value.encode("latin-1").decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
    except ValueError:
        reason = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query "
        text = f"{reason}parameters without tag name duplicates."
        raise invalid_argument(_HEADER, value, text) from None
    if len(dict(pairs)) != len(pairs):
        raise invalid_argument(_HEADER, value, "A tag is there more than once.")
    return checked_tags(pairs, OBJECT_TAGS_MAX)


def checked_tags(pairs: Iterable[tuple[str, str]], most: int) -> Tags:
    """The tags, at most ``most``.

    :raises S3Error: InvalidTag or BadRequest.
    """
    tags: Tags = {}
    for key, value in pairs:
        fields = {"TagKey": key, "TagValue": value}
        if not 0 < len(key) <= _KEY_CHARACTERS_MAX or _FORBIDDEN.search(key):
            raise S3Error("InvalidTag", "The TagKey you have provided is invalid", fields=fields)
        if len(value) > _VALUE_CHARACTERS_MAX or _FORBIDDEN.search(value):
            raise S3Error("InvalidTag", "The TagValue you have provided is invalid", fields=fields)
        if key.lower().startswith("aws:"):
            text = "System tags cannot be added or updated by requester"
            raise S3Error("InvalidTag", text, fields=fields)
        if key in tags:
            text = "Cannot provide multiple Tags with the same key"
            raise S3Error("InvalidTag", text, fields=fields)
        tags[key] = value
    if len(tags) > most:
        what = "Object" if most == OBJECT_TAGS_MAX else "Bucket"
        raise S3Error("BadRequest", f"{what} tags cannot be greater than {most}")
    if len(stored_text(tags)) > _STORED_BYTES_MAX:
        raise S3Error("InvalidTag", "The tags are too long together.")
    return tags


def stored_text(tags: Mapping[str, str]) -> str:
    """The tags as a header stores them, in ASCII."""
    return urlencode(tags, quote_via=quote)


def tags_of_stored(text: str | None) -> Tags:
    """The tags of such a header."""
    return dict(parse_qsl(text, keep_blank_values=True)) if text else {}


def tagging_document(tags: Mapping[str, str]) -> bytes:
    """The XML of tags."""
    document = Document("Tagging")
    with document.inside("TagSet"):
        for key, value in tags.items():
            with document.inside("Tag"):
                document.text("Key", key)
                document.text("Value", value)
    return document.finish()
