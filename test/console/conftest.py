"""A browser, a cluster, and pages of the console in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from running_cluster import RunningCluster
from swift_api import Account

#: A directory for pictures of the pages; the documentation has those of one run.
SCREENSHOTS = os.environ.get("MARTLET_SCREENSHOTS", "")
SECONDS_MAX = 20


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    running = RunningCluster(tmp_path_factory.mktemp("cluster")).start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "there is no chromium: install it (apt-get install chromium), or set CHROMIUM"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()


class Console:
    """The console in a tab. At the end nothing may have gone wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.page: Page = context.new_page()
        self.page.set_default_timeout(SECONDS_MAX * 1000)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._hear)

    def _hear(self, message: object) -> None:
        text = str(getattr(message, "text", ""))
        if "Content Security Policy" in text or "Trusted" in text:
            self.problems.append(text)

    def open(self, fragment: str = "") -> None:
        self.page.goto(f"{self.url}/console/{fragment}")

    def log_in(self, user: str = "test:tester", key: str = "testing") -> None:
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Key").fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()

    def upload(self, *files: tuple[str, bytes]) -> None:
        """Upload by the button of the bucket that is shown, and wait for the end."""
        chosen = [
            {"name": name, "mimeType": "text/plain", "buffer": content} for name, content in files
        ]
        self.page.locator("input[type=file]").first.set_input_files(chosen)  # type: ignore[arg-type]

    def picture(self, name: str) -> None:
        """Keep a picture for the documentation, if that is asked for."""
        if SCREENSHOTS:
            self.page.wait_for_timeout(300)
            self.page.screenshot(path=Path(SCREENSHOTS) / f"console-{name}.png")

    def check(self) -> None:
        """No error was logged, and all requests went to the proxy."""
        assert self.problems == []
        hosts = {urlsplit(url).netloc for url in self.requests if not url.startswith("blob:")}
        assert hosts <= {urlsplit(self.url).netloc}
        assert [url for url in self.requests if "AUTH_tk" in url] == []


@pytest.fixture
def console(browser: Browser, cluster: RunningCluster) -> Iterator[Console]:
    """A new tab with the login, and no session."""
    context = browser.new_context(viewport={"width": 1100, "height": 720})
    made = Console(context, cluster.url)
    made.open()
    yield made
    made.check()
    context.close()


@pytest.fixture
def bucket(
    console: Console, cluster: RunningCluster, account: Account, request: pytest.FixtureRequest
) -> str:
    """A new bucket, shown by the console to a user who has logged in."""
    name = request.node.name.removeprefix("test_").replace("_", "-")
    assert account.call("PUT", name).status == 201
    console.log_in()
    console.open(f"#/bucket/{name}")
    console.page.get_by_role("heading", name=name).wait_for()
    return str(name)


@pytest.fixture
def account(cluster: RunningCluster) -> Account:
    return Account(cluster.port)


@pytest.fixture
def new_tab(browser: Browser) -> Iterator[Callable[[str], Console]]:
    """Further tabs, for other servers."""
    contexts: list[BrowserContext] = []

    def make(url: str) -> Console:
        contexts.append(browser.new_context())
        return Console(contexts[-1], url)

    yield make
    for context in contexts:
        context.close()
