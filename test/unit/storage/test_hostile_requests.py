"""Whatever an account or container server is sent, it answers in its own words: no 500, no
traceback, no header that cannot be sent, nothing written outside of a device, and what is stored
stays as it is.
"""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage_calls import stamp, write_cluster

from account.app import AccountServer
from container.app import ContainerServer
from martlet.http.backend_client import encode_headers
from martlet.http.call import call_app
from martlet.http.headers import environ_key
from martlet.http.request import Request

METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "UPDATE", "SNAPSHOT", "OPTIONS", "BREW", "get"]
ODD_TEXTS = [
    "",
    ".",
    "..",
    "../..",
    "%2e%2e",
    "\x00",
    "\n",
    "\r\nX-Evil: 1",
    "\x1b[31m",
    "\xff\xfe",
    "\xc3\xa9",
    "☃",
    "\ud800",
    "\U0010ffff",
    "a" * 5000,
    "/",
    "//",
    "tmp",
    "quarantined",
    "d1",
    "'; DROP TABLE object; --",
    "%",
    "_",
    "null",
    "None",
    "NaN",
    "Infinity",
    "1e400",
    "-0",
]
ODD_NUMBERS = ["-1", "0", "1", "007", "1.5", "1e9", "²", "١", "9" * 19, "9" * 5000, str(2**63), ""]
DEVICES = ["d1", "d1", "d1", "d3", "", ".", "..", "d1/..", ".sweep.lock", "d1\x00", "D1", "%64%31"]
PARTITIONS = [
    "0",
    "0",
    "0",
    "1",
    "4294967296",
    "9999999999",
    "99999999999",
    "-1",
    "..",
    "+1",
    "0x1",
]
HEADERS = [
    "X-Timestamp",
    "X-Put-Timestamp",
    "X-Delete-Timestamp",
    "X-Object-Count",
    "X-Bytes-Used",
    "X-Size",
    "X-Etag",
    "X-Content-Type",
    "X-Content-Type-Timestamp",
    "X-Meta-Timestamp",
    "X-Backend-Version-Id",
    "X-Backend-Storage-Policy-Index",
    "X-Backend-Storage-Policy-Default",
    "X-Backend-Record-Type",
    "X-Backend-Auto-Create",
    "X-Backend-Restore",
    "X-Backend-No-Timestamp-Update",
    "X-Account-Override-Deleted",
    "X-Account-Host",
    "X-Account-Device",
    "X-Account-Partition",
    "X-Container-Sync-To",
    "X-Container-Meta-A",
    "X-Account-Meta-A",
    "X-Container-Meta-",
    "X-Account-Sysmeta-\xff",
    "X-Remove-Container-Meta-A",
    "Content-Length",
    "Transfer-Encoding",
    "Accept",
]
PARAMETERS = [
    "limit",
    "marker",
    "end_marker",
    "prefix",
    "delimiter",
    "reverse",
    "path",
    "format",
    "versions",
    "version_marker",
]
ROW_KEYS = [
    "name",
    "created_at",
    "size",
    "content_type",
    "etag",
    "deleted",
    "storage_policy_index",
    "ctype_timestamp",
    "meta_timestamp",
    "version_id",
]

texts = st.one_of(st.sampled_from(ODD_TEXTS + ODD_NUMBERS), st.text(max_size=20))
stamps = st.one_of(
    st.sampled_from(
        [stamp(1), stamp(9), "0", "1", "9999999999.99999", "1_0", "1_" + "f" * 17, "1+f"]
    ),
    texts,
)
names = st.one_of(st.sampled_from(["AUTH_test", "c", "o", ".x", ".shards_a"]), texts)
scalars = st.one_of(
    texts,
    stamps,
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([[], {}, [[]], "current", "null"]),
)
good_row = {"name": "o", "created_at": stamp(5), "size": 5, "content_type": "a/b", "etag": "e"}
rows = st.one_of(
    scalars, st.dictionaries(st.sampled_from(ROW_KEYS), scalars).map(lambda odd: good_row | odd)
)
bodies = st.one_of(
    st.lists(rows, max_size=4).map(lambda found: json.dumps(found).encode()),
    st.sampled_from(
        [b"", b"[", b"[" * 100_000, b'{"a":1}', b"\xff", b"[1e999]", b"[" + b"9" * 5000]
    ),
)
header_values = st.one_of(
    stamps, texts, st.sampled_from(["true", "yes", "shard", "json", "*/*;q=2", "text/xml"])
)


def on_wire(text: str) -> str:
    """As a WSGI server hands a text on: one character for each byte."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    segments = [draw(st.sampled_from(DEVICES)), draw(st.sampled_from(PARTITIONS))]
    segments += draw(st.lists(names, max_size=4))
    query = draw(st.lists(st.tuples(st.sampled_from(PARAMETERS), texts), max_size=4))
    headers = draw(st.dictionaries(st.sampled_from(HEADERS), header_values, max_size=6))
    return {
        "method": draw(st.sampled_from(METHODS)),
        "path": "/" + "/".join(segments),
        "query": "&".join(f"{name}={value}" for name, value in query),
        "headers": {"X-Timestamp": stamp(5)} | headers,
        "body": draw(bodies),
    }


class Watched:
    """A server whose every answer is looked at, and the files around it."""

    def __init__(self, kind: type[AccountServer] | type[ContainerServer], directory: Path) -> None:
        self.directory = write_cluster(directory)
        conf = {"swift_dir": str(directory), "devices": str(directory / "devices")}
        self.server = kind.from_conf({**conf, "mount_check": "false"}, {"conn_timeout": "0.01"})
        self.is_account = kind is AccountServer
        path = "/d1/0/AUTH_test" if self.is_account else "/d1/0/AUTH_test/c"
        self.known = {"method": "PUT", "path": path, "headers": {"X-Timestamp": stamp(1)}}
        assert self.send(**self.known) == 201
        self.outside = self.files_outside()

    def files_outside(self) -> set[str]:
        """All files but those below the device that there is."""
        found = set()
        for folder, folders, files in os.walk(self.directory):
            if folder == str(self.directory / "devices"):
                folders.remove("d1")
            found |= {os.path.join(folder, name) for name in folders + files}
        return found

    def send(
        self, method: str, path: str, query: str = "", headers: Any = None, body: bytes = b""
    ) -> int:
        environ = Request.blank("/", method, {}, body).environ
        environ["PATH_INFO"] = on_wire(path)
        environ["QUERY_STRING"] = on_wire(query)
        for name, value in (headers or {}).items():
            environ[environ_key(name)] = on_wire(value)
        status, sent, chunks = call_app(self.server, environ)
        b"".join(chunks)
        encode_headers(dict(sent))
        return int(status.split()[0])


@pytest.fixture(scope="module", params=[AccountServer, ContainerServer])
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    made = Watched(request.param, tmp_path_factory.mktemp("hostile"))
    yield made
    made.server.pool.close()


@settings(
    max_examples=int(os.environ.get("MARTLET_HOSTILE_REQUESTS", "300")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(hostile=requests())
def test_every_request_gets_an_answer(
    watched: Watched, caplog: pytest.LogCaptureFixture, hostile: dict[str, Any]
) -> None:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        status = watched.send(**hostile)
    is_absent = hostile["path"].startswith(("/d3/", "/D1/"))  # devices of another day
    assert 200 <= status < 500 or (status == 507 and is_absent), (status, hostile)
    assert [r.message for r in caplog.records if r.exc_info] == [], hostile
    assert watched.files_outside() == watched.outside, hostile
