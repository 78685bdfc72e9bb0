"""Encryption at rest with real servers: disks hold no plain data, clients get plain data."""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64encode
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from disk_search import content, on_disk
from other_proxy import OtherProxy
from running_cluster import RunningCluster, await_true
from swift_api import Account
from usage import await_usage

PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats tempauth copy "
    "slo dlo versioned_writes symlink keymaster encryption proxy-logging proxy-server"
)
MIB = 1024 * 1024
OLD, NEW = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))
SIZES = [1, 4096, 65537, 3 * MIB + 17]


def sections(**keymaster: str) -> dict[str, dict[str, str]]:
    return {
        "filter:keymaster": {"use": "egg:martlet#keymaster", **keymaster},
        "filter:encryption": {"use": "egg:martlet#encryption"},
    }


@pytest.fixture(scope="module")
def proxy(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtherProxy]:
    """A proxy that encrypts, unlike the cluster's own."""
    directory = tmp_path_factory.mktemp("encrypting")
    options = sections(encryption_root_secret=OLD)
    with OtherProxy(cluster, directory, PIPELINE, options) as running:
        yield running


@pytest.fixture
def user(proxy: OtherProxy) -> Iterator[Account]:
    opened = Account(proxy.port)
    yield opened
    opened.close()


@pytest.fixture
def box(user: Account, request: pytest.FixtureRequest) -> str:
    name = f"encrypted-{md5(request.node.name.encode()).hexdigest()[:8]}"
    assert user.call("PUT", name).status == 201
    return name


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("size", SIZES[1:])
def test_nothing_in_the_clear_is_on_a_disk(
    cluster: RunningCluster, account: Account, user: Account, box: str, size: int, chunked: bool
) -> None:
    body, word = content(size)
    secret = secrets.token_hex(16)
    headers = {"X-Object-Meta-Secret": secret}
    etag = md5(body).hexdigest()
    sent = iter([body]) if chunked else body
    put = user.call("PUT", box, "o", headers=headers, body=sent)
    assert (put.status, put.headers["etag"]) == (201, etag)
    for needle in (word, secret.encode(), etag.encode(), bytes.fromhex(etag)):
        assert on_disk(cluster, needle) == []
    got = user.call("GET", box, "o")
    assert (got.status, got.body, got.headers["etag"]) == (200, body, etag)
    assert got.headers["x-object-meta-secret"] == secret
    assert [name for name in got.headers if "crypto" in name] == []
    assert account.call("GET", box, "o").body != body, "the other proxy has no keys"
    # The search does find plain data.
    assert account.call("PUT", box, "plain", headers=headers, body=body).status == 201
    assert on_disk(cluster, word) != []
    assert on_disk(cluster, secret.encode()) != []


@pytest.mark.parametrize("size", SIZES)
def test_ranges(user: Account, box: str, size: int) -> None:
    body = os.urandom(size)
    secret = {"X-Object-Meta-Secret": "s"}
    assert user.call("PUT", box, "o", headers=secret, body=body).status == 201
    spans = [(0, 0), (size // 2, size - 1), (min(17, size - 1), min(70_000, size - 1))]
    for first, last in spans:
        got = user.call("GET", box, "o", headers={"Range": f"bytes={first}-{last}"})
        assert (got.status, got.body) == (206, body[first : last + 1])
        assert got.headers["content-range"] == f"bytes {first}-{last}/{size}"
    got = user.call("GET", box, "o", headers={"Range": f"bytes={size}-"})
    assert (got.status, got.headers["etag"].strip('"')) == (416, md5(body).hexdigest())
    assert got.headers["x-object-meta-secret"] == "s"
    if size == 1:
        return  # it has no two ranges
    asked = ",".join(f"{first}-{last}" for first, last in spans)
    got = user.call("GET", box, "o", headers={"Range": f"bytes={asked}"})
    assert got.status == 206
    assert len(got.body) == int(got.headers["content-length"])
    boundary = got.headers["content-type"].partition("boundary=")[2].encode()
    parts = [part.partition(b"\r\n\r\n")[2][:-2] for part in got.body.split(b"--" + boundary)[1:-1]]
    assert parts == [body[first : last + 1] for first, last in spans]


def test_conditions_speak_of_the_clients_etag(user: Account, account: Account, box: str) -> None:
    assert user.call("PUT", box, "o", body=b"body").status == 201
    assert account.call("PUT", box, "plain", body=b"body").status == 201
    right, wrong = md5(b"body").hexdigest(), md5(b"other").hexdigest()
    for name in ("o", "plain"):
        for method in ("GET", "HEAD"):
            for headers, status in (
                ({"If-Match": f'"{right}"'}, 200),
                ({"If-Match": f'"{wrong}", {right}'}, 200),
                ({"If-Match": wrong}, 412),
                ({"If-Match": "*"}, 200),
                ({"If-None-Match": right}, 304),
                ({"If-None-Match": "*"}, 304),
                ({"If-None-Match": wrong}, 200),
            ):
                answer = user.call(method, box, name, headers=headers)
                assert answer.status == status, (name, method, headers)
                if status != 412:
                    assert answer.headers["etag"].strip('"') == right
    assert user.call("PUT", box, "o", headers={"If-None-Match": "*"}, body=b"new").status == 412
    assert user.call("PUT", box, "n", headers={"If-None-Match": "*"}, body=b"new").status == 201
    assert user.call("GET", box, "n").body == b"new"


def test_wrong_etag_and_empty_objects(user: Account, box: str) -> None:
    wrong = {"Etag": md5(b"other").hexdigest()}
    for body in (b"", b"small", b"large" * MIB):
        assert user.call("PUT", box, "o", headers=wrong, body=body).status == 422
        assert user.call("GET", box, "o").status == 404
    assert user.call("PUT", box, "empty", headers={"X-Object-Meta-A": "b"}).status == 201
    got = user.call("GET", box, "empty")
    assert (got.status, got.body, got.headers["etag"]) == (200, b"", md5(b"").hexdigest())
    assert got.headers["x-object-meta-a"] == "b"


def test_listings_show_the_clients_etags(user: Account, account: Account, box: str) -> None:
    bodies = {f"o{number}": b"%d" % number * 1000 for number in range(20)}
    for name, body in bodies.items():
        assert user.call("PUT", box, name, body=body).status == 201
    wanted = {name: md5(body).hexdigest() for name, body in bodies.items()}
    await_hashes(user, box, wanted)

    def are_in_xml() -> bool:
        tree = ElementTree.fromstring(user.call("GET", box, format="xml").body)
        return {e.findtext("name"): e.findtext("hash") for e in tree} == wanted

    await_true(are_in_xml, "the listing as XML")
    user.await_names(sorted(bodies), box)
    stored = account.call("GET", box, format="json").json
    assert all("swift_meta=" in entry["hash"] for entry in stored)
    assert {e["bytes"] for e in stored} == {1000, 2000}


def await_hashes(user: Account, box: str, wanted: dict[str, str]) -> None:
    """Wait until a container lists these hashes: a busy container server gets its rows late."""

    def are_listed() -> bool:
        rows = user.call("GET", box, format="json").json
        return {row["name"]: row["hash"] for row in rows} == wanted

    await_true(are_listed, f"hashes of {sorted(wanted)}")


def test_copy_and_post(user: Account, box: str) -> None:
    body = os.urandom(200_000)
    user.call("PUT", box, "o", headers={"X-Object-Meta-A": "1"}, body=body)
    destination = {"Destination": f"{box}/copy", "X-Object-Meta-B": "2"}
    assert user.call("COPY", box, "o", headers=destination).status == 201
    assert user.call("POST", box, "o", headers={"X-Object-Meta-C": "gr\xc3\xbcn"}).status == 202
    copy, original = user.call("GET", box, "copy"), user.call("GET", box, "o")
    assert copy.body == original.body == body
    assert (copy.headers["x-object-meta-a"], copy.headers["x-object-meta-b"]) == ("1", "2")
    assert "x-object-meta-a" not in original.headers
    assert original.headers["x-object-meta-c"] == "gr\xc3\xbcn"
    await_hashes(user, box, dict.fromkeys(("o", "copy"), md5(body).hexdigest()))


def test_large_objects(cluster: RunningCluster, user: Account, box: str) -> None:
    parts = {f"part{number}": content(100_000 + number) for number in range(3)}
    for name, (body, _) in parts.items():
        assert user.call("PUT", box, name, body=body).status == 201
    whole = b"".join(body for body, _ in parts.values())
    await_usage(cluster, user, box, (len(parts), len(whole)))
    etags = [md5(body).hexdigest() for body, _ in parts.values()]
    segments = [
        {"path": f"/{box}/{name}", "etag": etag} for name, etag in zip(parts, etags, strict=True)
    ]
    manifest = json.dumps(segments).encode()
    put = user.send("PUT", user.url(box, "slo", **{"multipart-manifest": "put"}), body=manifest)
    assert put.status == 201, put
    slo_etag = md5("".join(etags).encode()).hexdigest()
    dlo = {"X-Object-Manifest": f"{box}/part"}
    assert user.call("PUT", box, "dlo", headers=dlo).status == 201
    for name in ("slo", "dlo"):
        got = user.call("GET", box, name)
        assert (got.body, got.headers["etag"].strip('"')) == (whole, slo_etag)
        got = user.call("GET", box, name, headers={"Range": "bytes=99990-200010"})
        assert (got.status, got.body) == (206, whole[99990:200011])
        same = {"If-None-Match": slo_etag}
        assert user.call("GET", box, name, headers=same).status == 304

    def slo_etags() -> list[str]:
        rows = user.call("GET", box, format="json", prefix="slo").json
        return [row["slo_etag"] for row in rows]

    await_true(lambda: slo_etags() == [f'"{slo_etag}"'], "the ETag in the listing")
    for _, word in parts.values():
        assert on_disk(cluster, word) == []


def test_links_and_versions(user: Account, box: str) -> None:
    assert user.call("POST", box, headers={"X-Versions-Enabled": "true"}).status == 204
    for body in (b"first", b"second"):
        assert user.call("PUT", box, "o", body=body).status == 201
    versions: list[Any] = []
    wanted = [md5(body).hexdigest() for body in (b"second", b"first")]

    def are_listed() -> bool:
        nonlocal versions
        versions = user.call("GET", box, versions="", format="json").json
        return [version["hash"] for version in versions] == wanted

    await_true(are_listed, "both versions")
    for version, body in zip(versions, (b"second", b"first"), strict=True):
        query = {"version-id": version["version_id"]}
        got = user.send("GET", user.url(box, "o", **query))
        assert (got.status, got.body) == (200, body)
        assert got.headers["etag"].strip('"') == md5(body).hexdigest()
    links = f"{box}-links"
    assert user.call("PUT", links).status == 201
    etag = {"X-Symlink-Target": f"{box}/o", "X-Symlink-Target-Etag": md5(b"second").hexdigest()}
    assert user.call("PUT", links, "link", headers=etag).status == 201
    got = user.call("GET", links, "link")
    assert (got.status, got.body) == (200, b"second")
    wrong = etag | {"X-Symlink-Target-Etag": md5(b"first").hexdigest()}
    assert user.call("PUT", links, "link2", headers=wrong).status == 409


def test_a_new_root_secret(
    cluster: RunningCluster, user: Account, box: str, tmp_path: Path
) -> None:
    headers = {"X-Object-Meta-A": "1"}
    assert user.call("PUT", box, "old", headers=headers, body=b"old").status == 201
    conf = tmp_path / "keymaster.conf"
    conf.write_text(
        f"[keymaster]\nencryption_root_secret = {OLD}\nencryption_root_secret_2026 = {NEW}\n"
        "active_root_secret_id = 2026\n"
    )
    options = sections(keymaster_config_path=str(conf))
    with OtherProxy(cluster, tmp_path, PIPELINE, options) as rotated:
        client = Account(rotated.port)
        assert client.call("PUT", box, "new", headers=headers, body=b"new").status == 201
        for name in ("old", "new"):
            etag = {"If-Match": md5(name.encode()).hexdigest()}
            got = client.call("GET", box, name, headers=etag)
            assert (got.status, got.body) == (200, name.encode())
            assert got.headers["x-object-meta-a"] == "1"
        await_hashes(client, box, {n: md5(n.encode()).hexdigest() for n in ("new", "old")})
        client.close()
    # A proxy without the new secret answers with an error, and still serves the rest.
    assert user.call("GET", box, "new").status == 500
    assert user.call("GET", box, "old").body == b"old"
    await_hashes(user, box, {"new": "<unknown>", "old": md5(b"old").hexdigest()})
