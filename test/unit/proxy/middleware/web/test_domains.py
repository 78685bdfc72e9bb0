"""Hosts mapped to accounts and containers: domain_remap and cname_lookup."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import dns.message
import dns.rrset
import pytest
from storage_app import StorageApp

from martlet.conf.options import ConfigError
from martlet.http.response import Response
from proxy.cache.local import LocalCache
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.web import cname_lookup, domain_remap
from proxy.middleware.web.cname_lookup import CnameLookup, CnameLookupOptions, dns_lookup


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    clear_info()


def path_of(ask: Any, host: str, path: str, **options: str) -> str:
    """Return the path that the application sees."""
    inner = StorageApp()
    app = domain_remap.filter_factory({}, **options)(inner)
    assert ask(app, path, headers={"Host": host}).status == 200
    seen: str = inner.environ["PATH_INFO"]
    return seen


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("c.AUTH_a.example.com", "/o", "/v1/AUTH_a/c/o"),
        ("c.auth-a.example.com:8080", "/v1/o/", "/v1/AUTH_a/c/v1/o/"),
        ("auth-a-b.EXAMPLE.com", "/", "/v1/AUTH_a-b/"),
        ("AUTH_a-b.example.com", "/c/o", "/v1/AUTH_a-b/c/o"),
        ("example.com", "/v1/AUTH_a/c", "/v1/AUTH_a/c"),
        ("c.other_a.example.com", "/o", "/o"),
        ("c.AUTH_a.example.org", "/o", "/o"),
        ("notexample.com", "/o", "/o"),
        ("[::1]:8080", "/o", "/o"),
    ],
)
def test_remapping(ask: Any, host: str, path: str, expected: str) -> None:
    assert path_of(ask, host, path) == expected


@pytest.mark.parametrize(
    ("options", "host", "path", "expected"),
    [
        ({"storage_domain": "a.net, .b.net"}, "AUTH_x.b.net", "/c", "/v1/AUTH_x/c"),
        ({"path_root": "/v1.0/"}, "AUTH_x.example.com", "/c", "/v1.0/AUTH_x/c"),
        ({"reseller_prefixes": "AUTH, Pre"}, "pre-x.example.com", "/c", "/v1/Pre_x/c"),
        ({"default_reseller_prefix": "AUTH"}, "x.example.com", "/c", "/v1/AUTH_x/c"),
        ({"mangle_client_paths": "true"}, "c.AUTH_x.example.com", "/v1/o", "/v1/AUTH_x/c/o"),
        ({"mangle_client_paths": "true"}, "c.AUTH_x.example.com", "/v1", "/v1/AUTH_x/c/"),
        ({"mangle_client_paths": "true"}, "c.AUTH_x.example.com", "/v10", "/v1/AUTH_x/c/v10"),
    ],
)
def test_options(ask: Any, options: Any, host: str, path: str, expected: str) -> None:
    assert path_of(ask, host, path, **options) == expected


@pytest.mark.parametrize("host", ["x.c.AUTH_a.example.com", "c..example.com", ".example.com"])
def test_a_host_with_too_much_or_nothing_in_it(ask: Any, host: str) -> None:
    app = domain_remap.filter_factory({})(StorageApp())
    assert ask(app, "/o", headers={"Host": host}).status == 400


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (
            "http://c.AUTH_a.example.com/v1/AUTH_a/c/d%C3%BC/",
            "http://c.AUTH_a.example.com/d%C3%BC/",
        ),
        ("http://elsewhere/v1/AUTH_a/c/d%C3%BC/", "http://elsewhere/v1/AUTH_a/c/d%C3%BC/"),
        ("http://c.AUTH_a.example.com/login", "http://c.AUTH_a.example.com/login"),
        ("http://[/v1/AUTH_a/c/d%C3%BC", "http://[/v1/AUTH_a/c/d%C3%BC"),
    ],
)
def test_redirects_stay_on_the_clients_host(ask: Any, location: str, expected: str) -> None:
    inner = StorageApp(answer=lambda environ: Response(301, {"Location": location}))
    app = domain_remap.filter_factory({})(inner)
    answer = ask(app, "/d%C3%BC", headers={"Host": "c.AUTH_a.example.com"})
    assert answer.headers["Location"] == expected


ALIASES = {
    "mine.net": "c.auth-a.example.com",
    "further.net": "mine.net",
    "circle.net": "circle.net",
    "other.net": "somebody.else.net",
}


class Names:
    """A fake DNS with the names in ALIASES."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, name: str) -> tuple[str | None, float]:
        self.asked.append(name)
        return ALIASES.get(name), 60.0


def looked_up(ask: Any, host: str, depth: int = 1, cache: LocalCache | None = None) -> Any:
    names = Names()
    inner = StorageApp(answer=lambda e: Response(200, {"Location": f"http://{e['HTTP_HOST']}/x"}))
    app = CnameLookup(inner, CnameLookupOptions(lookup_depth=depth), names)
    answer = ask(app, "/o", headers={"Host": host}, environ={"swift.cache": cache})
    seen = inner.environ["HTTP_HOST"] if inner.seen else None
    return answer.status, seen, answer.headers.get("Location"), names.asked


@pytest.mark.parametrize("host", ["mine.net", "MINE.net", "mine.net:81"])
def test_an_alias_of_ours(ask: Any, host: str) -> None:
    port = ":81" if ":" in host else ""
    ours = f"c.auth-a.example.com{port}"
    assert looked_up(ask, host) == (200, ours, f"http://{host}/x", ["mine.net"])


@pytest.mark.parametrize(
    "host", ["example.com", "c.auth-a.EXAMPLE.com:80", "127.0.0.1", "[::1]:80"]
)
def test_hosts_that_need_no_question(ask: Any, host: str) -> None:
    assert looked_up(ask, host)[1::2] == (host, [])


@pytest.mark.parametrize(
    ("host", "depth", "status"),
    [
        ("further.net", 1, 400),
        ("further.net", 2, 200),
        ("circle.net", 5, 400),
        ("other.net", 1, 400),
        ("unknown.net", 3, 400),
        ("localhost", 1, 400),
    ],
)
def test_how_far_aliases_are_followed(ask: Any, host: str, depth: int, status: int) -> None:
    assert looked_up(ask, host, depth)[0] == status


def test_answers_of_dns_are_kept(ask: Any) -> None:
    cache = LocalCache(100)
    for host, asked in (("mine.net", ["mine.net"]), ("unknown.net", ["unknown.net"])):
        assert looked_up(ask, host, 1, cache)[3] == asked
        assert looked_up(ask, host, 1, cache)[3] == []


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        data, socket = self.request
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        name = query.question[0].name
        target = ALIASES.get(str(name).rstrip("."))
        if target:
            answer.answer.append(dns.rrset.from_text(name, 7, "IN", "CNAME", f"{target}."))
        socket.sendto(answer.to_wire(), self.client_address)


def test_a_real_dns_server_is_asked() -> None:
    with socketserver.UDPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        look_up = dns_lookup([f"127.0.0.1:{server.server_address[1]}"])
        try:
            assert look_up("mine.net") == ("c.auth-a.example.com", 7.0)
            assert look_up("unknown.net") == (None, 60.0)
            assert look_up("x" * 64 + ".net") == (None, 0.0)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "options",
    [{"nameservers": "dns.example.com"}, {"nameservers": "::1:53:"}, {"lookup_depth": "0"}],
)
def test_bad_options(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        cname_lookup.filter_factory({}, **options)


def test_info() -> None:
    cname_lookup.filter_factory({}, nameservers="127.0.0.1, [::1]:5353")
    domain_remap.filter_factory({}, default_reseller_prefix="AUTH")
    info = collect_info()
    assert info["cname_lookup"] == {"lookup_depth": 1}
    assert info["domain_remap"] == {"default_reseller_prefix": "AUTH"}
