"""Walks about authorization and access by browsers."""

from __future__ import annotations

import base64
import hmac
import random
from collections.abc import Iterator
from urllib.parse import quote

from walk_parts import ACCOUNT, OTHER, Walk, put
from wire import Ask


def static_webs(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    settings = [
        ("X-Container-Read", chance.choice((".r:*", ".r:*,.rlistings", "", ".r:*,.rlistings")))
    ]
    for name, values in (
        ("Index", ("index.html", "", "i/x", "none")),
        ("Error", ("error.html", "", "none")),
        ("Listings", ("true", "x", "")),
        ("Listings-CSS", ("style.css", "http://x/y.css", "/z.css")),
        ("Listings-Label", ("My Label", "<b>")),
        ("Directory-Type", ("text/directory", "a/b")),
    ):
        if chance.random() < 0.6:
            settings.append((f"X-Container-Meta-Web-{name}", chance.choice(values)))
    yield put(base, b"", *settings)
    for name in (
        "index.html",
        "sub/index.html",
        "sub/x",
        "nolist/x",
        "401error.html",
        "404error.html",
        "%C3%A4%3C/y%22",
        "obj",
    ):
        if chance.random() < 0.75:
            yield put(f"{base}/{name}", name.encode())
    yield put(
        f"{base}/sub",
        b"",
        ("Content-Type", chance.choice(("text/directory", "application/directory", "a/b"))),
    )
    for _ in range(12):
        name = chance.choice(
            (
                "",
                "/",
                "/sub",
                "/sub/",
                "/nolist",
                "/nolist/",
                "/none",
                "/none/",
                "/obj",
                "/obj/",
                "/%C3%A4%3C/",
                "//",
                "/%ff",
                "/index.html",
            )
        )
        query = chance.choice(
            ("", "", "", "?format=json", "?limit=1", "?x=y", "?prefix=s", "?delimiter=/")
        )
        headers: tuple[tuple[str, str], ...]
        headers = (("X-Web-Mode", chance.choice(("true", "x"))),) if chance.random() < 0.3 else ()
        if chance.random() < 0.1:
            headers += (("Range", "bytes=0-1"),)
        yield Ask(
            chance.choice(("GET", "GET", "GET", "HEAD", "POST")),
            f"{base}{name}{query}",
            headers,
            user=chance.choice((None, None, "test:tester", "test2:tester2")),
        )


_EXPIRES = (
    "4102444800",
    "4102444800",
    "4102444800",
    "1",
    "x",
    "2100-01-01T00:00:00Z",
    "2100-01-01",
    "1e10",
    "",
    "4102444800.0",
    "-1",
    "9" * 30,
)
_EXTRAS = (
    "",
    "",
    "&filename=f.txt",
    "&filename=ä%22/x",
    "&inline",
    "&inline&filename=x",
    "&multipart-manifest=get",
    "&filename=",
    "&filename=a%0Ab",
    "&filename=%ff",
)


def temp_urls(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    key = "secret"
    yield put(base, b"", ("X-Container-Meta-Temp-URL-Key", key))
    yield Ask("POST", ACCOUNT, (("X-Account-Meta-Temp-Url-Key", "accountkey"),))
    yield put(
        f"{base}/dir/o", b"x" * 10, ("Content-Type", "a/b"), ("Content-Disposition", "inline")
    )
    for _ in range(16):
        method = chance.choice(("GET", "HEAD", "PUT", "POST", "DELETE"))
        name = chance.choice(("dir/o", "dir/o", "none", "dir/\u00e4", ""))
        path = f"{base}/{name}"
        expires = chance.choice(_EXPIRES)
        signed = chance.choice((method, method, method, "GET", "PUT"))
        digest = chance.choice(("sha256", "sha256", "sha1", "sha512", "md5"))
        scope = ""
        query = ""
        if chance.random() < 0.3:
            scope = chance.choice(("dir", "", "none", "d", "dir/o"))
            query += f"&temp_url_prefix={scope}"
            body = f"{signed}\n{expires}\nprefix:{base}/{scope}"
        else:
            body = f"{signed}\n{expires}\n{path}"
        if chance.random() < 0.25:
            ips = chance.choice(
                ("127.0.0.1", "127.0.0.0/8", "10.0.0.1", "x", "", "::1", "127.0.0.1/8")
            )
            query += f"&temp_url_ip_range={ips}"
            body = f"ip={ips}\n{body}"
        secret = chance.choice((key, key, key, "accountkey", "wrong"))
        signature = hmac.new(secret.encode(), body.encode(), digest).digest()
        shown = chance.choice(
            (
                signature.hex(),
                signature.hex(),
                signature.hex().upper(),
                f"{digest}:{base64.urlsafe_b64encode(signature).decode()}",
                f"{digest}:{base64.b64encode(signature).decode()}",
                "x",
                "",
                f"{digest}:x",
            )
        )
        query += chance.choice(_EXTRAS)
        query = f"temp_url_sig={quote(shown)}&temp_url_expires={quote(expires)}{query}"
        if chance.random() < 0.05:
            query = query.replace("&temp_url_expires", "&x")
        headers: tuple[tuple[str, str], ...]
        headers = (("Range", "bytes=0-1"),) if chance.random() < 0.1 else ()
        if method == "PUT" and chance.random() < 0.2:
            headers += (
                (
                    chance.choice(
                        ("X-Object-Manifest", "X-Symlink-Target", "X-Copy-From", "X-Delete-At")
                    ),
                    f"{container}/dir/o",
                ),
            )
        target = quote(path, safe="/") + "?" + quote(query, safe="%&=:,+/")
        yield Ask(method, target, headers, b"x" if method == "PUT" else b"", user=None)


_ACCOUNT_ACLS = (
    '{"admin":["test2:tester2"]}',
    '{"read-only":["test2:tester2"]}',
    '{"read-write":["test2:tester2"]}',
    "{}",
    "",
    "x",
    "[]",
    '{"a":[]}',
    '{"admin":"x"}',
    '{"admin":[1]}',
    '{"admin":null}',
    "null",
    '{"admin":["\u00c3\u00a4"]}',
    '{"admin":[]',
    '{"admin":["x"],"read-only":[]}',
    '{"admin": {}}',
    '"x"',
    '{"admin":["*"]}',
)


_CONTAINER_ACLS = (
    ".r:*",
    ".r:*,.rlistings",
    ".r:.example.com",
    ".r:-.example.com,.r:*",
    "test2:tester2",
    "test2:*",
    "*:*",
    "*:tester2",
    "AUTH_test2",
    "test2",
    ".rlistings",
    "",
    ".r:same.example.com",
    ".referer:*",
    ".ref:x",
    ".referrer : x",
    ".r :*",
    "a,,b",
    ".unknown:x",
    ".r:-",
    " .r:* ",
    ".r:*x",
    "test:tester3",
    ".R:*",
    "\xc3\xa4",
)


def access(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    yield put(f"{base}/o", b"x")
    for _ in range(6):
        if chance.random() < 0.3:
            target = f"{OTHER}" if chance.random() < 0.5 else ACCOUNT
            owner = "test2:tester2" if target == OTHER else "test:tester"
            yield Ask(
                "POST",
                target,
                (("X-Account-Access-Control", chance.choice(_ACCOUNT_ACLS)),),
                user=owner,
            )
            yield Ask("HEAD", target, user=owner)
        else:
            name = chance.choice(("Read", "Write"))
            yield Ask(
                chance.choice(("POST", "PUT")),
                base,
                ((f"X-Container-{name}", chance.choice(_CONTAINER_ACLS)),),
            )
            yield Ask("HEAD", base)
        for _ in range(3):
            method = chance.choice(("GET", "HEAD", "PUT", "DELETE", "POST"))
            user = chance.choice((None, "test2:tester2", "test:tester3"))
            headers = (
                (
                    (
                        "Referer",
                        chance.choice(
                            (
                                "http://www.example.com/x",
                                "http://same.example.com",
                                "x",
                                "http://example.com:80/",
                            )
                        ),
                    ),
                )
                if chance.random() < 0.4
                else ()
            )
            yield Ask(
                method,
                chance.choice((base, f"{base}/o", f"{ACCOUNT}?prefix={container}", f"{base}/new")),
                headers,
                user=user,
            )
    for target, user in ((ACCOUNT, "test:tester"), (OTHER, "test2:tester2")):
        yield Ask("POST", target, (("X-Account-Access-Control", ""),), user=user)


_ORIGINS = (
    "http://a.example",
    "http://b.example",
    "*",
    "",
    "null",
    "x",
    "http://a.example http://b.example",
    "HTTP://A.EXAMPLE",
)


def cross_origins(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    settings = []
    for name, values in (
        ("Allow-Origin", (*_ORIGINS, "http://a.example http://b.example")),
        ("Max-Age", ("5", "x", "")),
        ("Expose-Headers", ("X-A", "x-a x-b", "X-A,X-B", "")),
        ("Allow-Headers", ("X-A", "x-a x-b", "", "*")),
    ):
        if chance.random() < 0.8:
            settings.append((f"X-Container-Meta-Access-Control-{name}", chance.choice(values)))
    yield put(base, b"", ("X-Container-Read", ".r:*"), *settings)
    yield put(f"{base}/o", b"x", ("X-Object-Meta-Color", "blue"))
    for _ in range(12):
        headers = []
        if chance.random() < 0.85:
            headers.append(("Origin", chance.choice(_ORIGINS)))
        method = chance.choice(("OPTIONS", "OPTIONS", "GET", "HEAD", "PUT", "POST"))
        if chance.random() < 0.7:
            headers.append(
                (
                    "Access-Control-Request-Method",
                    chance.choice(("GET", "PUT", "PATCH", "get", "", "COPY", "OPTIONS")),
                )
            )
        if chance.random() < 0.5:
            headers.append(
                (
                    "Access-Control-Request-Headers",
                    chance.choice(("X-A", "x-a,x-b", "x-c", "", "X-Auth-Token, X-A", "\xff")),
                )
            )
        yield Ask(
            method,
            chance.choice(
                (
                    base,
                    f"{base}/o",
                    f"{base}/none",
                    f"{ACCOUNT}?prefix={container}",
                    f"{ACCOUNT}/none{container}",
                    "/v1",
                    "/v1/AUTH_none/c/o",
                )
            ),
            tuple(headers),
            user=chance.choice((None, "test:tester")),
        )


WALKS: tuple[Walk, ...] = (static_webs, temp_urls, access, cross_origins)
