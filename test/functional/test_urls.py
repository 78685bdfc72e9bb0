"""Temporary URLs, forms and web sites, through real processes."""

from __future__ import annotations

import hmac
import time
from urllib.parse import quote

import pytest
from running_cluster import RunningCluster
from swift_api import Account, Answer, RawConnection
from swiftclient.utils import generate_temp_url


def anonymous(
    cluster: RunningCluster, method: str, path: str, headers: str = "", body: bytes = b""
) -> Answer:
    """Send a request without a token."""
    with RawConnection(cluster.port) as connection:
        head = f"{method} {path} HTTP/1.1\r\nHost: martlet\r\nContent-Length: {len(body)}\r\n"
        connection.send(f"{head}{headers}\r\n".encode() + body)
        return connection.answer(method)


def keyed(account: Account, container: str, **meta: str) -> str:
    """Create a container with its own key, and metadata; ``_`` in a name stands for ``-``."""
    headers = {f"X-Container-Meta-{name.replace('_', '-')}": v for name, v in meta.items()}
    headers["X-Container-Meta-Temp-URL-Key"] = "secret"
    headers.setdefault("X-Container-Read", headers.pop("X-Container-Meta-read", ""))
    assert account.call("PUT", container, headers=headers).status == 201
    return account.url(container)


def test_a_temporary_url_of_swiftclient_uploads_and_downloads(
    cluster: RunningCluster, account: Account
) -> None:
    path = f"{keyed(account, 'lent')}/über"
    for method, body in (("PUT", b"content"), ("GET", b""), ("HEAD", b"")):
        url = generate_temp_url(path, 60, "secret", method, digest="sha256")
        target, _, query = url.partition("?")
        answer = anonymous(cluster, method, f"{quote(target)}?{query}", body=body)
        assert answer.status == (201 if method == "PUT" else 200), (method, answer)
        if method == "GET":
            assert answer.body == b"content"
            assert answer.headers["content-disposition"].startswith("attachment; filename=")
        wrong = query.replace("temp_url_expires=", "temp_url_expires=1")
        assert anonymous(cluster, method, f"{quote(target)}?{wrong}", body=body).status == 401


def test_a_prefix_opens_one_container(cluster: RunningCluster, account: Account) -> None:
    for name in ("one", "two"):
        keyed(account, name)
        assert account.call("PUT", name, "o", body=b"x").status == 201
    url = generate_temp_url(
        f"{account.url('one')}/o", 60, "secret", "GET", prefix=True, digest="sha512"
    )
    query = url.partition("?")[2]
    assert anonymous(cluster, "GET", f"{account.url('one', 'o')}?{query}").body == b"x"
    assert anonymous(cluster, "GET", f"{account.url('two', 'o')}?{query}").status == 401


def form_of(path: str, content: bytes, size_max: int) -> bytes:
    """Return a signed form with one file."""
    expires = int(time.time()) + 60
    message = f"{path}\n\n{size_max}\n1\n{expires}"
    signature = hmac.new(b"secret", message.encode(), "sha512").hexdigest()
    fields = {
        "max_file_size": size_max,
        "max_file_count": 1,
        "expires": expires,
        "signature": signature,
    }
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    disposition = 'form-data; name="f"; filename="a file.txt"'
    head = f"--b\r\nContent-Disposition: {disposition}\r\nContent-Type: text/plain\r\n\r\n"
    return b"".join([*parts, head.encode(), content, b"\r\n--b--\r\n"])


@pytest.mark.parametrize(("size", "status"), [(300_000, 201), (300_001, 400)])
def test_a_form_uploads_up_to_its_limit(
    cluster: RunningCluster, account: Account, size: int, status: int
) -> None:
    path = f"{keyed(account, f'inbox-{size}')}/in-"
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    body = form_of(path, content, 300_000)
    header = "Content-Type: multipart/form-data; boundary=b\r\n"
    answer = anonymous(cluster, "POST", path, header, body)
    assert answer.status == status, answer
    stored = account.call("GET", f"inbox-{size}", "in-a file.txt")
    assert (stored.status, stored.body) == ((200, content) if status == 201 else (404, stored.body))


def test_a_form_that_breaks_off_stores_nothing(cluster: RunningCluster, account: Account) -> None:
    path = f"{keyed(account, 'broken')}/in-"
    body = form_of(path, b"x" * 200_000, 300_000)[:-1000]
    header = "Content-Type: multipart/form-data; boundary=b\r\n"
    assert anonymous(cluster, "POST", path, header, body).status == 400
    assert account.call("GET", "broken").lines == []


def test_a_container_is_a_site(cluster: RunningCluster, account: Account) -> None:
    settings = {"Web_Index": "index.html", "Web_Listings": "true", "Web_Error": "error.html"}
    path = keyed(account, "site", read=".r:*,.rlistings", **settings)
    for name in ("index.html", "404error.html", "pictures/a.png"):
        assert account.call("PUT", "site", name, body=name.encode()).status == 201
    redirect = anonymous(cluster, "GET", path)
    assert (redirect.status, redirect.headers["location"]) == (301, f"http://martlet{path}/")
    assert anonymous(cluster, "GET", f"{path}/").body == b"index.html"
    assert b'<a href="./a%2Epng">a.png</a>' in anonymous(cluster, "GET", f"{path}/pictures/").body
    missing = anonymous(cluster, "GET", f"{path}/none")
    assert (missing.status, missing.body) == (404, b"404error.html")
    assert account.send("GET", path).lines == ["404error.html", "index.html", "pictures/a.png"]


def test_a_private_site_is_shown_to_who_holds_a_temporary_url(
    cluster: RunningCluster, account: Account
) -> None:
    path = keyed(account, "shown", Web_Listings="true")
    assert account.call("PUT", "shown", "p/q/o", body=b"x").status == 201
    assert anonymous(cluster, "GET", f"{path}/p/").status == 401
    url = generate_temp_url(f"{path}/p/", 60, "secret", "GET", prefix=True, digest="sha256")
    page = anonymous(cluster, "GET", url)
    assert page.status == 200, page
    assert b"./q/?temp_url_prefix=p/&amp;temp_url_expires=" in page.body
    assert anonymous(cluster, "GET", url.replace("/p/?", "/?")).status == 401
