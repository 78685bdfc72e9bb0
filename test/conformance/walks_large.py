"""Walks about large objects and symlinks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from walk_parts import ACCEPTS, ACCOUNT, MD5_OF_NOTHING, OTHER, Walk, conditions, etags, large, put
from wire import Ask


def static_manifests(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield from large(base)
    yield put(f"{base}/empty")
    for number in range(10):
        body = _manifest(chance, container)
        query = "?multipart-manifest=put"
        if chance.random() < 0.15:
            query += chance.choice(("&heartbeat=on", "&heartbeat=x", "&heartbeat=1"))
        headers = []
        if chance.random() < 0.3:
            headers.append(("Accept", chance.choice(ACCEPTS)))
        if chance.random() < 0.15:
            headers.append(("Etag", chance.choice(('"x"', "x", MD5_OF_NOTHING, ""))))
        if chance.random() < 0.1:
            headers.append(("X-Object-Manifest", "c/o"))
        target = f"{base}/m{number}"
        yield Ask("PUT", target + query, tuple(headers), body, chunked=chance.random() < 0.1)
        for query in chance.sample(
            (
                "",
                "?multipart-manifest=get",
                "?multipart-manifest=get&format=raw",
                "?part-number=1",
                "?part-number=2",
            ),
            3,
        ):
            yield Ask(chance.choice(("GET", "GET", "HEAD")), target + query)
    yield Ask("GET", f"{base}?format=json&prefix=m")
    for _ in range(4):
        name = chance.choice(
            ("m1", "m2", "slo", "nested", "to-slo", "to-plain", "plain", "none", "dlo", "%ff")
        )
        query = "?multipart-manifest=delete" + chance.choice(
            ("", "&async=on", "&async=x", "&symlink=get")
        )
        yield Ask("DELETE", f"{base}/{name}{query}", (("Accept", chance.choice(ACCEPTS)),))
    yield Ask("GET", base)


def _manifest(chance: random.Random, container: str) -> bytes:
    if chance.random() < 0.15:
        return chance.choice(
            (
                b"",
                b"{}",
                b"[]",
                b"null",
                b"[null]",
                b"[1]",
                b"[{}]",
                b'"x"',
                b"[[]]",
                b"{",
                b"\xff",
                b"[" * 5000,
                b'[{"path": null}]',
                b'[{"path": 1}]',
                b'[{"path": "/x"}]',
                b'[{"path": "x/"}]',
                b'[{"path": "//o"}]',
                b"5",
                b'[{"path":"/c/\\u0000"}]',
                b'[{"path":"/c/\\ud800"}]',
                json.dumps([{"path": f"/{container}/plain"}] * 1001).encode(),
                json.dumps([{"path": f"/{container}/plain"}] * 1000).encode(),
            )
        )
    return json.dumps(
        [_entry(chance, container) for _ in range(chance.choice((1, 1, 2, 3)))]
    ).encode()


def _entry(chance: random.Random, container: str) -> dict[str, object]:
    if chance.random() < 0.15:
        values = ("aW5s", "", "x", "!!", "aW5s\n", "YQ", None, 5, "YQ==", " YQ==")
        data: dict[str, object] = {"data": chance.choice(values)}
        if chance.random() < 0.2:
            data[chance.choice(("path", "x", "etag", "size_bytes", "range"))] = "1"
        return data
    name = chance.choice(
        (
            "plain",
            "plain",
            "seg/s1",
            "slo",
            "nested",
            "dlo",
            "to-slo",
            "to-plain",
            "hard",
            "empty",
            "none",
            "to-none",
            "",
        )
    )
    entry: dict[str, object] = {"path": f"{chance.choice(('/', '', '//'))}{container}/{name}"}
    if chance.random() < 0.4:
        entry["etag"] = chance.choice(
            (*etags()[:3], None, "", 5, f'"{etags()[0]}"', etags()[0].upper())
        )
    if chance.random() < 0.4:
        entry["size_bytes"] = chance.choice(
            (10, 4, "10", 0, -1, None, "x", 1.5, 10.0, True, "", "1_0", " 10")
        )
    if chance.random() < 0.3:
        entry["range"] = chance.choice(
            (
                "0-1",
                "1-",
                "-2",
                "5-2",
                "99-",
                "0-99",
                "0-0,1-1",
                "",
                None,
                "x",
                5,
                "bytes=0-1",
                " 1 - 2 ",
                "-0",
                "-99",
                "+1-2",
                "\u0662-3",
            )
        )
    if chance.random() < 0.08:
        entry[chance.choice(("name", "hash", "bytes", "content_type", "x", "last_modified"))] = "1"
    return entry


def dynamic_manifests(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield from large(base)
    yield put(f"{base}/%C3%A4/1", b"uml")
    for number in range(7):
        value = chance.choice(
            (
                f"{container}/seg/",
                f"{container}/",
                container,
                f"/{container}/seg/",
                f"{container}/seg/s1",
                "none/x",
                f"{container}/none",
                f"{container}/%C3%A4/",
                f"{container}/\xc3\xa4/",
                f"{container}/%ff",
                f"{container}/\xff",
                f"{container}/%00",
                "%00/x",
                "%ff/x",
                f"{container}/seg/?x",
                f"{container}/seg/&x=y",
                "",
                "/",
                "//",
                f"{container}%2Fseg%2F",
                f"{container}//",
                f"{container}/to-",
                f"{container}/d",
                f"{container}/m{number}",
                "a" * 257 + "/x",
            )
        )
        target = f"{base}/m{number}"
        yield put(target, b"own", ("X-Object-Manifest", value))
        yield Ask("HEAD", target, tuple(conditions(chance)) if chance.random() < 0.5 else ())
        yield Ask("GET", target, tuple(conditions(chance)) if chance.random() < 0.5 else ())
        yield Ask("GET", f"{target}?multipart-manifest=get")
        yield Ask("GET", target, user=chance.choice((None, "test2:tester2")))
        if chance.random() < 0.5:
            yield Ask(
                "POST",
                target,
                (("X-Object-Manifest", chance.choice((value, "", f"{container}/seg/s1", "x"))),),
            )
            yield Ask("GET", target)
    yield Ask("GET", f"{base}?format=json")


_TARGETS = (
    "{c}/plain",
    "/{c}/plain",
    "{c}/l{n}",
    "{c}/l{m}",
    "{c}/l{m}",
    "{c}/none",
    "{c}",
    "{c}/",
    "",
    "/",
    "{c}/%00",
    "{c}/%ff",
    "{c}/ÿ",
    "{c}%2Fplain",
    "{c}/pl%61in",
    "{c}/Ã¤",
    "{c}/plain?x=y",
    "{c}/plain#x",
    "{c}/to-plain",
    "{c}/slo",
    "{c}/dlo",
    "{c}/hard",
    "none/o",
    "%00/x",
    "%ff/x",
    "{c}/" + "x" * 1024,
    "{c}/" + "x" * 1025,
    "x" * 257 + "/o",
    "{c}/a b",
    "{c}/a%20b",
    "//{c}/plain",
    "./..",
    "{c}/o",
)
_TARGET_ACCOUNTS = (
    "AUTH_test2",
    "AUTH_test",
    "AUTH_none",
    "",
    "a/b",
    "%41UTH_test2",
    "%ff",
    "%00",
    "ÿ",
    "x" * 257,
)


def symlinks(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield from large(base)
    yield Ask("PUT", f"{OTHER}/{container}", user="test2:tester2")
    yield Ask("PUT", f"{OTHER}/{container}/o", (), b"other", user="test2:tester2")
    for number in range(8):
        target = f"{base}/l{number}"
        place = chance.choice(_TARGETS).format(c=container, n=number, m=max(number - 1, 0))
        headers = [("X-Symlink-Target", place)]
        if chance.random() < 0.3:
            account = chance.choice(_TARGET_ACCOUNTS)
            headers.append(("X-Symlink-Target-Account", account))
        if chance.random() < 0.35:
            headers.append(
                (
                    "X-Symlink-Target-Etag",
                    chance.choice((*etags()[:3], "", f'"{etags()[0]}"', etags()[0].upper())),
                )
            )
        if chance.random() < 0.15:
            headers.append(
                chance.choice(
                    (
                        ("Content-Type", "a/b"),
                        ("If-None-Match", "*"),
                        ("Etag", MD5_OF_NOTHING),
                        ("Etag", "x"),
                        ("X-Delete-At", "4102444800"),
                        ("X-Object-Manifest", "c/o"),
                    )
                )
            )
        body = b"x" if chance.random() < 0.07 else b""
        yield Ask("PUT", target, tuple(headers), body, chunked=chance.random() < 0.05)
        for query in ("", "?symlink=get"):
            method = chance.choice(("GET", "HEAD"))
            headed = tuple(conditions(chance)) if chance.random() < 0.2 else ()
            yield Ask(method, target + query, headed)
        if chance.random() < 0.3:
            yield Ask(
                "POST", target + chance.choice(("", "?symlink=get")), (("X-Object-Meta-A", "1"),)
            )
            yield Ask("HEAD", target + "?symlink=get")
        if chance.random() < 0.2:
            yield Ask("POST", target, (("X-Symlink-Target", f"{container}/plain"),))
        if chance.random() < 0.2:
            yield Ask(
                "COPY",
                target + chance.choice(("", "?symlink=get")),
                (
                    ("Destination", f"{container}/k{number}"),
                    *((("Destination-Account", "AUTH_test2"),) if chance.random() < 0.2 else ()),
                ),
            )
            yield Ask("GET", f"{base}/k{number}?symlink=get")
        if chance.random() < 0.2:
            yield Ask("GET", target, user=None)
    yield Ask("GET", f"{base}?format=json&prefix=l")
    yield Ask("GET", f"{base}?format=xml&prefix=l")
    yield Ask("DELETE", f"{base}/l1?symlink=get")
    yield Ask("DELETE", f"{base}/l2")


WALKS: tuple[Walk, ...] = (static_manifests, dynamic_manifests, symlinks)
