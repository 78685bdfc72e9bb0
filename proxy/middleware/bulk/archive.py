# SPDX-License-Identifier: Apache-2.0
"""Sequential reading of an uploaded tar archive, file by file.

tarfile reads the archive. Regular files with a usual header take a fast path here: for ten thousand
small files, tarfile's own parsing took an eighth of the proxy's time.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import tarfile
import time
import zlib
from typing import IO, Any, NamedTuple, Self

from martlet.http.response import HTTPException, http_error

#: ``?extract-archive=`` and tarfile's name of the compression.
COMPRESSIONS = {"tar": "", "tar.gz": "gz", "tar.bz2": "bz2"}
_READ_BYTES = 64 * 1024
#: Longest header with long names or extended attributes, bytes. tarfile keeps them in memory: up to
#: a few hundred in a row, and those about all files until the end. All attributes that a file can
#: have on Linux fit.
_LONG_HEADER_MAX = 128 * 1024
_LONG_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
#: All headers of one file together, with the map of a sparse file, bytes.
_HEADERS_MAX = 1024 * 1024
#: tarfile searches for a number at each digit of a file's attributes. Up to Python 3.11.9 each
#: search goes to the end of the digits. A part of a file's name has 255 bytes at most.
_LONG_NUMBER = re.compile(rb"\d{256}")
# The exceptions of tarfile for broken archives. IndexError: the map of a sparse file ends early.
# OSError: also when the client disconnects.
_BROKEN = (
    tarfile.TarError, zlib.error, EOFError, OSError, ValueError, IndexError, OverflowError,
    RecursionError,
)  # fmt: skip
#: Unpacked size up to which the ratio of a packed archive is not limited, bytes.
_RATIO_COUNTS_FROM = 64 * 1024 * 1024
#: Unpacked bytes for each byte sent: at this ratio, unpacking takes no longer than sending.
_FREE_RATIO = 10
#: All 512 bytes of the header of a regular file as tools write it: octal digits fill the number
#: fields. tarfile accepts more forms. Groups: name, size, checksum, prefix of the name.
_USUAL_HEADER = re.compile(
    rb"(?=([^\0]{0,100})).{100}"
    rb"(?:[0-7]{7}[\0 ]){3}"  # mode, user and group
    rb"([0-7]{11})[\0 ]"
    rb"[0-7]{11}[\0 ]"  # time
    rb"([0-7]{6})\0 "
    rb"0.{172}"  # the type; target of a link, magic, names of user and group
    rb"(?:[0-7]{7}[\0 ]|\0{8}){2}"  # device
    rb"(?=([^\0]{0,155})).{167}",
    re.DOTALL,
)
_CHECKSUM_FIELD = slice(148, 156)


class Member(tarfile.TarInfo):
    """A file of an archive, or a header about the next one."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header; for a regular file, read only the name and the size.

        :raises tarfile.HeaderError: as in tarfile.
        :raises tarfile.ReadError: the header would not fit into memory.
        """
        usual = _USUAL_HEADER.fullmatch(buf)
        if usual is not None:
            name, size, checksum, prefix = usual.groups()
            if int(checksum, 8) == _checksum(buf):
                text = name.decode(encoding, errors)
                member = cls(f"{prefix.decode(encoding, errors)}/{text}" if prefix else text)
                member.size = int(size, 8)
                return member
        member = super().frombuf(buf, encoding, errors)
        if member.type in _LONG_HEADERS:
            if member.size > _LONG_HEADER_MAX:
                raise tarfile.ReadError("a header is too long")
            if member.size < 0:
                raise tarfile.ReadError("invalid header")
        return member


def _checksum(header: bytes | bytearray) -> int:
    """Return the sum of all bytes, with the checksum field counted as spaces."""
    # Most bytes are 0.
    total = sum(header.translate(None, b"\0"))
    return total - sum(header[_CHECKSUM_FIELD]) + 8 * ord(" ")


class UnpackLimits(NamedTuple):
    """Limits on the unpacked size of an archive; 0: no limit."""

    bytes_max: int = 0
    #: Unpacked bytes for each byte that the client sent.
    ratio_max: int = 0


_NO_LIMITS = UnpackLimits()


class _Packed:
    """The body of the request, which counts the bytes read from it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.bytes_read = 0

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes."""
        piece: bytes = self._stream.read(size)
        self.bytes_read += len(piece)
        return piece

    def readable(self) -> bool:
        """Return True; bz2 requires the method."""
        return True

    def seekable(self) -> bool:
        """Return False; bz2 requires the method."""
        return False


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of an archive; a read unpacks no more than the requested bytes.

    tarfile's own unpacking can turn one piece of bzip2 into gigabytes.
    """

    def __init__(self, stream: Any, compression: str, limits: UnpackLimits) -> None:
        self._packed = stream = _Packed(stream)
        self._limits = limits
        if compression == "gz":
            stream = gzip.GzipFile(fileobj=stream, mode="rb")
        elif compression == "bz2":
            stream = bz2.BZ2File(stream)
        self._stream = stream
        self._is_packed = bool(compression)
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """See ``io.RawIOBase``.

        :raises HTTPException: (413) the archive unpacks to more than the limit.
        """
        if self._is_packed:
            time.sleep(0)  # a packed byte may expand to a million: let other requests run
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        self._position += len(piece)
        if self._is_packed:
            self._check_limits()
        return len(piece)

    def _check_limits(self) -> None:
        bytes_max, ratio_max = self._limits
        if bytes_max and self._position > bytes_max:
            raise http_error(413, f"The archive unpacks to more than {bytes_max} bytes.")
        if not ratio_max or self._position <= _RATIO_COUNTS_FROM:
            return
        if self._position > ratio_max * self._packed.bytes_read:
            raise http_error(413, f"The archive unpacks to more than {ratio_max} times its size.")

    def tell(self) -> int:
        """Return the number of bytes read so far."""
        return self._position

    @property
    def bytes_sent(self) -> int:
        """The number of bytes that the client sent for them."""
        return self._packed.bytes_read


class _Source(io.BufferedReader):
    """The forward-only stream from which tarfile reads.

    ``headers_left`` is the number of header bytes still allowed; None while contents are read.
    """

    headers_left: int | None = None

    def __init__(self, unpacked: _Unpacked) -> None:
        super().__init__(unpacked, _READ_BYTES)
        self._unpacked = unpacked
        self._skips_left: int | None = None  # bytes
        self._sent_before = 0  # by the client

    def limit_skips(self, bytes_max: int | None) -> None:
        """See `Archive.limit_skips`."""
        if bytes_max is None or self._skips_left is None:
            self._skips_left = bytes_max
            self._sent_before = self._unpacked.bytes_sent

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to ``size`` bytes.

        :raises tarfile.ReadError: headers that would take too much memory or time.
        """
        piece = super().read(size)
        if self.headers_left is not None:
            self.headers_left -= len(piece)
            if self.headers_left < 0:
                raise tarfile.ReadError("the headers of a file are too long")
            if len(piece) > tarfile.BLOCKSIZE and _LONG_NUMBER.search(piece):
                raise tarfile.ReadError("a number in a header is too long")
        return piece

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        """Skip the bytes before ``position``.

        :raises tarfile.StreamError: the stream is already past it.
        :raises tarfile.ReadError: the stream ends before ``position``.
        :raises HTTPException: (403) too many bytes that the client may not store are skipped.
        """
        ahead = position - self.tell()
        if ahead < 0:
            raise tarfile.StreamError("seeking backwards is not allowed")
        while ahead:
            piece = super().read(min(ahead, _READ_BYTES))
            if not piece:
                raise tarfile.ReadError("unexpected end of data")
            ahead -= len(piece)
            if self._skips_left is not None:
                self._skips_left -= len(piece)
                sent = self._unpacked.bytes_sent - self._sent_before
                if self._skips_left + _FREE_RATIO * sent < 0:
                    raise http_error(403)
        return position


class Archive:
    """An archive that is read while it arrives.

    :raises HTTPException: in every method: (400) it is broken, or not of the declared kind;
        (413) it unpacks to more than ``limits`` allow; (403) see ``limit_skips``.
    """

    def __init__(self, stream: Any, compression: str, limits: UnpackLimits = _NO_LIMITS) -> None:
        self._is_at_end = False
        try:
            # Larger pieces than the default, because each read of a request's body is costly.
            self._source = _Source(_Unpacked(stream, compression, limits))
            self._source.headers_left = _HEADERS_MAX  # TarFile reads the first file's headers
            self._tar = tarfile.TarFile(fileobj=self._source, tarinfo=Member)
        except _BROKEN as error:
            raise _broken(error) from None

    def next(self) -> tarfile.TarInfo | None:
        """Return the next file; None at the end and in every later call."""
        if self._is_at_end:
            return None
        self._source.headers_left = _HEADERS_MAX
        try:
            member = self._tar.next()
            about_all = self._tar.pax_headers  # a copy is made for each file
            if about_all and sum(map(len, (*about_all, *about_all.values()))) > _LONG_HEADER_MAX:
                raise tarfile.ReadError("the headers of all files are too long")
        except _BROKEN as error:
            raise _broken(error) from None
        finally:
            self._source.headers_left = None
        self._is_at_end = member is None
        self._tar.members = []  # type: ignore[attr-defined]  # tarfile would keep all of them
        return member

    def limit_skips(self, bytes_max: int | None) -> None:
        """Limit the bytes of unread contents that may be skipped from now on; None: no limit.

        The limit grows as the client sends more. A later number does not replace a limit.
        """
        self._source.limit_skips(bytes_max)

    def read(self, member: tarfile.TarInfo) -> bytes:
        """Return the contents of a regular file; call it before ``next``."""
        if member.sparse is not None or member.size < 0:
            body = self.body_of(member)
            content = body.read()
            body.check()
            return content
        try:
            content = self._source.read(member.size)
        except _BROKEN as error:
            raise _broken(error) from None
        if len(content) < member.size:
            raise _broken(tarfile.ReadError("unexpected end of data"))
        return content

    def body_of(self, member: tarfile.TarInfo) -> FileBody:
        """Return the contents of a large file as a stream; see `read`."""
        contents = self._tar.extractfile(member)
        assert contents is not None  # true for regular files
        return FileBody(contents)


class FileBody:
    """``wsgi.input`` of a file; it ends early if the archive breaks off."""

    def __init__(self, contents: IO[bytes]) -> None:
        self._contents = contents
        self._error: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes."""
        try:
            return self._contents.read(size)
        except (*_BROKEN, HTTPException) as error:
            self._error = error
            return b""

    def check(self) -> None:
        """:raises HTTPException: (400) the archive broke off; (413) it became too large."""
        if isinstance(self._error, HTTPException):
            raise self._error
        if self._error is not None:
            raise _broken(self._error)


def _broken(error: Exception) -> HTTPException:
    return http_error(400, f"Invalid Tar File: {error}")
