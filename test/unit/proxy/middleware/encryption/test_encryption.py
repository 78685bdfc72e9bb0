"""Stored data is encrypted, reads are decrypted, and unreadable data gives an error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, MutableMapping
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from swift_encryption import SECRETS, our_filters

from martlet.conf.constraints import Constraints
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse
from martlet.http.request import Request
from proxy.middleware.encryption.encryption import Encryption, EncryptionOptions
from proxy.middleware.encryption.keymaster import Keymaster

SMALL = b"plaintext " * 400
LARGE = b"plaintext " * 50_000
BODIES = pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
LISTED = "x-object-sysmeta-container-update-override-etag"
OBJECT = "/v1/a/c/o"


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


def filtered(cluster: FakeCluster, **options: Any) -> FakeCluster:
    return FakeCluster(cluster.devices, our_filters(cluster.app, **options))  # type: ignore[arg-type]


@pytest.fixture
def encrypting(cluster: FakeCluster) -> FakeCluster:
    """`cluster` with our filters."""
    return filtered(cluster)


@BODIES
def test_nothing_stored_tells_of_the_content(encrypting: FakeCluster, body: bytes) -> None:
    headers = {"X-Object-Meta-Secret": "plaintext", "Etag": md5(body)}
    reply = encrypting.call("PUT", OBJECT, body, headers)
    assert (reply.status, reply.headers["etag"]) == (201, md5(body))
    for device in encrypting.devices[:3]:
        stored = device.stored["/a/c/o"]
        assert len(stored.body) == len(body)
        for told in (stored.body.decode("latin-1"), str(stored.headers), str(device.last("PUT"))):
            assert "plaintext" not in told
            assert md5(body) not in told
    reply = encrypting.call("GET", OBJECT)
    assert (reply.body, reply.headers["etag"]) == (body, md5(body))
    assert reply.headers["x-object-meta-secret"] == "plaintext"


def test_the_same_object_is_never_encrypted_in_the_same_way(encrypting: FakeCluster) -> None:
    bodies = set()
    for _ in range(3):
        assert encrypting.call("PUT", OBJECT, SMALL).status == 201
        bodies.add(encrypting.devices[0].stored["/a/c/o"].body)
    assert len(bodies) == 3


@BODIES
def test_a_wrong_etag_is_422_and_nothing_is_stored(encrypting: FakeCluster, body: bytes) -> None:
    assert encrypting.call("PUT", OBJECT, body, {"Etag": md5(b"other")}).status == 422
    assert encrypting.call("PUT", OBJECT, b"", {"Etag": md5(b"other")}).status == 422
    assert encrypting.holders("/a/c/o") == []
    assert encrypting.call("PUT", OBJECT, body, {"Etag": f'"{md5(body)}"'}).status == 201


def test_an_empty_body_is_stored_as_it_is_but_its_metadata_is_not(encrypting: FakeCluster) -> None:
    reply = encrypting.call("PUT", OBJECT, b"", {"X-Object-Meta-A": "plaintext"})
    assert (reply.status, reply.headers["etag"]) == (201, md5(b""))
    stored = encrypting.devices[0].stored["/a/c/o"].headers
    assert not [name for name in stored if name.startswith("x-object-sysmeta-")]
    assert "plaintext" not in str(stored)
    reply = encrypting.call("GET", OBJECT)
    assert (reply.body, reply.headers["x-object-meta-a"]) == (b"", "plaintext")


@BODIES
def test_the_etag_for_the_listing_may_be_another_filters(
    encrypting: FakeCluster, body: bytes
) -> None:
    shown = "0123456789; slo_etag=xyz"
    assert encrypting.call("PUT", OBJECT, body, {LISTED: shown}).status == 201
    assert "0123456789" not in str(encrypting.devices[0].last("PUT"))
    assert encrypting.call("GET", OBJECT).headers[LISTED] == shown
    assert json.loads(encrypting.call("GET", "/v1/a/c").body)[0]["hash"] == shown


def test_footers_of_a_filter_on_the_left(encrypting: FakeCluster) -> None:
    def add(footers: MutableMapping[str, str]) -> None:
        footers["Etag"] = md5(SMALL)
        footers["X-Object-Sysmeta-Late"] = "yes"
        footers[LISTED] = "from the footers"

    callback: Any = {"swift.callback.update_footers": add}
    assert encrypting.call("PUT", OBJECT, SMALL, {LISTED: "header"}, **callback).status == 201
    assert encrypting.devices[0].last("PUT").headers["x-object-sysmeta-late"] == "yes"
    listing = json.loads(encrypting.call("GET", "/v1/a/c").body)
    assert listing[0]["hash"] == "from the footers"
    assert encrypting.call("PUT", OBJECT, LARGE, **callback).status == 422


def test_an_override_of_an_object_without_a_body(encrypting: FakeCluster) -> None:
    """For example a symlink. The ETag of an empty body is public, any other may be secret."""
    encrypting.call("PUT", OBJECT, b"", {LISTED: md5(b"")})
    assert encrypting.devices[0].stored["/a/c/o"].headers[LISTED] == md5(b"")
    encrypting.call("PUT", OBJECT, b"", {LISTED: "target"})
    assert "target" not in encrypting.devices[0].stored["/a/c/o"].headers[LISTED]
    assert encrypting.call("HEAD", OBJECT).headers[LISTED] == "target"
    assert json.loads(encrypting.call("GET", "/v1/a/c").body)[0]["hash"] == "target"


def test_post_encrypts_metadata(encrypting: FakeCluster) -> None:
    encrypting.call("PUT", OBJECT, SMALL)
    assert encrypting.call("POST", OBJECT, headers={"X-Object-Meta-A": "plaintext"}).status == 202
    sent = encrypting.devices[0].last("POST").headers
    assert "plaintext" not in str(sent)
    assert "x-object-transient-sysmeta-crypto-meta-a" in sent


def test_metadata_is_held_to_the_limits_before_it_grows(encrypting: FakeCluster) -> None:
    assert encrypting.call("PUT", OBJECT, SMALL, {"X-Object-Meta-A": "x" * 256}).status == 201
    for headers in (
        {"X-Object-Meta-A": "x" * 257},
        {"X-Object-Meta-" + "A" * 129: "x"},
        {f"X-Object-Meta-{number}": "x" for number in range(91)},
    ):
        assert encrypting.call("PUT", OBJECT, SMALL, headers).status == 400
        assert encrypting.call("POST", OBJECT, headers=headers).status == 400


def test_disabled_encryption_still_decrypts(cluster: FakeCluster, encrypting: FakeCluster) -> None:
    encrypting.call("PUT", OBJECT, SMALL)
    disabled = filtered(cluster, disable_encryption=True)
    assert disabled.call("GET", OBJECT).body == SMALL
    assert disabled.call("PUT", "/v1/a/c/plain", SMALL, {"X-Object-Meta-A": "b"}).status == 201
    assert cluster.devices[0].stored["/a/c/plain"].body == SMALL
    for reader in (encrypting, disabled):
        reply = reader.call("GET", "/v1/a/c/plain")
        assert (reply.body, reply.headers["x-object-meta-a"]) == (SMALL, "b")


def test_a_filter_may_ask_for_what_is_stored(encrypting: FakeCluster) -> None:
    encrypting.call("PUT", OBJECT, SMALL)
    override: Any = {"swift.crypto.override": True}
    stored = encrypting.devices[0].stored["/a/c/o"].body
    assert encrypting.call("GET", OBJECT, **override).body == stored
    assert encrypting.call("PUT", OBJECT, b"as it is", **override).status == 201
    assert encrypting.devices[0].stored["/a/c/o"].body == b"as it is"


def test_without_a_keymaster(
    cluster: FakeCluster, encrypting: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    encrypting.call("PUT", OBJECT, SMALL)
    cluster.call("PUT", "/v1/a/c/plain", SMALL)
    app = Encryption(cluster.app, EncryptionOptions(), Constraints())
    alone = FakeCluster(cluster.devices, app)  # type: ignore[arg-type]
    assert alone.call("GET", OBJECT).status == 500
    assert "no keymaster" in caplog.text
    assert alone.call("PUT", "/v1/a/c/other", SMALL).status == 500
    assert alone.call("GET", "/v1/a/c/plain").body == SMALL


def test_secrets_are_changed_while_objects_are_there(
    cluster: FakeCluster, encrypting: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    encrypting.call("PUT", OBJECT, SMALL, {"X-Object-Meta-A": "old"})
    rotated = filtered(cluster, secret_id="2026")
    rotated.call("PUT", "/v1/a/c/new", SMALL, {"X-Object-Meta-A": "new"})
    for name, value in (("o", "old"), ("new", "new")):
        reply = rotated.call("GET", f"/v1/a/c/{name}")
        assert (reply.body, reply.headers["x-object-meta-a"]) == (SMALL, value)
    hashes = [e["hash"] for e in json.loads(rotated.call("GET", "/v1/a/c").body)]
    assert hashes == [md5(SMALL)] * 2
    forgetful = filtered(
        cluster,
        secret_id="2026",
        secrets={k: v for k, v in SECRETS.items() if k.endswith("_2026")},
    )
    assert forgetful.call("GET", OBJECT).status == 500
    assert forgetful.call("HEAD", OBJECT).status == 500
    assert forgetful.call("GET", "/v1/a/c/new").body == SMALL
    hashes = [e["hash"] for e in json.loads(forgetful.call("GET", "/v1/a/c").body)]
    assert hashes == [md5(SMALL), "<unknown>"]
    assert caplog.text.count("event=listing_not_decrypted") == 1


@pytest.mark.parametrize(
    "name", ["x-object-sysmeta-crypto-body-meta", "x-object-sysmeta-crypto-etag"]
)
def test_damaged_crypto_metadata_is_500(encrypting: FakeCluster, name: str) -> None:
    encrypting.call("PUT", OBJECT, SMALL)
    for device in encrypting.devices[:3]:
        device.stored["/a/c/o"].headers[name] = "%7Bdamaged; swift_meta=%7Bdamaged"
    assert encrypting.call("GET", OBJECT).status == 500
    assert encrypting.call("HEAD", OBJECT).status == 500


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_conditions_are_sent_as_they_are_and_as_macs_of_every_secret(
    encrypting: FakeCluster, header: str
) -> None:
    encrypting.call("PUT", OBJECT, SMALL)
    mac = encrypting.devices[0].last("PUT").headers["x-object-sysmeta-crypto-etag-mac"]
    encrypting.forget()
    given = {header: f'"{md5(SMALL)}", *, "b"', "X-Backend-Etag-Is-At": "X-Object-Sysmeta-S"}
    request = Request.blank(OBJECT, headers=given)
    _, _, body = call_app(encrypting.app, request.environ)
    b"".join(body)
    assert {name: request.headers[name] for name in given} == given, "as the client sent them"
    sent = next(s.headers for d in encrypting.devices for s in d.seen if s.method == "GET")
    assert sent["x-backend-etag-is-at"] == "X-Object-Sysmeta-S,X-Object-Sysmeta-Crypto-Etag-Mac"
    etags = [etag.strip('" ') for etag in sent[header.lower()].split(",")]
    assert (etags[:2], etags[3], len(etags)) == ([md5(SMALL), mac], "*", 7)


def test_a_condition_on_any_etag_stays(encrypting: FakeCluster) -> None:
    encrypting.call("GET", OBJECT, headers={"If-Match": "*"})
    sent = next(s.headers for d in encrypting.devices for s in d.seen if s.method == "GET")
    assert sent["if-match"] == "*"
    assert "x-backend-etag-is-at" not in sent


def test_scripts_of_other_origins_are_told_of_the_metadata(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c", headers={"X-Container-Meta-Access-Control-Allow-Origin": "*"})
    encrypting = filtered(cluster)
    encrypting.call("PUT", OBJECT, SMALL, {"X-Object-Meta-A": "b"})
    reply = encrypting.call("GET", OBJECT, headers={"Origin": "http://elsewhere"})
    assert "x-object-meta-a" in reply.headers["access-control-expose-headers"].split(", ")


@pytest.mark.parametrize("path", ["/v1/a", "/v1/a/c", "/v1/a/c/", "/info", "/v1/a/c/%FF"])
def test_other_requests_go_on(make_cluster: MakeCluster, path: str) -> None:
    plain = make_cluster()
    plain.make_container()
    encrypting = filtered(plain)
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        wanted, found = plain.call(method, path), encrypting.call(method, path)
        assert (wanted.status, wanted.body) == (found.status, found.body)


def test_the_body_below_is_closed_when_a_client_leaves() -> None:
    closed = []

    class Chunks:
        def __iter__(self) -> Any:
            return iter([b"ciphertext"])

        def close(self) -> None:
            closed.append(True)

    headers: HeaderList = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "PUT":
            environ["wsgi.input"].read()
            footers: dict[str, str] = {}
            environ["swift.callback.update_footers"](footers)
            headers.extend(footers.items())
            start_response("201 Created", [])
            return []
        start_response("200 OK", headers)
        return Chunks()

    filters = our_filters(app)
    list(filters(Request.blank(OBJECT, "PUT", body=b"x").environ, lambda s, h: None))
    _, _, body = call_app(filters, Request.blank(OBJECT).environ)
    body.close()  # type: ignore[attr-defined]
    broken = Keymaster(
        Encryption(app, EncryptionOptions(), Constraints()), {None: b"k" * 32}, None, "2"
    )
    headers[:] = [(name, value.replace("AES", "DES")) for name, value in headers]
    status, _, _ = call_app(broken, Request.blank(OBJECT).environ)
    assert (status[:3], closed) == ("500", [True, True])
