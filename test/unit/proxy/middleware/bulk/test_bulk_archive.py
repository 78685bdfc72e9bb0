"""Archives are read with the same result as tarfile's."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.http.response import HTTPException
from proxy.middleware.bulk.archive import Archive, Member


def filled(content: bytes, size: int) -> bytes:
    return content[:size].ljust(size, b"\0")


def sealed(
    header: bytes, checksum: bytes = b"%06o\0 ", signed: bool = False, off: int = 0
) -> bytes:
    """Return the header with its checksum."""
    number = tarfile.calc_chksums(header)[signed] + off  # type: ignore[attr-defined]
    return header[:148] + filled(checksum % max(number, 0), 8) + header[156:]


def usual_number(size: int) -> st.SearchStrategy[bytes]:
    digits = st.integers(0, 8 ** (size - 1) - 1).map(lambda n: b"%0*o" % (size - 1, n))
    return digits.flatmap(lambda n: st.sampled_from([n + b"\0", n + b" "]))


def odd_number(size: int) -> st.SearchStrategy[bytes]:
    """Rare and invalid forms of a number."""
    form = st.sampled_from([b"%o", b"%o ", b" %o\0", b" %o \0", b"%o\0x", b"+%o", b"-%o", b"%o_0"])
    octal = st.builds(lambda f, n: f % n, form, st.integers(0, 8 ** (size - 4)))
    base256 = st.builds(
        lambda sign, rest: bytes([sign]) + rest,
        st.sampled_from([0x80, 0xFF]),
        st.binary(min_size=size - 1, max_size=size - 1),
    )
    field = st.one_of(st.just(b""), st.just(b"7" * size), octal, base256, st.binary(max_size=size))
    return field.map(lambda content: filled(content, size))


def texts(size: int) -> st.SearchStrategy[bytes]:
    named = st.sampled_from([b"", b"c/o", b"c/d/", b"/", b"c/\xff", b"c" * size, b"c/o\0rest"])
    return st.one_of(named, st.binary(max_size=size)).map(lambda c: filled(c, size))


# Fields in their order: size, usual values, other values.
_Strategy = st.SearchStrategy[bytes]
_FIELDS: list[tuple[_Strategy, _Strategy]] = [
    (texts(100), texts(100)),
    *[(usual_number(size), odd_number(size)) for size in (8, 8, 8, 12, 12)],
    (st.just(bytes(8)), st.binary(min_size=8, max_size=8)),  # the checksum
    (st.just(b"0"), st.sampled_from([bytes([c]) for c in b"\x0015LKSXxg7Z"])),
    (st.just(bytes(100)), texts(100)),
    (st.sampled_from([b"ustar\x0000", b"ustar  \0"]), st.binary(min_size=8, max_size=8)),
    (texts(32), texts(32)),
    (texts(32), texts(32)),
    *[(st.one_of(usual_number(8), st.just(bytes(8))), odd_number(8))] * 2,
    (st.one_of(st.just(bytes(155)), texts(155)), texts(155)),
    (st.just(bytes(12)), st.binary(min_size=12, max_size=12)),
]


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """The header of a regular file with up to two unusual fields."""
    odd = draw(st.sets(st.integers(0, len(_FIELDS)), max_size=2))
    header = b"".join(draw(_FIELDS[i][i in odd]) for i in range(len(_FIELDS)))
    if len(_FIELDS) not in odd:
        return sealed(header)
    checksum = draw(st.sampled_from([b"%06o\0 ", b"%06o \0", b"%07o\0", b"%o", b"%06o\0x"]))
    return sealed(header, checksum, draw(st.booleans()), draw(st.sampled_from([0, 0, 1, -1, 8**6])))


def said(kind: type[tarfile.TarInfo], header: bytes) -> tuple[object, ...]:
    try:
        member = kind.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:  # type: ignore[attr-defined]
        return type(error), str(error)
    return member.name, member.size, member.type, member.sparse


@given(headers())
def test_a_header_says_what_tarfile_says(header: bytes) -> None:
    expected = said(tarfile.TarInfo, header)
    try:
        assert said(Member, header) == expected
    except tarfile.ReadError:
        assert expected[2] in {b"L", b"K", b"X", b"x", b"g"}
        assert not 0 <= int(str(expected[1])) <= 128 * 1024


@given(headers(), st.integers(0, 511), st.integers(1, 255))
def test_a_changed_byte_is_noticed_as_tarfile_does(header: bytes, place: int, change: int) -> None:
    damaged = bytearray(header)
    damaged[place] ^= change
    expected = said(tarfile.TarInfo, bytes(damaged))
    if expected[0] is tarfile.InvalidHeaderError:  # type: ignore[attr-defined]
        assert said(Member, bytes(damaged)) == expected


@pytest.mark.parametrize("name", ["c/d", "c/d/"])
def test_types_are_what_tarfile_takes_them_for(name: str) -> None:
    header = tarfile.TarInfo(name).tobuf()
    for kind in range(256):
        typed = sealed(header[:156] + bytes([kind]) + header[157:])
        assert said(Member, typed) == said(tarfile.TarInfo, typed)


@pytest.mark.parametrize(
    "field",
    [
        *[b"", b"644", b"644 ", b" 644", b"0000008", b"0000644x", b"77777777", b"+17", b"1_0"],
        *[b"-17", b"x", b"\xff\xff", b"\x80" + bytes(6) + b"\x07", b"\xff" * 8, b"\x80" * 8],
    ],
)
def test_numbers_are_what_tarfile_takes_them_for(field: bytes) -> None:
    header = tarfile.TarInfo("c/o").tobuf()
    for place, size in ((100, 8), (108, 8), (116, 8), (124, 12), (136, 12), (329, 8), (337, 8)):
        changed = sealed(header[:place] + filled(field, size) + header[place + size :])
        assert said(Member, changed) == said(tarfile.TarInfo, changed)


@pytest.mark.parametrize("length", [0, 1, 511])
def test_a_part_of_a_header_is_none(length: int) -> None:
    header = tarfile.TarInfo("c/o").tobuf()[:length]
    assert said(Member, header) == said(tarfile.TarInfo, header)
    assert said(Member, bytes(512)) == said(tarfile.TarInfo, bytes(512))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["c/o", "c/" + "é" * 49, "c/" + "d" * 90 + "/o"])
def test_usual_headers_go_the_short_way(
    form: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.uid, info.uname = 8**11 - 1, 1_700_000_000, 1000, "user"
    header = info.tobuf(form, "utf-8")[-512:]
    expected = said(tarfile.TarInfo, header)

    def long_way(*_: Any) -> None:
        raise AssertionError("not needed")

    monkeypatch.setattr(tarfile.TarInfo, "frombuf", long_way)
    assert said(Member, header) == expected


def test_files_are_read_one_after_another() -> None:
    stream = io.BytesIO()
    sizes = [0, 1, 511, 512, 513, 65_536, 200_000, 3]
    with tarfile.open(fileobj=stream, mode="w") as opened:
        for size in sizes:
            info = tarfile.TarInfo(f"c/{size}")
            info.size = size
            opened.addfile(info, io.BytesIO(bytes([size % 251]) * size))
    for unread in (-1, 1, 6):
        archive = Archive(io.BytesIO(stream.getvalue()), "")
        for number, size in enumerate(sizes):
            member = archive.next()
            assert member is not None
            assert (member.name, member.size) == (f"c/{size}", size)
            if number != unread:
                assert archive.read(member) == bytes([size % 251]) * size
        assert archive.next() is None


def test_a_sparse_file_has_its_holes() -> None:
    """The old GNU format has the map of the file in the header."""
    header = bytearray(tarfile.TarInfo("c/o").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"%011o\0" % 4
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[386:410] = b"%011o\0%011o\0" % (6, 4)
    header[483:495] = b"%011o\0" % 12
    archive = Archive(io.BytesIO(sealed(bytes(header)) + filled(b"data", 512) + bytes(1024)), "")
    member = archive.next()
    assert member is not None
    assert archive.read(member) == bytes(6) + b"data" + bytes(2)
    assert archive.next() is None


def test_what_goes_back_is_refused() -> None:
    """A size below zero would otherwise lead to the same header forever."""
    header = bytearray(tarfile.TarInfo("c/o").tobuf())
    header[124:136] = (-1024).to_bytes(12, "big", signed=True)
    archive = Archive(io.BytesIO(sealed(bytes(header)) + bytes(2048)), "")
    member = archive.next()
    assert member is not None
    assert archive.read(member) == b""
    with pytest.raises(HTTPException) as refused:
        archive.next()
    assert refused.value.response.body == b"Invalid Tar File: seeking backwards is not allowed"


def test_a_list_of_pieces_that_breaks_off_is_refused() -> None:
    header = bytearray(tarfile.TarInfo("c/o").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[482] = 1  # the map continues in the next block
    with pytest.raises(HTTPException) as refused:
        Archive(io.BytesIO(sealed(bytes(header)) + bytes(100)), "")
    assert refused.value.response.status == 400


class Counted(io.BytesIO):
    """A stream that counts the bytes read from it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self.count += len(piece)
        return piece


def read_headers(stream: io.BytesIO, count: int) -> None:
    archive = Archive(stream, "")
    for _ in range(count):
        assert archive.next() is not None


def refusal(stream: io.BytesIO, files_before: int) -> bytes:
    """Return the refusal of an archive after ``files_before`` files."""
    with pytest.raises(HTTPException) as refused:
        read_headers(stream, files_before + 1)
    assert refused.value.response.status == 400
    body: bytes = refused.value.response.body
    return body


FIRST = tarfile.TarInfo("c/first").tobuf()


@pytest.mark.parametrize("before", [b"", FIRST], ids=["first", "second"])
def test_a_list_of_pieces_without_end_is_refused(before: bytes) -> None:
    header = bytearray(tarfile.TarInfo("c/o").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[482] = 1  # the map continues in the next block, and so on
    more = (b"%011o\0%011o\0" % (0, 1) * 21 + b"\1").ljust(512, b"\0")
    stream = Counted(before + sealed(bytes(header)) + more * 10_000)
    said = refusal(stream, files_before=len(before) // 512)
    assert said == b"Invalid Tar File: the headers of a file are too long"
    assert stream.count < 2 * 1024 * 1024


@pytest.mark.parametrize("before", [b"", FIRST], ids=["first", "second"])
def test_attributes_of_digits_alone_are_refused(before: bytes) -> None:
    """A search for a number at each digit would take seconds."""
    header = tarfile.TarInfo("c/o")
    header.type, header.size = tarfile.XHDTYPE, 100_000
    stream = io.BytesIO(before + header.tobuf() + b"1" * 100_352 + FIRST)
    said = refusal(stream, files_before=len(before) // 512)
    assert said == b"Invalid Tar File: a number in a header is too long"
