# SPDX-License-Identifier: Apache-2.0
"""Storage devices in memory behind real sockets, for tests of the proxy.

Each device supports the part of the backend protocol that the proxy uses. It records its requests,
and can simulate every failure of a real device.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import google_crc32c
from fake_grid import FakeGrid

from martlet.grid.errors import Code
from martlet.grid.handlers import GridCall, HandlerError

HANG_UP = "hang up"  # closes the connection once it has read the headers
HANG_UP_IN_BODY = "hang up in body"  # asks for the body, reads a little, and closes
GARBAGE = "garbage"  # answers with something that is not HTTP
SILENT = "silent"  # sends no answer until the device is stopped
LOSE_ANSWER = "lose answer"  # executes the request and closes the connection
STALL_IN_ANSWER = "stall in answer"  # sends headers that announce a body, and no body
STALL = "stall"  # asks for the body and does not read it


@dataclass
class Seen:
    """A request as the device received it; ``whole`` is False for a truncated body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    whole: bool = True


@dataclass
class Stored:
    """An account, container or object on a device."""

    timestamp: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_deleted: bool = False
    meta_timestamp: str = ""  # of the last POST


class FakeDevice:
    """One device behind its own port.

    ``fault`` is None, a status, one of the constants above, or a function from Seen to one of
    them; ``fault_headers`` are sent with such a status. ``cut_after`` ends the bodies of GET
    answers after so many bytes. ``more_headers`` are added to each answer to an object's write,
    ``read_headers`` to successful GETs and HEADs of an object. ``takes_footers`` enables metadata
    after a body, which then are in the headers of Seen. With None as ``grid``, the server has none.
    """

    def __init__(self, number: int) -> None:
        self.name = f"sd{number}"
        self.number = number
        self.fault: Any = None
        self.cut_after: int | None = None
        self.more_headers: dict[str, str] = {}
        self.read_headers: dict[str, str] = {}
        self.fault_headers: dict[str, str] = {}
        self.takes_footers = True
        self.grid: FakeGrid | None = FakeGrid(self._serve_over_grid)
        self.grid_calls: list[GridCall] = []
        self.upgrades = 0  # connections that asked for the grid
        self.seen: list[Seen] = []
        self.stored: dict[str, Stored] = {}
        self.listings: dict[str, Any] = {}  # by name, in place of the stored data
        self.release = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def node(self) -> dict[str, Any]:
        return {"id": self.number, "ip": "127.0.0.1", "port": self.port, "device": self.name}

    def methods(self) -> list[str]:
        return [seen.method for seen in self.seen]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        with self._lock:
            return len(self._sockets)

    def last(self, method: str) -> Seen:
        return next(seen for seen in reversed(self.seen) if seen.method == method)

    def stop(self) -> None:
        """Like a dead process: nothing listens, every connection is closed."""
        self.release.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # already stopped
        self._listener.close()
        self.hang_up_all()

    def hang_up_all(self) -> None:
        with self._lock:
            for sock in self._sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # the other side closed it first

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock, sock.makefile("rb") as reader:
                while (seen := _read_head(reader)) is not None:
                    if not self._serve_one(sock, reader, seen):
                        break
        except OSError:
            pass  # the proxy disconnected; self.seen has its request
        finally:
            with self._lock:
                self._sockets.discard(sock)

    def _serve_one(self, sock: socket.socket, reader: Any, seen: Seen) -> bool:
        if seen.path == "/grid":
            return self._serve_grid(sock, seen)
        method, headers = seen.method, seen.headers
        self.seen.append(seen)
        fault = self.fault(seen) if callable(self.fault) else self.fault
        if self._fails_before_the_body(sock, fault):
            return False
        if "expect" in headers:
            if isinstance(fault, int):
                self._answer(sock, method, fault, self.fault_headers, b"")
                return False
            if early := self._refusal(seen):
                known = {"X-Backend-Timestamp": self.stored[_name(seen)].timestamp}
                self._answer(sock, method, early, known, b"")
                return False
            agreed = self.takes_footers and "x-backend-obj-metadata-footer" in headers
            agreement = b"X-Obj-Metadata-Footer: yes\r\n" if agreed else b""
            sock.sendall(b"HTTP/1.1 100 Continue\r\n%b\r\n" % agreement)
        if fault == STALL:
            self.release.wait(30)
            return False
        if fault == HANG_UP_IN_BODY:
            seen.body = reader.read(min(10, int(headers.get("content-length", "0"))))
            return False
        seen.body, seen.whole = _read_body(reader, headers)
        if not seen.whole:
            return False
        if "x-backend-obj-multipart-mime-boundary" in headers:
            _take_footers(seen)
        answer_headers: dict[str, str] = {}
        if isinstance(fault, int):
            status, answer_headers, body = fault, self.fault_headers, b""
        else:
            with self._lock:
                status, answer_headers, body = self._act(seen)
        if fault == LOSE_ANSWER:
            return False
        return self._answer(sock, method, status, answer_headers, body)

    def _serve_grid(self, sock: socket.socket, seen: Seen) -> bool:
        self.upgrades += 1
        if self.grid is None:
            self._answer(sock, "GET", 404, {}, b"no grid")
        else:
            self.grid.run(sock, seen.headers)
        return False

    def _serve_over_grid(
        self, call: GridCall, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes | None]:
        seen = Seen(method, path, headers, body)
        self.seen.append(seen)
        self.grid_calls.append(call)
        fault = self.fault(seen) if callable(self.fault) else self.fault
        if isinstance(fault, int):
            return fault, self.fault_headers, b""
        if fault == GARBAGE:
            return 999, {}, b"220 smtp.example.com ESMTP"
        if fault in (SILENT, STALL, STALL_IN_ANSWER):
            self.release.wait(30)
        if fault in (None, LOSE_ANSWER):
            with self._lock:
                status, answer_headers, answer = self._act(seen)
            is_cut = method == "GET" and self.cut_after is not None
            if fault is None and not (is_cut and len(answer) > (self.cut_after or 0)):
                return status, answer_headers, answer
            if fault is None:
                return status, answer_headers, None
        call.connection.close()
        raise HandlerError(Code.CANCELLED, "the device hangs up")

    def _fails_before_the_body(self, sock: socket.socket, fault: Any) -> bool:
        if fault == GARBAGE:
            sock.sendall(b"220 smtp.example.com ESMTP\r\n")
        elif fault == STALL_IN_ANSWER:
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        if fault in (SILENT, STALL_IN_ANSWER):
            self.release.wait(30)
        return fault in (HANG_UP, GARBAGE, SILENT, STALL_IN_ANSWER)

    def _answer(
        self, sock: socket.socket, method: str, status: int, headers: dict[str, str], body: bytes
    ) -> bool:
        head = f"HTTP/1.1 {status} X\r\n"
        headers = {"Content-Length": str(len(body)), **headers}
        head += "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        shown = b"" if method == "HEAD" else body
        if method == "GET" and self.cut_after is not None and len(shown) > self.cut_after:
            sock.sendall(head.encode("latin-1") + shown[: self.cut_after])
            return False
        sock.sendall(head.encode("latin-1") + shown)
        return True

    def _refusal(self, seen: Seen) -> int | None:
        """Return the refusal of a PUT before its body is read."""
        known = self.stored.get(_name(seen))
        if known is None:
            return None
        if known.timestamp >= seen.headers["x-timestamp"]:
            return 409
        if seen.headers.get("if-none-match") == "*" and not known.is_deleted:
            return 412
        return None

    def _act(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        if "x-size" in seen.headers:  # a row that the proxy sends for an object server
            return 201, {}, b""
        depth = _name(seen).count("/")
        act: Callable[[Seen], tuple[int, dict[str, str], bytes]]
        act = self._act_on_object if depth >= 3 else self._act_on_database
        status, headers, body = act(seen)
        if "x-container-host" in seen.headers:
            headers |= self.more_headers
        if depth >= 3 and seen.method in ("GET", "HEAD") and status != 404:
            headers |= self.read_headers
        return status, headers, body

    def _act_on_database(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        name = _name(seen)
        known = self.stored.get(name)
        kind = "container" if name.count("/") == 2 else "account"
        kept = {
            k: v
            for k, v in seen.headers.items()
            if k.startswith((f"x-{kind}-", "x-versions-")) and not k.startswith("x-account-host")
        }
        if seen.method == "PUT":
            if known is None:
                index = seen.headers.get("x-backend-storage-policy-index")
                index = index or seen.headers.get("x-backend-storage-policy-default", "0")
                kept["x-backend-storage-policy-index"] = index
                self.stored[name] = Stored(seen.headers["x-timestamp"], kept)
                return 201, {}, b""
            known.headers |= kept
            return 202, {}, b""
        if known is None:
            return 404, {}, b"<html>missing</html>"
        if seen.method == "POST":
            known.headers |= kept
            return 204, {}, b""
        if seen.method == "DELETE":
            del self.stored[name]
            return 204, {}, b""
        count = sum(1 for n in self.stored if n.startswith(f"{name}/"))
        shown = {k: v for k, v in known.headers.items() if v}
        shown |= {"x-put-timestamp": known.timestamp, "x-timestamp": known.timestamp}
        shown[f"x-{kind}-{'object' if kind == 'container' else 'container'}-count"] = str(count)
        if seen.method == "HEAD":
            return 204, shown, b""
        names = [
            n.removeprefix(f"{name}/") for n in sorted(self.stored) if n.startswith(name + "/")
        ]
        shown["Content-Type"] = "application/json; charset=utf-8"
        listing = [{"name": n, "hash": self._listed_etag(f"{name}/{n}")} for n in names]
        listing = self.listings.get(name, listing)
        return 200, shown, json.dumps(listing).encode()

    def _listed_etag(self, name: str) -> str:
        headers = self.stored[name].headers
        override = headers.get("x-object-sysmeta-container-update-override-etag")
        return override or headers.get("Etag", "").strip('"')

    def _post(self, name: str, timestamp: str) -> tuple[int, dict[str, str]]:
        known = self.stored.get(name)
        if known is None:
            return 404, {}
        if known.is_deleted:
            return 404, {"X-Backend-Timestamp": known.timestamp}
        if known.meta_timestamp >= timestamp:
            return 409, {"X-Backend-Timestamp": known.meta_timestamp}
        self.stored[name] = replace(known, meta_timestamp=timestamp)
        return 202, {"X-Backend-Data-Timestamp": known.timestamp}

    def _act_on_object(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        name, known = _name(seen), self.stored.get(_name(seen))
        timestamp = seen.headers["x-timestamp"]
        if seen.method in ("PUT", "POST", "DELETE"):
            if known is not None and known.timestamp >= timestamp:
                return 409, {"X-Backend-Timestamp": known.timestamp}, b""
            is_missing = known is None or known.is_deleted
            if seen.method == "DELETE":
                self.stored[name] = Stored(timestamp, is_deleted=True)
                return (404 if is_missing else 204), {"X-Backend-Timestamp": timestamp}, b""
            if seen.method == "POST":
                return (*self._post(name, timestamp), b"")
            etag = hashlib.md5(seen.body).hexdigest()
            if seen.headers.get("etag", etag) != etag:
                return 422, {}, b""
            kept = {k: v for k, v in seen.headers.items() if k.startswith("x-object-")}
            kept |= {"Etag": f'"{etag}"', "Content-Type": seen.headers["content-type"]}
            self.stored[name] = Stored(timestamp, kept, seen.body)
            return 201, {"Etag": f'"{etag}"'}, b""
        if known is None:
            return 404, {}, b"<html>missing</html>"
        shown = {"X-Backend-Timestamp": known.timestamp, **known.headers}
        if known.is_deleted:
            return 404, shown, b"<html>missing</html>"
        shown["X-Timestamp"] = known.timestamp
        etag = known.headers["Etag"].strip('"')
        if seen.headers.get("if-match", etag).strip('"') != etag:
            return 412, shown, b""
        if seen.headers.get("if-none-match", "").strip('"') == etag:
            shown["X-Backend-Content-Type"] = shown.pop("Content-Type")
            return 304, shown, b""
        return _with_ranges(seen.headers.get("range"), shown, known.body)


def _with_ranges(
    asked: str | None, headers: dict[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    if not asked:
        return 200, headers, body
    ranges = []
    for first, last in re.findall(r"(\d*)-(\d*)", asked.partition("=")[2]):
        start = int(first) if first else max(0, len(body) - int(last))
        end = min(int(last), len(body) - 1) if first and last else len(body) - 1
        if start < len(body):
            ranges.append((start, end))
    if not ranges:
        return 416, headers, b"<html>no such range</html>"
    if len(ranges) == 1:
        start, end = ranges[0]
        shown = {"Content-Range": f"bytes {start}-{end}/{len(body)}"}
        return 206, {**headers, **shown}, body[start : end + 1]
    boundary = uuid.uuid4().hex
    parts = [
        f"--{boundary}\r\nContent-Type: {headers['Content-Type']}\r\n"
        f"Content-Range: bytes {start}-{end}/{len(body)}\r\n\r\n".encode()
        + body[start : end + 1]
        + b"\r\n"
        for start, end in ranges
    ]
    shown = {"Content-Type": f"multipart/byteranges;boundary={boundary}"}
    return 206, {**headers, **shown}, b"".join(parts) + f"--{boundary}--".encode()


def _read_head(reader: Any) -> Seen | None:
    line = reader.readline()
    if not line:
        return None
    method, path, _ = line.decode("latin-1").split(" ")
    headers = {}
    while (raw := reader.readline()) not in (b"\r\n", b""):
        name, _, value = raw.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return Seen(method, path, headers, whole=False)


def _read_body(reader: Any, headers: dict[str, str]) -> tuple[bytes, bool]:
    if headers.get("transfer-encoding") != "chunked":
        length = int(headers.get("content-length", "0"))
        body = reader.read(length)
        return body, len(body) == length
    body = b""
    while True:
        line = reader.readline()
        if not line:
            return body, False
        size = int(line, 16)
        chunk = reader.read(size + 2)
        if len(chunk) < size + 2:
            return body + chunk, False
        if size == 0:
            return body, True
        body += chunk[:-2]


def _take_footers(seen: Seen) -> None:
    """Parse the MIME document strictly."""
    boundary = seen.headers["x-backend-obj-multipart-mime-boundary"].encode()
    opening = b"--%b\r\nX-Document: object body\r\n\r\n" % boundary
    assert seen.body.startswith(opening)
    body, found, closing = seen.body[len(opening) :].rpartition(b"\r\n--%b\r\n" % boundary)
    assert found
    head, _, rest = closing.partition(b"\r\n\r\n")
    document, found, end = rest.partition(b"\r\n--%b--" % boundary)
    assert (found, end.strip()) == (b"\r\n--%b--" % boundary, b"")
    checksum = hashlib.md5(document).hexdigest()
    assert head == f"X-Document: object metadata\r\nContent-MD5: {checksum}".encode()
    seen.body = body
    sent = json.loads(document)
    footers = {k.lower(): v for k, v in sent.items()}
    assert len(footers) == len(sent)
    assert seen.headers["x-backend-body-checksum"] == "crc32c"
    assert footers["x-backend-body-checksum"] == f"{google_crc32c.value(body):08x}"
    assert footers["etag"] == hashlib.md5(body).hexdigest()
    seen.headers |= footers


def _name(seen: Seen) -> str:
    """Return ``/account[/container[/object]]`` of a request, as sent."""
    return "/" + seen.path.partition("?")[0].split("/", 3)[3]


class FakeRing:
    """A ring of one partition: the first devices are primaries, the others hand-offs."""

    next_part_power = None

    def __init__(self, devices: list[FakeDevice], replicas: int) -> None:
        self._devices = devices
        self._replicas = replicas
        self.replica_count = float(replicas)

    def get_nodes(
        self, account: str, container: str | None = None, obj: str | None = None
    ) -> tuple[int, tuple[Any, ...]]:
        primaries = self._devices[: self._replicas]
        return 7, tuple({**d.node, "index": i} for i, d in enumerate(primaries))

    def get_more_nodes(self, partition: int) -> Iterator[Any]:
        for index, device in enumerate(self._devices[self._replicas :]):
            yield {**device.node, "handoff_index": index}


def lose_first_answer(device: FakeDevice, method: str) -> None:
    """The device does what it is asked, dies before it can say so, and is back at once."""
    lost: list[Seen] = []

    def fault(seen: Seen) -> str | None:
        if seen.method != method or lost:
            return None
        lost.append(seen)
        return LOSE_ANSWER

    device.fault = fault
