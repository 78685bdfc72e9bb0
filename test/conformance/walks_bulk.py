"""Walks about bulk requests."""

from __future__ import annotations

import bz2
import gzip
import io
import random
import tarfile
from collections.abc import Iterator

from walk_parts import ACCEPTS, ACCOUNT, Walk, put
from wire import Ask


def bulk_deletes(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    for _ in range(5):
        for name in ("a", "b", "c/d", "%C3%A4", "a%20b", "a%252Fb"):
            yield put(f"{base}/{name}")
        choices = (
            f"{container}/a",
            f"/{container}/b",
            f"{container}/c/d",
            f"{container}/c%2Fd",
            f"{container}/%C3%A4",
            f"{container}/\xc3\xa4",
            f"{container}/none",
            container,
            f"/{container}/",
            "none",
            "none/x",
            "",
            " ",
            f" {container}/a ",
            f"{container}/%ff",
            f"{container}/\xff",
            f"{container}/%00",
            "/",
            "//",
            f"{container}/a b",
            f"{container}/a%20b",
            f"{container}/a%252Fb",
            f"{container}%2Fa",
            f"{container}/" + "x" * 1024,
            f"{container}/" + "x" * 1025,
            "x" * 257,
            f"{container}/a\x00",
            f"//{container}/a",
            f"{container}/" + "%C3%A4" * 1025 * 3,
            "a?b",
            f"{container}/a?x=y",
            f"{container}/\x00",
        )
        newline = chance.choice(("\n", "\n", "\r\n", "\r", "\n\n", "\n \n"))
        text = newline.join(chance.sample(choices, chance.choice((0, 1, 2, 3, 5))))
        if chance.random() < 0.05:
            text = "\n".join(f"none/{n}" for n in range(chance.choice((10000, 10001))))
        target = ACCOUNT if chance.random() < 0.9 else base
        query = chance.choice(
            ("?bulk-delete", "?bulk-delete=x", "?bulk-delete=true&a=b", "?bulk-delete")
        )
        headers = [
            ("Content-Type", chance.choice(("text/plain", "text/plain", "a/b", ""))),
            ("Accept", chance.choice(ACCEPTS)),
        ]
        method = chance.choice(("POST", "POST", "DELETE", "PUT"))
        yield Ask(
            method,
            target + query,
            tuple(headers),
            text.encode("latin-1"),
            chunked=chance.random() < 0.1,
        )
        yield Ask("GET", base)


def archives(chance: random.Random, container: str) -> Iterator[Ask]:
    base = f"{ACCOUNT}/{container}"
    yield put(base)
    for _ in range(3):
        body, kind = _archive(chance, container)
        target = chance.choice(
            (
                base,
                base,
                f"{base}/pre",
                f"{base}/pre/",
                ACCOUNT,
                f"{ACCOUNT}/{container}new",
                f"{base}/p%2Fq/%C3%A4",
            )
        )
        kind = chance.choice((kind, kind, kind, kind, "tar", "zip", "", "TAR"))
        headers = [("Accept", chance.choice(ACCEPTS))]
        if chance.random() < 0.2:
            headers.append(("X-Object-Meta-A", "b"))
        if chance.random() < 0.1:
            headers.append(("X-Detect-Content-Type", "true"))
        if chance.random() < 0.1:
            headers.append(("X-Delete-After", "99999"))
        yield Ask(
            "PUT",
            f"{target}?extract-archive={kind}",
            tuple(headers),
            body,
            chunked=chance.random() < 0.2,
        )
        yield Ask("GET", f"{base}?format=json")
    yield Ask("GET", f"{ACCOUNT}?prefix={container}")
    for name in ("a.txt", "pre/a.txt", "xattr", "sparse", "hard"):
        yield Ask("GET", f"{base}/{name}")


_BROKEN = (
    b"",
    b"x",
    b"\x00" * 512,
    b"\x00" * 1024,
    b"x" * 512,
    b"x" * 2000,
    gzip.compress(b""),
    gzip.compress(b"x" * 600),
    bz2.compress(b""),
)
_MEMBERS = (
    "a.txt",
    "./a.txt",
    "/a.txt",
    "d/e.txt",
    "d/./e",
    "../up",
    "d/../e",
    "ä.txt",
    "\udcff.txt",
    "a b",
    "a%2Fb",
    "x" * 99,
    "y" * 140,
    "l" * 255 + "/" + "m" * 200,
    "xattr",
    "sparse",
    "hard",
    "dir/",
    "d//e",
    "a\nb",
    "?x",
    "{c}",
    "z" * 1025,
)
_ATTRIBUTES = (
    ("user.mime_type", "a/b"),
    ("user.meta.color", "blue"),
    ("user.meta.ä", "x"),
    ("user.meta.a", "ä"),
    ("user.other", "x"),
    ("user.meta.a b", "c"),
    ("user.meta.", "c"),
    ("user.meta.big", "v" * 300),
    ("user.meta.\udcff", "c"),
    ("user.meta.n" + "n" * 128, "c"),
)


def _archive(chance: random.Random, container: str) -> tuple[bytes, str]:
    raw = io.BytesIO()
    if chance.random() < 0.15:
        text = chance.choice(_BROKEN)
        return text, chance.choice(("tar", "tar.gz", "tar.bz2"))
    form = chance.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(
        fileobj=raw, mode="w", format=form, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for _ in range(chance.choice((0, 1, 2, 3, 5))):
            name = chance.choice(_MEMBERS).format(c=container)
            member = tarfile.TarInfo(name)
            member.mtime = 1600000000
            content = b"x" * chance.choice((0, 1, 511, 512, 513))
            if name == "dir/":
                member.type, content = tarfile.DIRTYPE, b""
            elif name == "hard":
                member.type, member.linkname, content = tarfile.LNKTYPE, "a.txt", b""
            elif chance.random() < 0.1:
                member.type, content = (
                    chance.choice(
                        (
                            tarfile.SYMTYPE,
                            tarfile.FIFOTYPE,
                            tarfile.CHRTYPE,
                            tarfile.CONTTYPE,
                            tarfile.AREGTYPE,
                        )
                    ),
                    b"",
                )
                member.linkname = "a.txt"
            elif name == "xattr":
                key, value = chance.choice(_ATTRIBUTES)
                member.pax_headers = {
                    f"{chance.choice(('SCHILY.xattr.', 'LIBARCHIVE.xattr.'))}{key}": value
                }
            member.size = len(content)
            try:
                tar.addfile(member, io.BytesIO(content))
            except (ValueError, UnicodeError):
                continue
    body = raw.getvalue()
    if chance.random() < 0.15:
        body = body[: chance.choice((100, 512, 700, 1024, len(body) - 600))]
    kind = chance.choice(("tar", "tar", "tar.gz", "tar.bz2"))
    if kind == "tar.gz":
        body = gzip.compress(body, mtime=0)
    elif kind == "tar.bz2":
        body = bz2.compress(body)
    if kind != "tar" and chance.random() < 0.15:
        body = body[: len(body) // 2]
    return body, kind


WALKS: tuple[Walk, ...] = (bulk_deletes, archives)
