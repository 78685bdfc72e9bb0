# SPDX-License-Identifier: Apache-2.0
"""The events of one target on disk, as files of lines; ``doc/formats/notification-queue.md``.

Each process writes files of its own and holds their locks. The kernel releases a lock when its
process ends, so another process takes over what is left. All functions here block on the disk.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path

_OFFSET_DIGITS = 20
_HEAD_BYTES = _OFFSET_DIGITS + 1
#: A file of this size gets no further events.
FILE_BYTES_MAX = 4 * 1024 * 1024
#: More than the longest record has.
_LINE_BYTES_MAX = 64 * 1024
_SUFFIX = ".events"


class SpoolFile:
    """A file whose lock this process holds."""

    def __init__(self, path: Path, descriptor: int, offset: int, end: int) -> None:
        self.path = path
        self.end = end
        self.offset = offset
        self._descriptor = descriptor

    @classmethod
    def create(cls, directory: Path) -> SpoolFile:
        """A new file. It gets its name once its lock is held, so no other process takes it.

        :raises OSError: it cannot be written.
        """
        path = directory / f"{time.time_ns():020d}-{os.getpid()}{_SUFFIX}"
        begun = path.with_suffix(".new")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(begun, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            file = cls(path, descriptor, _HEAD_BYTES, _HEAD_BYTES)
            file._write_offset()
            begun.rename(path)
            _sync_directory(directory)
        except OSError:
            os.close(descriptor)
            raise
        return file

    @classmethod
    def adopt(cls, path: Path) -> SpoolFile | None:
        """The file of a process that has ended; None if it lives, or the file is gone."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
            head = os.pread(descriptor, _OFFSET_DIGITS, 0)
        except OSError:
            os.close(descriptor)
            return None
        if found.st_nlink == 0:
            os.close(descriptor)
            return None
        offset = int(head) if head.isdigit() else _HEAD_BYTES
        return cls(path, descriptor, max(offset, _HEAD_BYTES), found.st_size)

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines and flush them to the disk.

        :raises OSError: they are not stored.
        """
        data = b"".join(line + b"\n" for line in lines)
        at = self.end
        while data:
            done = os.pwrite(self._descriptor, data, at)
            at, data = at + done, data[done:]
        os.fdatasync(self._descriptor)
        self.end = at

    def peek(self) -> bytes | None:
        """The first line that is not done, with its end; None if there is none.

        A line that a crash has torn is none.
        """
        if self.offset >= self.end:
            return None
        size = min(self.end - self.offset, _LINE_BYTES_MAX)
        line, newline, _ = os.pread(self._descriptor, size, self.offset).partition(b"\n")
        return line + newline if newline else None

    def rest(self) -> list[bytes]:
        """All lines that are not done, without their ends.

        :raises OSError: the file cannot be read.
        """
        data = os.pread(self._descriptor, max(0, self.end - self.offset), self.offset)
        return data.split(b"\n")[:-1]

    def finish(self, line: bytes) -> None:
        """Note that the line of ``peek`` is done. A crash may forget it: it is sent again."""
        self.offset += len(line)
        self._write_offset()

    def _write_offset(self) -> None:
        os.pwrite(self._descriptor, b"%0*d\n" % (_OFFSET_DIGITS, self.offset), 0)

    def remove(self) -> None:
        """Remove the file and release it."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


class Spool:
    """The files of one target in a directory of its own.

    One thread stores, another one takes; each file is worked by both.
    """

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self.directory = directory
        self._bytes_max = bytes_max
        self._active: SpoolFile | None = None
        self._closed: list[SpoolFile] = []

    def store(self, lines: Sequence[bytes]) -> int:
        """Store lines, as many as there is room for; return their number.

        :raises OSError: the disk fails.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        room = self._bytes_max - sum(map(_size_of, self._paths()))
        count = 0
        for line in lines:
            room -= len(line) + 1
            if room < 0:
                break
            count += 1
        if count == 0:
            return 0
        if self._active is None or self._active.end >= FILE_BYTES_MAX:
            file = SpoolFile.create(self.directory)
            if self._active is not None:
                self._closed.append(self._active)
            self._active = file
        self._active.append(lines[:count])
        return count

    def next_file(self) -> SpoolFile | None:
        """A file with a line that is not done; files that are done are removed."""
        active = self._active  # before the look at closed ones: it may become one
        while self._closed:
            if self._closed[0].peek() is not None:
                return self._closed[0]
            self._closed.pop(0).remove()
        return active if active is not None and active.peek() is not None else None

    def rotate(self) -> None:
        """Close the file that is being written, if it has lines."""
        if self._active is not None and self._active.peek() is not None:
            self._closed.append(self._active)
            self._active = None

    def closed(self) -> list[SpoolFile]:
        """The files that get no further lines."""
        return list(self._closed)

    def drop(self, file: SpoolFile) -> None:
        """Remove a closed file, whose lines are all done."""
        self._closed.remove(file)
        file.remove()

    def adopt(self) -> bool:
        """Take over files of processes that have ended; whether there was one."""
        own = {file.path for file in (*self._closed, self._active) if file is not None}
        adopted = [SpoolFile.adopt(path) for path in self._paths() if path not in own]
        found = [file for file in adopted if file is not None]
        self._closed[:0] = found
        return bool(found)

    @property
    def waiting_bytes(self) -> int:
        """The size of the events of this process that are not done."""
        files = [*self._closed, *([self._active] if self._active else [])]
        return sum(file.end - file.offset for file in files)

    def _paths(self) -> list[Path]:
        try:
            return sorted(p for p in self.directory.iterdir() if p.suffix == _SUFFIX)
        except FileNotFoundError:
            return []


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it was sent meanwhile
        return 0


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
