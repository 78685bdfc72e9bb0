"""The condition of completions: one version of an upload, and no completion that cannot end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from martlet.http.environ import MADE_BY_QUORUM, MADE_OF, SENT_BEFORE, Environ
from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.headers import IF_TIMESTAMP
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.s3 import one_version, uploads
from proxy.s3.object_headers import ETAG
from proxy.s3.one_version import OneVersion, Repeated
from proxy.s3.uploads import Upload
from proxy.s3.wire.errors import S3Error

CURRENT, OWN = "1795223541.91251", "1795223550.00000"
_IF_TIMESTAMP, _IF_NONE = "HTTP_X_BACKEND_IF_TIMESTAMP", "HTTP_IF_NONE_MATCH"


class Storage:
    """The answers to the questions about an object, in place of a call and its pipeline."""

    bucket, key = "b", "k"

    def __init__(self) -> None:
        self.current = CURRENT  # empty: there is none
        self.made = ""  # the time of the version of the upload
        self.fault = 0
        self.has_versions = True
        self.is_suspended = False
        self.version: str | None = None  # its id, if it is not that time
        self.few: list[str] = []  # for each question, why the version is not to be acknowledged
        self.asked: list[str] = []
        self.clock: Any = None

    def is_versioned(self, bucket: str) -> bool:
        assert bucket == "b"
        return self.has_versions

    def is_enabled(self, bucket: str) -> bool:
        return self.is_versioned(bucket) and not self.is_suspended

    def request(self, method: str, bucket: str, key: str, **_: Any) -> Environ:
        return {"REQUEST_METHOD": method, "PATH_INFO": f"/v1/a/{bucket}/{key}"}

    def send(self, environ: Environ) -> tuple[int, Headers, list[bytes]]:
        assert MADE_OF in environ
        assert environ[MADE_BY_QUORUM]
        self.asked.append("made")
        if self.fault:
            return self.fault, Headers(), []
        if not self.made:
            return 404, Headers(), []
        found = Headers({"X-Backend-Data-Timestamp": self.made, ETAG: "e", UPLOAD_ID: "ID"})
        found["X-Backend-Version-Id"] = self.made if self.version is None else self.version
        few = self.few.pop(0) if self.few else ""
        if few:
            found["X-Backend-Made-By-Few"] = few
        return 200, found, []

    def app(self, environ: Environ, start_response: Any) -> Any:
        self.asked.append("current")
        if self.fault:
            return Response(self.fault)(environ, start_response)
        if not self.current:
            return Response(404)(environ, start_response)
        found = {"X-Backend-Data-Timestamp": self.current}
        return Response(200, found)(environ, start_response)

    def refusal(self, *_: Any) -> S3Error:
        return S3Error("ServiceUnavailable")


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage; the pauses between questions take no time."""
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: passed[0])
    monkeypatch.setattr(uploads, "time", clock)
    monkeypatch.setattr(one_version, "time", clock)
    monkeypatch.setattr(one_version._outage, "until", 0.0)
    found = Storage()
    found.clock = clock
    return found


def one_of(storage: Storage, **headers: str) -> OneVersion:
    upload = Upload("b", "k", "ID", Headers())
    stated = {name.replace("_", "-"): value for name, value in headers.items()}
    return OneVersion(storage, upload, {ETAG: "e", **stated})  # type: ignore[arg-type]


def prepared(one: OneVersion) -> Environ:
    environ: Environ = {}
    one.prepare(environ)
    return environ


def test_the_write_depends_on_what_was_current_before_the_question(storage: Storage) -> None:
    """A version that is made between the two is found, one that is made later refuses it."""
    assert prepared(one_of(storage)) == {_IF_TIMESTAMP: CURRENT}
    assert storage.asked == ["current", "made"]
    assert IF_TIMESTAMP.lower() == "x-backend-if-timestamp"
    storage.current = ""
    assert prepared(one_of(storage)) == {_IF_NONE: "*"}


def test_where_there_are_no_versions_nothing_is_asked(storage: Storage) -> None:
    storage.has_versions = False
    one = one_of(storage)
    environ = prepared(one)
    assert (environ, storage.asked) == ({}, [])
    assert not one.shall_repeat(environ, 412)


@pytest.mark.parametrize("status", [202, 409, 412])
def test_a_write_that_lost_finds_the_version(storage: Storage, status: int) -> None:
    one = one_of(storage)
    environ = prepared(one)
    assert one.shall_repeat(environ, status)
    storage.made = OWN
    with pytest.raises(Repeated) as repeated:
        prepared(one)
    assert repeated.value.made.is_completed
    assert repeated.value.made.headers[ETAG] == "e"


@pytest.mark.parametrize("status", [201, 400, 403, 404, 422, 500])
def test_other_answers_are_final(storage: Storage, status: int) -> None:
    one = one_of(storage)
    assert not one.shall_repeat(prepared(one), status)


def refused(one: OneVersion, status: int = 503) -> Environ:
    """The condition of a write that is answered so, and that is to be repeated."""
    environ = prepared(one)
    sent = {**environ, "HTTP_X_TIMESTAMP": environ.get("HTTP_X_TIMESTAMP", OWN)}
    assert one.shall_repeat(sent, status)
    return environ


def test_a_first_replica_that_is_back_soon(storage: Storage) -> None:
    """The write is sent again at its time: it may be there although no answer came."""
    one = one_of(storage)
    refused(one)
    assert 0 < storage.clock.monotonic() < 1
    again = {_IF_TIMESTAMP: CURRENT, "HTTP_X_TIMESTAMP": OWN, SENT_BEFORE: True}
    assert refused(one, 412) == again
    assert prepared(one) == {_IF_TIMESTAMP: CURRENT}, "it was not there"


def test_without_the_first_replica_there_is_no_condition(storage: Storage) -> None:
    """After at most two seconds; then other writes do not wait for some seconds."""
    one = one_of(storage)
    assert all(_IF_TIMESTAMP in refused(one) for _ in range(3))
    assert storage.clock.monotonic() == 2.0
    environ = prepared(one)
    assert environ == {"HTTP_X_TIMESTAMP": OWN, SENT_BEFORE: True}
    for status in (503, 412):
        assert not one.shall_repeat(environ, status)
    other = one_of(storage)
    refused(other)
    assert _IF_TIMESTAMP not in prepared(other)
    assert storage.clock.monotonic() == 2.0
    storage.clock.sleep(20)
    later = one_of(storage)
    refused(later)
    assert _IF_TIMESTAMP in prepared(later)


def test_a_first_replica_that_hangs_is_not_awaited_for_long(storage: Storage) -> None:
    """Each try takes some seconds then."""
    one = one_of(storage)
    refused(one)
    storage.clock.sleep(5)
    assert _IF_TIMESTAMP in refused(one)
    assert storage.clock.monotonic() == 5.5
    assert _IF_TIMESTAMP not in prepared(one)


def test_a_key_that_others_write_all_the_time(storage: Storage) -> None:
    one = one_of(storage)
    for _ in range(one_version._CONDITIONAL_TRIES):
        environ = prepared(one)
        assert _IF_TIMESTAMP in environ
        assert one.shall_repeat(environ, 412)
    assert prepared(one) == {}


def test_an_own_version_at_too_few_replicas_is_written_again(storage: Storage) -> None:
    """At the same time, so that it stays one version; unless another request has made one."""
    one = one_of(storage)
    environ = prepared(one)
    environ["HTTP_X_TIMESTAMP"] = OWN
    assert one.shall_repeat(environ, 503)
    storage.made = OWN
    assert prepared(one) == {"HTTP_X_TIMESTAMP": OWN, SENT_BEFORE: True}
    storage.made = "1795223560.00000"
    with pytest.raises(Repeated):
        prepared(one)


def test_the_client_s_condition_is_the_only_one(storage: Storage) -> None:
    one = one_of(storage, if_none_match="*")
    environ = prepared(one)
    assert (environ, storage.asked) == ({}, ["made"])
    assert not one.shall_repeat(environ, 412)
    storage.made = OWN
    with pytest.raises(Repeated):
        one.shall_repeat(environ, 412)
    assert not one.shall_repeat(environ, 201)


def test_servers_that_do_not_answer_refuse_nothing(storage: Storage) -> None:
    storage.fault = 503
    one = one_of(storage)
    environ = prepared(one)
    assert environ == {}
    assert not one.shall_repeat(environ, 503)


def made_by(storage: Storage, *few: str) -> None:
    """A version is there, which these answers do not let acknowledge."""
    storage.made = OWN
    storage.few = list(few)


def test_a_version_at_too_few_replicas_is_written_again(storage: Storage) -> None:
    """At its time, without a condition. If that fails, the client tries again."""
    made_by(storage, *["true"] * 9)
    one = one_of(storage)
    environ = prepared(one)
    assert environ == {"HTTP_X_TIMESTAMP": OWN, SENT_BEFORE: True}
    assert storage.asked.count("made") > 1
    for status in (202, 409, 503):
        assert not one.shall_repeat(environ, status)


def test_a_version_on_its_way_is_not_written_again(storage: Storage) -> None:
    made_by(storage, "true")
    with pytest.raises(Repeated):
        prepared(one_of(storage))
    assert storage.asked == ["current", "made", "made"]


@pytest.mark.parametrize("stated", [{"if_none_match": "*"}, {"X_Backend_Lock_Mode": "GOVERNANCE"}])
def test_a_version_that_cannot_be_written_again(storage: Storage, stated: dict[str, str]) -> None:
    """With another lock it might come back after its removal; a condition would not hold."""
    made_by(storage, *["true"] * 99)
    with pytest.raises(S3Error, match="Too few") as error:
        prepared(one_of(storage, **stated))
    assert (error.value.code, error.value.status) == ("ServiceUnavailable", 503)
    made_by(storage, "true", "true", "true")
    with pytest.raises(Repeated):
        prepared(one_of(storage, **stated))


@pytest.mark.parametrize(
    ("version", "is_suspended"), [("null", False), (CURRENT, False), (None, True)]
)
def test_a_write_that_would_make_another_version(
    storage: Storage, version: str | None, is_suspended: bool
) -> None:
    """Versioning was enabled or suspended since, or the version was made current again."""
    made_by(storage, *["true"] * 99)
    storage.version, storage.is_suspended = version, is_suspended
    with pytest.raises(S3Error, match="Too few"):
        prepared(one_of(storage))


def test_the_null_version_is_written_again_where_versioning_is_suspended(storage: Storage) -> None:
    made_by(storage, *["true"] * 99)
    storage.version, storage.is_suspended = "null", True
    assert prepared(one_of(storage)) == {"HTTP_X_TIMESTAMP": OWN, SENT_BEFORE: True}


def test_a_version_that_may_have_been_removed_is_not_written_again(storage: Storage) -> None:
    made_by(storage, *["unknown"] * 99)
    with pytest.raises(S3Error, match="Too few"):
        prepared(one_of(storage))
    made_by(storage, "unknown", "true", *["unknown"] * 99)
    with pytest.raises(S3Error, match="Too few"):
        prepared(one_of(storage))


def test_another_version_that_a_refusal_shows_is_acknowledged_by_a_quorum(
    storage: Storage,
) -> None:
    one = one_of(storage, if_none_match="*")
    environ = prepared(one)
    made_by(storage, *["true"] * 99)
    with pytest.raises(S3Error, match="Too few"):
        one.shall_repeat(environ, 412)
