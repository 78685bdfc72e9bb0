"""Walks about reading objects of every kind, copying them and changing their headers."""

from __future__ import annotations

import random
from collections.abc import Iterator

from walk_parts import ACCOUNT, LARGE_NAMES, OTHER, Walk, conditions, large, put
from wire import Ask


def reads(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield from large(base)
    for _ in range(24):
        headers = list(conditions(chance))
        query = chance.choice(
            (
                "",
                "",
                "",
                "?part-number=1",
                "?part-number=9",
                "?part-number=x",
                "?part-number=0",
                "?multipart-manifest=get",
                "?multipart-manifest=get&format=raw",
                "?symlink=get",
                "?multipart-manifest=put",
                "?multipart-manifest=x",
                "?multipart-manifest=get&format=x",
            )
        )
        method = chance.choice(("GET", "GET", "GET", "HEAD"))
        yield Ask(method, f"{base}/{chance.choice(LARGE_NAMES)}{query}", tuple(headers))


_PLACES = (
    "{c}/new{n}",
    "/{c}/new{n}",
    "//{c}/new{n}",
    "{c}",
    "{c}/",
    "/{c}/n%2Fw",
    "{c}/%ff",
    "{c}/%00",
    "",
    "/",
    "none/new{n}",
    "{c}/{o}",
    "{c}%2Fnew",
    "{c}/%C3%A4",
    "{c}/Ã¤",
    "{c}/" + "x" * 1025,
    "{c}/a?b=c",
    "{c}/new{n}/",
    "v1/AUTH_test/c/o",
)
_ACCOUNTS = (
    None,
    None,
    "AUTH_test2",
    "AUTH_test",
    "AUTH_none",
    "a/b",
    "",
    "%41UTH_test2",
    "AUTH_test2/",
)


def copies(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield from large(base)
    yield Ask(
        "PUT",
        f"{OTHER}/{container}",
        (("X-Container-Write", "test:tester"), ("X-Container-Read", "test:tester")),
        user="test2:tester2",
    )
    yield Ask(
        "POST",
        f"{base}/plain",
        (("X-Object-Meta-Old", "1"), ("Content-Type", "a/b"), ("Content-Encoding", "gzip")),
    )
    for number in range(12):
        name = chance.choice(LARGE_NAMES)
        place = chance.choice(_PLACES).format(c=container, n=number, o=name)
        headers: list[tuple[str, str]] = []
        if chance.random() < 0.3:
            headers.append(("X-Fresh-Metadata", chance.choice(("true", "false", "x"))))
        if chance.random() < 0.3:
            headers.append(("X-Object-Meta-New", "2"))
        if chance.random() < 0.2:
            headers.append(("Content-Type", chance.choice(("c/d", ""))))
        if chance.random() < 0.2:
            headers.extend(conditions(chance))
        account = chance.choice(_ACCOUNTS)
        query = chance.choice(
            ("", "", "", "?multipart-manifest=get", "?symlink=get", "?multipart-manifest=put")
        )
        if chance.random() < 0.5:
            if account is not None:
                headers.append(("Destination-Account", account))
            if chance.random() < 0.9:
                headers.append(("Destination", place))
            yield Ask("COPY", f"{base}/{name}{query}", tuple(headers))
        else:
            source = chance.choice(
                (f"{container}/{name}", f"/{container}/{name}", place, f"/{container}/{name}?x=y")
            )
            if account is not None:
                headers.append(("X-Copy-From-Account", account))
            headers.append(("X-Copy-From", source))
            body = chance.choice((b"", b"", b"", b"x"))
            yield Ask("PUT", f"{base}/new{number}{query}", tuple(headers), body)
            place = f"{container}/new{number}"
        if place.startswith(container + "/new"):
            yield Ask("GET", f"{ACCOUNT}/{place}")
            yield Ask("HEAD", f"{ACCOUNT}/{place}?multipart-manifest=get&symlink=get")
    yield Ask("COPY", base, (("Destination", f"{container}/x"),))
    yield Ask("COPY", ACCOUNT, (("Destination", f"{container}/x"),))


_MOMENTS = (
    "0",
    "1",
    "-1",
    "",
    "x",
    "4102444800",
    "4102444800.5",
    "99999999999",
    "9999999999",
    "10000000000",
    "1e10",
    " 4102444800",
    "4102444800 ",
    "+4102444800",
    "60",
    "2147483648",
    "\xb2",
    "0x10",
    "4_102_444_800",
)


def posts(chance: random.Random, container: str) -> Iterator[Ask]:
    """Yield PUTs that set headers and POSTs that keep, set and clear them, with expiry."""
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    for number in range(7):
        target = f"{base}/o{number}"
        for method in ("PUT", "POST", "POST"):
            yield Ask(
                method, target, tuple(_object_headers(chance)), b"x" if method == "PUT" else b""
            )
            yield Ask("HEAD", target)
    yield Ask("GET", f"{base}?format=json")


def _object_headers(chance: random.Random) -> Iterator[tuple[str, str]]:
    known = {
        "Content-Type": ("a/b", "", "text/plain;charset=UTF-8", "x", "\xff"),
        "Content-Encoding": ("gzip", "", "x, y"),
        "Content-Disposition": ("attachment", "", 'attachment; filename="\xc3\xa4"'),
        "Content-Language": ("de", ""),
        "Cache-Control": ("no-cache", ""),
        "Expires": ("0", "Fri, 01 Jan 2100 00:00:00 GMT"),
        "X-Robots-Tag": ("none", ""),
        "X-Object-Meta-A": ("1", ""),
        "X-Remove-Object-Meta-A": ("x",),
        "X-Object-Manifest": ("c/o", "", "c", "c/", "/c/o", "c/o?x", "c/%ff", "none/%00", "c/o&d"),
        "X-Delete-At": _MOMENTS,
        # One second would already have passed on one of the two servers.
        "X-Delete-After": tuple(moment for moment in _MOMENTS if moment != "1"),
        "X-Remove-Delete-At": ("x", ""),
        "X-Static-Large-Object": ("true", "false"),
        "X-Detect-Content-Type": ("true", "false", ""),
        "Etag": (
            "9dd4e461268c8034f5c8564e155c67a6",
            '"9dd4e461268c8034f5c8564e155c67a6"',
            "x",
            "",
            "9DD4E461268C8034F5C8564E155C67A6",
        ),
        "If-None-Match": ("*", "x", '"9dd4e461268c8034f5c8564e155c67a6"'),
        "If-Match": ("*", "x"),
        "Content-Length": ("x", "-1", "1"),
        "Transfer-Encoding": ("chunked", "x", "gzip"),
        "X-Symlink-Target": ("c/o", "", "c", "c/", "/c/o", "%63/o"),
        "X-Timestamp": ("1", "x"),
        "X-Newest": ("true",),
        "X-Backend-Storage-Policy-Index": ("1",),
        "Content-MD5": ("x",),
        "Range": ("bytes=0-0",),
    }
    usual = list(known)[:13]
    for name in chance.sample(
        usual if chance.random() < 0.75 else list(known), chance.choice((1, 2, 3))
    ):
        if name in ("Content-Length", "Transfer-Encoding") and chance.random() < 0.8:
            continue
        yield name, chance.choice(known[name])


WALKS: tuple[Walk, ...] = (reads, copies, posts)
