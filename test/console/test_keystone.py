"""The console with a real Keystone: the browser logs in there, and uses the token here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Console
from keystone_proxy import keystone_proxy
from playwright.sync_api import expect
from real_keystone import PASSWORD, Keystone
from running_cluster import RunningCluster, free_port
from swift_api import Account

from cluster.ports import HOST

_OPTIONS = {"operator_roles": "swiftoperator"}


@pytest.fixture(scope="module")
def programs() -> Path:
    place = os.environ.get("MARTLET_KEYSTONE")
    assert place, "MARTLET_KEYSTONE names no directory: run `make console-test`"
    return Path(place)


@pytest.fixture(scope="module")
def port() -> int:
    """That of the proxy: Keystone must know the origin of the console."""
    return free_port()


@pytest.fixture(scope="module")
def keystone(
    programs: Path, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Keystone]:
    """An operator of a project, a member of it without a right, a reseller admin; a catalog."""
    keystone = Keystone(programs, tmp_path_factory.mktemp("keystone"), f"http://{HOST}:{port}")
    try:
        keystone.start()
        keystone.grant("ann", "blue", "swiftoperator")
        keystone.grant("mia", "blue", "member")
        keystone.grant("boss", "green", "ResellerAdmin")
        # Clients may reach the console at another address than the catalog names.
        keystone.publish("object-store", "http://elsewhere.invalid/v1/AUTH_$(project_id)s")
        yield keystone
    finally:
        keystone.stop()


@pytest.fixture(scope="module")
def url(programs: Path, keystone: Keystone, cluster: RunningCluster, port: int) -> Iterator[str]:
    console = {"keystone_url": f"{keystone.url}/v3"}
    with keystone_proxy(programs, keystone, cluster.home, _OPTIONS, port=port, console=console):
        yield f"http://{HOST}:{port}"


@pytest.fixture
def tab(new_tab: Callable[[str], Console], url: str) -> Console:
    tab = new_tab(url)
    tab.open()
    return tab


def log_in(tab: Console, user: str, project: str, password: str = PASSWORD) -> None:
    """Fill the form and send it."""
    for label, text in (("User", user), ("Password", password), ("Project", project)):
        tab.page.get_by_label(label, exact=True).fill(text)
    tab.page.get_by_role("button", name="Log in").click()


def test_a_user_of_keystone(tab: Console, keystone: Keystone, port: int) -> None:
    page = tab.page
    log_in(tab, "ann", "blue", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Wrong user name, password or project.")
    log_in(tab, "ann", "blue")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    expect(page.get_by_text("ann · blue")).to_be_visible()
    expect(page.get_by_role("link", name="Cluster")).to_have_count(0)
    page.get_by_role("button", name="New bucket").click()
    page.get_by_role("dialog").locator("input").first.fill("of keystone")
    page.get_by_role("dialog").get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("of keystone")
    tab.upload(("a b.txt", b"content"))
    expect(page.get_by_role("link", name="a b.txt")).to_be_visible()
    path = f"/v1/AUTH_{keystone.id_of('project', 'blue')}"
    account = Account.with_token(port, keystone.token("ann", "blue"), path)
    assert account.call("GET", "of keystone", "a b.txt").body == b"content"
    account.close()


def test_a_project_of_which_the_user_is_no_member(tab: Console) -> None:
    log_in(tab, "ann", "green")
    expect(tab.page.get_by_role("alert")).to_contain_text("Wrong user name, password or project.")


def test_a_member_without_a_right(tab: Console) -> None:
    log_in(tab, "mia", "blue")
    expect(tab.page.get_by_role("alert")).to_contain_text("You have no permission")
    expect(tab.page.get_by_role("button", name="Log out")).to_be_visible()


def test_a_token_that_was_revoked(tab: Console, keystone: Keystone) -> None:
    """The proxy may know the token for a while: it has not seen this one."""
    token = keystone.token("ann", "blue")
    keystone.revoke(token)
    log_in(tab, "ann", "blue")
    expect(tab.page.get_by_role("button", name="Log out")).to_be_visible()
    stored = "sessionStorage.getItem('martlet.session')"
    assert token not in tab.page.evaluate(stored)
    tab.page.evaluate(
        f"(token) => sessionStorage.setItem('martlet.session', JSON.stringify("
        f"{{...JSON.parse({stored}), token}}))",
        token,
    )
    tab.page.reload()
    expect(tab.page.get_by_label("Password", exact=True)).to_be_visible()


def test_a_reseller_admin_sees_the_cluster(tab: Console) -> None:
    log_in(tab, "boss", "green")
    tab.page.get_by_role("link", name="Cluster").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Cluster")
