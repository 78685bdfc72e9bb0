"""Walks about names, listings, metadata and the protocol itself."""

from __future__ import annotations

import random
from collections.abc import Iterator

from walk_parts import ACCEPTS, ACCOUNT, Walk, put, read
from wire import Ask

NAMES = (
    "a",
    "a%00b",
    "%00",
    "%ff",
    "a%2Fb",
    "%2F",
    "a//b",
    "a/",
    "//",
    "./..",
    "%20",
    "a%20b",
    "a b+c",
    "%C3%A4",
    "%F0%9F%98%80",
    "%ED%A0%80",
    "%EF%BF%BE",
    "%C3%A4%CC%88",
    "%",
    "%zz",
    "%25",
    "a%0Ab",
    "a%0D",
    "%7F",
    "a%3Fb",
    "a;b=c",
    "a:b",
    "%E2%80%A8",
    "a%23",
    "<b>&amp;'%22",
    "%C0%80",
    "x" * 255,
    "x" * 256,
    "x" * 257,
    "x" * 1023,
    "x" * 1024,
    "x" * 1025,
    "%C3%A4" * 128,
    "%C3%A4" * 512,
    "%C3%A4" * 513,
)


WORDS = ("", "a", "b", "a/", "/", "b/c", "%C3%A4", "%F0%9F%98%80", "%ff", "%00", "zz", "~", "%20")


_LISTED = (
    "a",
    "a/b",
    "a/b/c",
    "a//c",
    "ab",
    "b",
    "b/",
    "b/c",
    "b/c/d",
    "c--d--e",
    "c--d--f",
    "%C3%A4/x",
    "%F0%9F%98%80",
    "%EF%BF%BD",
    "z%20z",
    "z%22%26%3C",
    "%01x",
    "dir/",
)


_LIMITS = (
    "0",
    "1",
    "2",
    "3",
    "10000",
    "10001",
    "-1",
    "x",
    "",
    "1.5",
    "%C2%B2",
    "+1",
    "1_0",
    "%201",
)


_FORMATS = (
    "json",
    "xml",
    "plain",
    "text",
    "JSON",
    "Xml",
    "csv",
    "",
    "application/json",
    "html",
    "%ff",
)


def names(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    for name in chance.sample(NAMES, 6):
        yield put(f"{base}/{name}", b"x")
        yield from read(f"{base}/{name}")
        yield Ask("POST", f"{base}/{name}", (("X-Object-Meta-A", "b"),))
    for query in ("", "?format=json", "?format=xml", "?delimiter=/", "?delimiter=/&format=json"):
        yield Ask("GET", base + query)
    name = chance.choice(NAMES)
    odd = f"{ACCOUNT}/{container}{name}" if chance.random() < 0.7 else f"{ACCOUNT}/{name}"
    yield put(odd)
    yield from read(odd)
    yield Ask("POST", odd, (("X-Container-Meta-A", "b"),))
    yield put(f"{odd}/o", b"x")
    yield Ask("DELETE", f"{odd}/o")
    yield Ask("DELETE", odd)
    method = chance.choice(("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"))
    yield Ask(method, f"/v1/AUTH_test{name}")
    yield Ask(method, f"/v1/{name}")
    yield Ask(method, f"/{name}")
    yield Ask(method, f"/v1/AUTH_test/{container}/{name}?{name}")


def listings(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    for name in chance.sample(_LISTED, 9):
        kind = (
            "application/directory" if name == "dir/" else chance.choice(("text/plain", "a/b;c=d"))
        )
        yield put(f"{base}/{name}", b"x" * chance.randrange(3), ("Content-Type", kind))
    for name in ("", "-a", "-b", "--c"):
        yield put(base + name)
    for _ in range(14):
        method = "HEAD" if chance.random() < 0.15 else "GET"
        target, before = (base, "") if chance.random() < 0.75 else (ACCOUNT, container)
        keys = chance.sample(
            ("limit", "marker", "end_marker", "prefix", "delimiter", "path", "reverse", "format"),
            chance.choice((0, 1, 2, 2, 3, 4)),
        )
        if target == ACCOUNT and "prefix" not in keys:
            keys.append("prefix")
        pairs = [f"{key}={_listing_value(chance, key, before)}" for key in keys]
        headers = (("Accept", chance.choice(ACCEPTS)),) if chance.random() < 0.5 else ()
        yield Ask(method, f"{target}?{'&'.join(pairs)}", headers)


def _listing_value(chance: random.Random, key: str, before: str) -> str:
    if key == "limit":
        return chance.choice(_LIMITS)
    if key == "format":
        return chance.choice(_FORMATS)
    if key == "reverse":
        return chance.choice(("true", "on", "1", "yes", "false", "x", "", "TRUE", "t"))
    if key == "delimiter":
        return chance.choice(("/", "--", "-", "b", "%2F", "%C3%A4", "%ff", "", "//", "/b", "%00"))
    if key == "path":
        return chance.choice(("", "/", "a", "a/", "b", "b/c", "%C3%A4", "%ff", "none"))
    return before + chance.choice((*_LISTED, *WORDS, "a/b", "b"))


def metadata(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    yield put(f"{base}/o", b"x")
    target, kind = chance.choice(((base, "Container"), (f"{base}/o", "Object")))
    prefix = f"X-{kind}-Meta-"
    sizes = [127, 128, 129, 255, 256, 257]
    for _ in range(6):
        method = chance.choice(("PUT", "POST"))
        yield Ask(method, target, tuple(_meta_headers(chance, prefix, sizes)))
        yield Ask(chance.choice(("HEAD", "GET")), target)
    if kind == "Container":
        for name in ("Meta-A", "Meta-a", "Read", "Meta-", "Meta-B"):
            yield Ask("POST", target, ((f"X-Remove-Container-{name}", "x"),))
        yield Ask("HEAD", target)


def _meta_headers(
    chance: random.Random, prefix: str, sizes: list[int]
) -> Iterator[tuple[str, str]]:
    shape = chance.randrange(9)
    if shape == 0:
        yield prefix + "N" * chance.choice(sizes), "v"
    elif shape == 1:
        yield prefix + "N", "v" * chance.choice(sizes)
    elif shape == 2:
        for number in range(chance.choice((89, 90, 91))):
            yield f"{prefix}{number}", "v"
    elif shape == 3:  # 4096 in all
        for number in range(16):
            yield f"{prefix}{number:02}", "v" * (254 if number else 253 + chance.randrange(3))
    elif shape == 4:
        yield prefix, chance.choice(("", "v"))
        yield prefix + "A", ""
    elif shape == 5:
        value = chance.choice(
            ("\xff", "\xc3\xa4", "\xf0\x9f\x98\x80", "a\tb", "%ff", " a ", "\x01", '"')
        )
        yield prefix + "A", value
        yield prefix + "B", "v"
    elif shape == 6:
        yield prefix + "A", "1"
        yield prefix + "A", "2"
        yield prefix.lower() + "a", "3"
    elif shape == 7:
        name = chance.choice(
            ("\xc3\xa4", "\xff", "a_b", "a.b", "a b", "a:b", "%41", "1", "-", "--")
        )
        yield prefix + name, "v"
    else:
        yield chance.choice(
            (
                ("X-Object-Sysmeta-A", "v"),
                (
                    "X-Container-Read",
                    chance.choice(
                        (
                            ".r:*",
                            ".r:",
                            "a:b",
                            ".rlistings",
                            ".r:-x",
                            "*:*",
                            ",",
                            ".x:y",
                            ".r:*.com, a",
                        )
                    ),
                ),
                ("X-Container-Write", chance.choice((".r:*", "a:b", ".rlistings", "*", ""))),
                (
                    "Content-Type",
                    chance.choice(("", "a", "\xff", "text/plain; charset=x", "a/b;swift_bytes=5")),
                ),
                ("X-Timestamp", chance.choice(("x", "1", "1795289479.69636", "99999999999"))),
                ("X-Big", "v" * chance.choice((8000, 8190, 8200, 20000))),
                ("X-Storage-Policy", chance.choice(("silver", "Silver", "none", "0", ""))),
                ("X-Container-Meta-Quota-Bytes", chance.choice(("x", "-1", "5", "1e3", ""))),
            )
        )


_PATHS = (
    "/v1/AUTH_test/{c}",
    "/v1/AUTH_test/{c}/o",
    "/v1/AUTH_test/{c}/none",
    "/v1/AUTH_test?prefix={c}",
    "/v1/AUTH_test/?prefix={c}",
    "/v1/AUTH_test/{c}/",
    "/v1/AUTH_test/none{c}",
    "/v1/AUTH_test/none{c}/o",
    "/v1/AUTH_none",
    "/v1/AUTH_none/c",
    "/v1/AUTH_none/c/o",
    "/v1",
    "/v1/",
    "/",
    "/v2/AUTH_test",
    "/v1.0/AUTH_test",
    "/V1/AUTH_test",
    "/v1//c",
    "/v1/AUTH_test//o",
    "/v1/AUTH_test//",
    "//v1/AUTH_test",
    "/healthcheck",
    "/healthcheck/",
    "/info/",
    "/auth/v1.0",
    "/auth",
    "/auth/",
    "/auth/v1",
    "/auth/v2",
    "/x",
    "/v1/x/c/o",
    "/v1/.expiring_objects/c/o",
    "/v1/AUTH_",
    "/v1/AUTH_test?prefix={c}&x=y&x=z&=&&",
    "/v1/AUTH_test/{c}/o?x=%ff",
    "/endpoints/AUTH_test",
    "/recon/mem",
    "/v1/AUTH_test/{c}/o?multipart-manifest=get",
    "/v1/AUTH_test/{c}?multipart-manifest=put",
    "/v1/AUTH_test%2Fc",
    "*",
    "/auth/v1.0/x",
    "/info/x",
    "http://same.example.com/v1/AUTH_test/{c}/o",
)
_METHODS = (
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "get",
    "REPLICATE",
    "UPDATE",
    "REPORT",
    "CONNECT",
    "COPY",
    "X" * 50,
    "GETT",
    "G_T",
    "best_response",
)


def protocols(chance: random.Random, container: str) -> Iterator[Ask]:
    """Yield unusual methods, paths, encodings and versions."""
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    yield put(f"{base}/o", b"0123456789")
    for _ in range(20):
        target = chance.choice(_PATHS).format(c=container)
        method = chance.choice(_METHODS)
        if target.startswith((f"{ACCOUNT}?", f"{ACCOUNT}/?")) and method == "DELETE":
            continue
        headers: list[tuple[str, str]] = []
        chunked = chance.random() < 0.15
        protocol = chance.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"))
        if chance.random() < 0.15:
            headers.append(("Expect", chance.choice(("100-continue", "x", "100-Continue", ""))))
        if chance.random() < 0.1:
            headers.append(
                (
                    "Host",
                    chance.choice(
                        (
                            "",
                            "x",
                            "AUTH-test.example.net",
                            f"{container}.AUTH-test.example.net",
                            "a:b:c",
                            "\xff",
                        )
                    ),
                )
            )
        if chance.random() < 0.1:
            headers.append(("Accept", chance.choice(ACCEPTS)))
        if chance.random() < 0.1:
            headers.append(("X-Trans-Id-Extra", chance.choice(("x", "\xff", "y" * 60, ""))))
        if chance.random() < 0.05:
            headers.append(("Accept-Encoding", "gzip"))
        if chance.random() < 0.05:
            headers.append(("X-Newest", "true"))
        body = (
            chance.choice((b"", b"", b"x"))
            if method in ("PUT", "POST", "DELETE", "PATCH", "GET")
            else b""
        )
        yield Ask(
            method,
            target,
            tuple(headers),
            body,
            user=chance.choice(
                (None, "test:tester", "test:tester", "test2:tester2", "admin:admin")
            ),
            protocol=protocol,
            chunked=chunked and protocol == "HTTP/1.1",
        )
        if method in ("DELETE", "PUT") and target in (base, f"{base}/o"):
            yield put(base)
            yield put(f"{base}/o", b"0123456789")


def unmade_accounts(chance: random.Random, container: str) -> Iterator[Ask]:
    """Yield requests of a reseller admin for an account that does not exist."""
    account = f"/v1/AUTH_{container}"
    queries = ("", "", "?format=json", "?format=xml", "?format=x", "?limit=0", "?marker=a")
    for method in ("HEAD", "GET", "HEAD", "GET"):
        headers = (("Accept", chance.choice(ACCEPTS)),) if chance.random() < 0.4 else ()
        yield Ask(method, account + chance.choice(queries), headers, user="admin:admin")
    yield Ask("HEAD", f"{account}/c", user="admin:admin")
    yield Ask("POST", account, (("X-Account-Meta-A", "b"),), user="admin:admin")
    yield Ask("HEAD", account, user="admin:admin")


_ARCHIVES = (
    "old",
    "%20",
    "a%2Fb",
    "%ff",
    "a/b",
    "",
    "/",
    "%C3%A4",
    ".",
    "x" * 256,
    "x" * 257,
    "%zz",
)


def archive_names(chance: random.Random, container: str) -> Iterator[Ask]:
    """Yield requests that set and remove archive containers of various names."""
    for number, value in enumerate(chance.sample(_ARCHIVES, 6)):
        base = f"{ACCOUNT}/{container}{number}"
        mode = chance.choice(("X-Versions-Location", "X-History-Location"))
        yield put(base, b"", (mode, value))
        yield Ask("HEAD", base)
        yield Ask("POST", base, ((f"X-Remove-{mode[2:]}", "x"),))
        yield Ask("HEAD", base)


WALKS: tuple[Walk, ...] = (names, listings, metadata, protocols, unmade_accounts, archive_names)
