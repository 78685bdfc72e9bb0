"""Metadata that are sent after the body, in real object servers and a real listing."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from io import BytesIO

import pytest
from running_cluster import RunningCluster, await_true

from martlet.http.call import call_app
from martlet.http.environ import WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request
from proxy.app import app_factory

SIZES = [0, 4096, 65536, 65537, 3 * 1024 * 1024]


@pytest.fixture(scope="module")
def app(cluster: RunningCluster) -> WSGIApp:
    """The proxy's application without any filter, in front of the cluster's servers."""
    return app_factory({"swift_dir": str(cluster.home / "etc")}, account_autocreate="true")


def call(
    app: WSGIApp, method: str, path: str, body: bytes = b"", **environ: object
) -> tuple[str, Headers, bytes]:
    request = Request.blank(path, method, body=body, environ=environ)
    request.environ["wsgi.input"] = BytesIO(body)
    status, headers, chunks = call_app(app, request.environ)
    return status[:3], Headers(headers), b"".join(chunks)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_footers_are_stored_with_the_object(app: WSGIApp, size: int, chunked: bool) -> None:
    container, body = f"/v1/AUTH_footers/c{size}{chunked}", b"b" * size

    def add_footers(footers: MutableMapping[str, str]) -> None:
        footers["X-Object-Sysmeta-Late"] = "gr\xc3\xbcn"  # WSGI string
        footers["X-Object-Sysmeta-Container-Update-Override-Etag"] = "listed; swift_meta=1"

    assert call(app, "PUT", container)[0] in ("201", "202")
    more: dict[str, object] = {"swift.callback.update_footers": add_footers}
    if chunked:
        more |= {"HTTP_TRANSFER_ENCODING": "chunked"}
    assert call(app, "PUT", f"{container}/o", body, **more)[0] == "201"
    status, headers, stored = call(app, "GET", f"{container}/o")
    assert (status, stored) == ("200", body)
    assert headers["X-Object-Sysmeta-Late"] == "gr\xc3\xbcn"

    def rows() -> list[tuple[str, int, str]]:
        _, _, listing = call(app, "GET", f"{container}?format=json")
        return [(row["name"], row["bytes"], row["hash"]) for row in json.loads(listing)]

    # The PUT waits for a quorum of the rows; any replica answers with its listing.
    await_true(lambda: rows() == [("o", size, "listed; swift_meta=1")], "the listing")


@pytest.mark.parametrize("size", SIZES)
def test_an_object_whose_footers_are_refused_is_not_stored(app: WSGIApp, size: int) -> None:
    def add_wrong_etag(footers: MutableMapping[str, str]) -> None:
        footers["Etag"] = "0" * 32

    assert call(app, "PUT", "/v1/AUTH_footers/refused")[0] in ("201", "202")
    path = f"/v1/AUTH_footers/refused/o{size}"
    more: dict[str, object] = {"swift.callback.update_footers": add_wrong_etag}
    assert call(app, "PUT", path, b"b" * size, **more)[0] == "422"
    assert call(app, "GET", path)[0] == "404"
