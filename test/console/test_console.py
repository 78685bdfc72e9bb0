"""The console in a real browser: what users do, with hostile names, and what goes wrong."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Console
from other_proxy import OtherProxy
from playwright.sync_api import Page, Route, expect
from running_cluster import RunningCluster
from swift_api import Account

from cluster.confs import PIPELINE

NAMES = (
    "plain.txt",
    "ünïcode 日本 🐦",
    "100% #1? a&b=c;d+e",
    "<img src=x onerror=alert(1)>",
    "\"quoted\" 'name' `${x}`",
    " leading and trailing ",
    "a//b",
    "/first",
    "..",
    "a/../b",
    "./x",
    "%2e%2e",
    "back\\slash",
    "last/",
)


def put(
    account: Account, *names: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> None:
    """Make a container, or an object with that body."""
    assert account.call("PUT", *names, headers=headers, body=body).status in (201, 202)


def in_dialog(page: Page, label: str) -> Any:
    return page.get_by_role("dialog").get_by_label(label, exact=True)


def press(page: Page, name: str) -> None:
    """Press a button of the open dialog."""
    page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()


def test_login(console: Console) -> None:
    page = console.page
    page.get_by_label("User").fill("test:tester")
    page.get_by_label("Key").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Wrong user name or key.")
    console.log_in()
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("document.cookie") == ""
    assert "AUTH_tk" in page.evaluate("sessionStorage.getItem('martlet.session')")
    page.reload()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Key")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_session_that_ended(console: Console, account: Account) -> None:
    page = console.page
    put(account, "ended")
    console.log_in()
    page.evaluate(
        "sessionStorage.setItem('martlet.session', JSON.stringify("
        "{token: 'AUTH_tkold', account: '/v1/AUTH_test', user: 'test:tester'}))"
    )
    console.open("#/bucket/ended")
    page.reload()
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    console.log_in()
    expect(page.get_by_role("heading", name="ended")).to_be_visible()


def test_buckets(console: Console, account: Account) -> None:
    page = console.page
    console.log_in()
    page.get_by_role("button", name="New bucket").click()
    page.get_by_role("dialog").locator("input").first.fill("a/b")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("may not contain a slash")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="New bucket")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").locator("input").first.fill("%2e <b> & ")
    press(page, "Create")
    expect(page.get_by_role("heading", level=1)).to_have_text("%2e <b> & ")
    put(account, "%2e <b> & ", "inside")
    console.open()
    page.get_by_role("button", name="Delete %2e <b> &").click()
    press(page, "Delete")
    expect(page.get_by_role("alert")).to_contain_text("The bucket is not empty.")
    account.call("DELETE", "%2e <b> & ", "inside")
    press(page, "Delete")
    expect(page.get_by_role("link", name="%2e <b> &")).to_have_count(0)


def test_hostile_names(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    sent = {name: f"content of {name}".encode() for name in NAMES}
    for name, content in sent.items():
        put(account, bucket, name, body=content)
    for name, content in sent.items():
        console.open(f"#/object/{bucket}/{page.evaluate('encodeURIComponent', name)}")
        expect(page.locator("bdi.whole")).to_have_text(name, use_inner_text=False)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        assert Path(download.value.path()).read_bytes() == content
        page.get_by_role("button", name="Delete").click()
        press(page, "Delete")
        page.get_by_text("The object is deleted.").first.wait_for()
        page.get_by_role("button", name="Close message").first.click()
    assert account.call("GET", bucket).body == b""


def test_uploads(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    files = {name: name.encode() * 9 for name in NAMES if "/" not in name}
    console.upload(*files.items())
    expect(page.get_by_text(f"{len(files)} of {len(files)} uploads done")).to_be_visible()
    for name, content in files.items():
        assert account.call("GET", bucket, name).body == content
    expect(page.get_by_role("link", name="<img src=x onerror=alert(1)>")).to_be_visible()
    console.upload(("plain.txt", b"new"))
    expect(page.get_by_role("dialog")).to_contain_text("Replace 1 object?")
    press(page, "Cancel")
    assert account.call("GET", bucket, "plain.txt").body == files["plain.txt"]
    console.upload(("plain.txt", b"new"))
    press(page, "Replace")
    expect(page.get_by_role("row", name="plain.txt")).to_contain_text("3 B")
    assert account.call("GET", bucket, "plain.txt").body == b"new"


def test_folders_and_pages(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    for number in range(205):
        put(account, bucket, f"n{number:03}", body=b"x")
    page.get_by_role("button", name="New folder").click()
    page.get_by_role("dialog").locator("input").fill("2026 %/")
    press(page, "Create")
    expect(page.get_by_role("heading", level=1)).to_have_text("2026 %/")
    console.upload(("inside", b"x"))
    expect(page.get_by_role("link", name="inside")).to_be_visible()
    assert account.call("GET", bucket, "2026 %/inside").body == b"x"
    page.get_by_role("link", name=bucket).click()
    expect(page.get_by_role("link", name="n100")).to_be_visible()
    expect(page.get_by_role("link", name="n204")).to_have_count(0)
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_role("link", name="n204")).to_be_visible()
    page.get_by_label("Names that begin with").fill("n20")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(5)
    console.open(f"#/bucket/{bucket}")
    page.get_by_label("Choose 2026 %/").click()
    page.get_by_role("button", name="Delete").click()
    press(page, "Delete")
    expect(page.get_by_text("2 objects deleted.")).to_be_visible()
    assert b"2026" not in account.call("GET", bucket).body


def test_a_large_file_is_sent_in_segments(console: Console, bucket: str, account: Account) -> None:
    page = console.page

    def shrink(route: Route) -> None:
        answer = route.fetch()
        known = answer.json()
        known["swift"]["max_file_size"] = 100_000
        known["slo"]["max_manifest_segments"] = 5
        route.fulfill(response=answer, json=known)

    page.route("**/info", shrink)
    console.upload(("big", bytes(range(256)) * 1000), ("too big", bytes(500_001)))
    expect(page.get_by_text("at most 488 KiB")).to_be_visible()
    expect(page.get_by_role("link", name="big", exact=True)).to_be_visible()
    answer = account.call("GET", bucket, "big")
    assert answer.body == bytes(range(256)) * 1000
    assert answer.headers["x-static-large-object"] == "True"
    assert len(account.call("GET", f"{bucket}_segments").lines) == 3
    page.get_by_role("link", name="big", exact=True).click()
    page.get_by_role("button", name="Delete").click()
    press(page, "Delete")
    expect(page.get_by_text("The object is deleted.")).to_be_visible()
    assert account.call("GET", f"{bucket}_segments").body == b""


def test_metadata_and_copy(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    headers = {"X-Delete-At": "4000000000", "X-Object-Meta-Old": "1", "Content-Type": "text/x"}
    put(account, bucket, "50% a/../b", body=b"data", headers=headers)
    console.open(f"#/object/{bucket}/{page.evaluate('encodeURIComponent', '50% a/../b')}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove old").click()
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    in_dialog(page, "Name").fill("bad name")
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("cannot be the name of metadata")
    in_dialog(page, "Name").fill("Colour")
    in_dialog(page, "Value").fill("grün <b>")
    press(page, "Save")
    expect(page.get_by_text("grün <b>")).to_be_visible()
    found = account.call("HEAD", bucket, "50% a/../b").headers
    assert found["x-object-meta-colour"].encode("latin-1").decode() == "grün <b>"
    assert (found["x-delete-at"], found["content-type"]) == ("4000000000", "text/x")
    assert "x-object-meta-old" not in found
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("dialog").locator("input").nth(1).fill("copies/ü?")
    press(page, "Copy")
    expect(page.get_by_role("heading", level=1)).to_have_text("ü?")
    assert account.call("GET", bucket, "copies/ü?").body == b"data"


@pytest.mark.parametrize("name", ["ü %#?.txt", "a/../b", "plain"])
def test_sharing(console: Console, account: Account, name: str) -> None:
    page, container = console.page, f"sharing {len(name)}"
    put(account, container)
    put(account, container, name, body=b"shared")
    console.log_in()
    console.open(f"#/object/{container}/{page.evaluate('encodeURIComponent', name)}")
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("dialog")).to_contain_text("Make a key for links?")
    assert "x-container-meta-temp-url-key" not in account.call("HEAD", container).headers
    press(page, "Make the key")
    press(page, "Make the link")
    link = page.get_by_label("Anyone with this link").input_value()
    press(page, "Close")
    with urllib.request.urlopen(link) as answer:
        assert answer.read() == b"shared"
    assert "AUTH_tk" not in link
    console.open(f"#/settings/{container}")
    page.get_by_role("button", name="Remove the key").click()
    press(page, "Remove")
    expect(page.get_by_text("The key is removed.")).to_be_visible()
    assert "x-container-meta-temp-url-key" not in account.call("HEAD", container).headers


def test_versions(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Keep old versions").click()
    expect(page.get_by_text("From now on each upload keeps")).to_be_visible()
    for content in (b"first", b"second!"):
        put(account, bucket, "kept ü", body=content)
    console.open(f"#/object/{bucket}/{page.evaluate('encodeURIComponent', 'kept ü')}")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name=re.compile("Restore version")).click()
    expect(page.get_by_text("is restored")).to_be_visible()
    assert account.call("GET", bucket, "kept ü").body == b"first"
    page.get_by_role("button", name="Delete").click()
    press(page, "Delete")
    page.get_by_role("link", name="Versions").click()
    row = page.get_by_role("row", name="7 B")
    expect(page.get_by_role("row", name="deleted")).to_be_visible()
    row.get_by_role("button", name=re.compile("Restore")).click()
    expect(page.get_by_text("is restored").last).to_be_visible()
    assert account.call("GET", bucket, "kept ü").body == b"second!"
    page.get_by_role("row", name="5 B").get_by_role("button", name=re.compile("Remove")).click()
    press(page, "Remove")
    expect(page.get_by_role("row", name="5 B")).to_have_count(0)


def test_access_and_quotas(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    put(account, bucket, "seen", body=b"by all")
    url = f"{console.url}{account.path}/{bucket}/seen"
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Public").click()
    expect(page.get_by_text("Everyone can read this bucket now.")).to_be_visible()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"by all"
    page.get_by_label("Public").click()
    expect(page.get_by_text("Only those with permission")).to_be_visible()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url)
    page.get_by_role("button", name="Edit").nth(1).click()
    page.get_by_role("dialog").locator("input").first.fill("much")
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("That is no quota.")
    page.get_by_role("dialog").locator("input").first.fill("1 KiB")
    press(page, "Save")
    expect(page.get_by_text("of a quota of 1.0 KiB")).to_be_visible()
    page.get_by_role("link", name=bucket).click()
    console.upload(("too large", bytes(2000)))
    expect(page.get_by_text("a quota is used up")).to_be_visible()


def test_a_dark_page_and_a_narrow_one(console: Console, cluster: RunningCluster) -> None:
    page = console.page
    account = Account(cluster.port, "test2:tester2", "testing2")
    for name in ("backups", "photos", "reports"):
        put(account, name)
    put(account, "photos", "2026/summer/sea.jpg", body=bytes(90_000))
    for number, name in enumerate(("beach", "cat", "harbour", "martlet", "sunrise"), 1):
        put(account, "photos", f"{name}.jpg", body=bytes(271_000 * number))
    console.log_in("test2:tester2", "testing2")
    expect(page.get_by_role("link", name="reports", exact=True)).to_be_visible()
    console.picture("buckets")
    take_pictures(console, account)
    page.emulate_media(color_scheme="dark")
    console.open("#/bucket/photos")
    expect(page.get_by_role("link", name="sunrise.jpg")).to_be_visible()
    console.picture("bucket-dark")
    page.set_viewport_size({"width": 360, "height": 640})
    for fragment in ("", "#/bucket/photos", "#/object/photos/cat.jpg", "#/settings/photos"):
        console.open(fragment)
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, fragment


def take_pictures(console: Console, account: Account) -> None:
    """Pages for the documentation, which other tests try out."""
    page = console.page
    headers = {"X-Versions-Enabled": "true", "X-Container-Meta-Quota-Bytes": str(10 << 20)}
    account.call("POST", "photos", headers=headers)
    put(account, "photos", "cat.jpg", body=bytes(500_000))
    console.open("#/object/photos/cat.jpg")
    expect(page.get_by_role("button", name=re.compile("Restore version"))).to_be_visible()
    console.picture("object")
    console.open("#/settings/photos")
    expect(page.get_by_text("of a quota of 10.0 MiB")).to_be_visible()
    console.picture("settings")
    console.open("#/object/photos/sunrise.jpg")
    page.get_by_role("button", name="Share").click()
    press(page, "Make the key")
    press(page, "Make the link")
    page.get_by_label("Anyone with this link").wait_for()
    console.picture("share")
    press(page, "Close")


def test_the_cluster(console: Console, bucket: str) -> None:
    page = console.page
    expect(page.get_by_role("link", name="Cluster")).to_have_count(0)
    console.open("#/cluster")
    expect(page.get_by_role("alert")).to_contain_text("Only a reseller admin")
    page.get_by_role("button", name="Log out").click()
    console.log_in("admin:admin", "admin")
    page.get_by_role("link", name="Cluster").click()
    expect(page.get_by_role("alert")).to_contain_text("its replicator has finished no pass yet")
    picture = page.get_by_role("img", name="The ring")
    expect(picture.locator("g.good")).to_have_count(4)
    expect(picture).to_contain_text("partitions × 3")
    console.picture("cluster")
    page.get_by_role("combobox", name="Ring").select_option("account")
    expect(page.get_by_role("row", name="in use")).to_have_count(4)
    page.set_viewport_size({"width": 360, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_every_control_has_a_name(console: Console, bucket: str, account: Account) -> None:
    page = console.page
    put(account, bucket, "one", body=b"1")
    for fragment in ("", f"#/bucket/{bucket}", f"#/object/{bucket}/one", f"#/settings/{bucket}"):
        console.open(fragment)
        page.get_by_role("heading", level=1).wait_for()
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, a, input, select')].filter((e) =>"
            " !(e.ariaLabel || e.innerText?.trim() || e.labels?.length)).map((e) => e.outerHTML)"
        )
        assert nameless == []


def test_a_script_in_an_object_cannot_read_the_token(
    console: Console, bucket: str, account: Account
) -> None:
    page = console.page
    steal = "try { document.title = sessionStorage.length } catch (e) { document.title = e.name }"
    document = f"<script>{steal}</script>".encode()
    put(account, bucket, "page", body=document, headers={"Content-Type": "text/html"})
    account.call("POST", bucket, headers={"X-Container-Read": ".r:*"})
    page.goto(f"{console.url}{account.path}/{bucket}/page")
    expect(page).to_have_title("SecurityError")
    page.go_back()
    expect(page.get_by_role("heading", name=bucket)).to_be_visible()


def test_a_server_that_does_not_answer(console: Console, bucket: str) -> None:
    page = console.page
    page.route("**/v1/**", lambda route: route.abort())
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("alert")).to_contain_text("The server did not answer.")
    page.unroute("**/v1/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name=bucket)).to_be_visible()


def test_keystone(
    cluster: RunningCluster,
    account: Account,
    tmp_path: Path,
    new_tab: Callable[[str], Console],
) -> None:
    """Keystone is another origin: the page may ask it, and no other."""
    keystone = "http://keystone.invalid:5000"
    options = {"filter:console": {"use": "egg:martlet#console", "keystone_url": f"{keystone}/v3"}}
    asked: list[Any] = []

    def answer(route: Route) -> None:
        cors = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "content-type"}
        cors["Access-Control-Expose-Headers"] = "X-Subject-Token"
        if route.request.method == "OPTIONS":
            route.fulfill(status=204, headers=cors)
            return
        asked.append(json.loads(route.request.post_data or ""))
        if asked[-1]["auth"]["identity"]["password"]["user"]["password"] != "right":
            route.fulfill(status=401, headers=cors, json={"error": {"code": 401}})
            return
        endpoint = {"interface": "public", "url": f"http://elsewhere.invalid{account.path}"}
        catalog = [{"type": "object-store", "endpoints": [endpoint]}]
        headers = {**cors, "X-Subject-Token": account.token}
        route.fulfill(status=201, headers=headers, json={"token": {"catalog": catalog}})

    with OtherProxy(cluster, tmp_path, PIPELINE, options) as proxy:
        tab = new_tab(proxy.url)
        tab.page.route(f"{keystone}/v3/auth/tokens", answer)
        tab.open()
        tab.page.get_by_label("User", exact=True).fill("ann")
        tab.page.get_by_label("Project", exact=True).fill("birds")
        for password in ("wrong", "right"):
            tab.page.get_by_label("Password").fill(password)
            tab.page.get_by_role("button", name="Log in").click()
            if password == "wrong":
                expect(tab.page.get_by_role("alert")).to_contain_text("Wrong user name, password")
        tab.page.get_by_role("heading", name="Buckets", exact=True).wait_for()
        refused = "fetch('http://other.invalid/').then(() => 'sent', () => 'refused')"
        assert tab.page.evaluate(refused) == "refused"
    scope = asked[-1]["auth"]["scope"]["project"]
    assert scope == {"name": "birds", "domain": {"name": "Default"}}
