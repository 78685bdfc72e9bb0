# SPDX-License-Identifier: Apache-2.0
"""The files of a plan: for each host the content of /etc/martlet, and the conf of haproxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from cluster.confs import JOBS, Sections, render
from cluster.deploy.plan import CACHE_PORT, PORTS, PROXY_PORT, Host, Plan
from martlet.conf.cluster import CONF_NAME

ETC = PurePosixPath("/etc/martlet")
CERTIFICATE = ETC / "tls" / "public.pem"
_PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache etag-quoter listing_formats "
    "container_sync bulk tempurl formpost s3api tempauth staticweb copy container-quotas "
    "account-quotas slo dlo versioned_writes symlink proxy-logging proxy-server"
)
_READ_PORTS = f"{PORTS['object']}-{PORTS['account']}, {PROXY_PORT}"
_OWN_PORTS = f"{_READ_PORTS}, {CACHE_PORT}"
_OPTIONS = {
    "versioned_writes": {"allow_versioned_writes": "true", "allow_object_versioning": "true"},
}
_HEADER = "# Written by `martlet deploy`. From now on this file is yours.\n"


def files_of(plan: Plan, host: Host) -> Iterator[tuple[str, str]]:
    """Names and texts of the files in /etc/martlet, without the rings."""
    yield CONF_NAME, _HEADER + render(_cluster_conf(plan))
    yield "proxy-server.conf", _HEADER + render(_proxy_conf(plan, host))
    yield "internal-client.conf", _HEADER + render(_internal_client_conf(plan))
    for kind in PORTS:
        yield f"{kind}-server.conf", _HEADER + render(_storage_conf(plan, host, kind))
    yield "nftables.conf", firewall([one.ip for one in plan.hosts], plan.readers)
    yield "haproxy.cfg", haproxy_conf([one.ip for one in plan.hosts])


def _cluster_conf(plan: Plan) -> Sections:
    return {
        "swift-hash": {"swift_hash_path_suffix": plan.hash_suffix},
        "grid": {"grid_secret": plan.grid_secret},
    }


def _caches(plan: Plan) -> Sections:
    servers = ", ".join(f"{_bracketed(host.ip)}:{CACHE_PORT}" for host in plan.hosts)
    return {"filter:cache": {"use": "egg:martlet#cache", "memcache_servers": servers}}


def _proxy_conf(plan: Plan, host: Host) -> Sections:
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "bind_ip": host.ip,
            "bind_port": PROXY_PORT,
            "workers": "auto",
            "metrics_from": ", ".join(plan.readers),
        },
        "pipeline:main": {"pipeline": _PIPELINE},
        "app:proxy-server": {"use": "egg:martlet#proxy", "account_autocreate": "true"},
    }
    for name in dict.fromkeys(_PIPELINE.split()):
        if name != "proxy-server":
            factory = name.replace("-", "_")
            options = _OPTIONS.get(name, {})
            sections[f"filter:{name}"] = {"use": f"egg:martlet#{factory}", **options}
    trusted = ", ".join(one.ip for one in plan.hosts)  # each host has a TLS terminator
    sections["filter:gatekeeper"]["trusted_proxies"] = trusted
    sections["filter:cache"].update(_caches(plan)["filter:cache"])
    sections["filter:tempauth"].update(
        {
            "token_secret": plan.token_secret,
            "storage_url_scheme": "https",
            f"user_{plan.account}_{plan.user}": f"{plan.user_key} .admin .reseller_admin",
        }
    )
    return sections


def _internal_client_conf(plan: Plan) -> Sections:
    return {
        "DEFAULT": {},
        "pipeline:main": {"pipeline": "catch_errors cache symlink proxy-server"},
        "filter:catch_errors": {"use": "egg:martlet#catch_errors"},
        **_caches(plan),
        "filter:symlink": {"use": "egg:martlet#symlink"},
        "app:proxy-server": {"use": "egg:martlet#proxy"},
    }


def _storage_conf(plan: Plan, host: Host, kind: str) -> Sections:
    own_proxy = {"internal_client_conf_path": ETC / "internal-client.conf"}
    jobs: dict[str, dict[str, object]] = {job: {} for job in JOBS[kind]}
    if "object-expirer" in jobs:
        part = {"processes": len(plan.hosts), "process": host.zone - 1}
        jobs["object-expirer"] = {**part, **own_proxy}
    if kind == "container":
        jobs["container-sync"] = dict(own_proxy)
    return {
        "DEFAULT": {"bind_ip": host.ip, "bind_port": PORTS[kind]},
        "pipeline:main": {"pipeline": f"healthcheck recon {kind}-server"},
        "filter:healthcheck": {"use": "egg:martlet#healthcheck"},
        "filter:recon": {"use": "egg:martlet#recon"},
        f"app:{kind}-server": {"use": f"egg:martlet#{kind}"},
        **jobs,
    }


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def haproxy_conf(proxies: list[str]) -> str:
    """The conf of a TLS terminator in front of these proxies, the same on each host."""
    servers = "\n".join(
        f"    server proxy{number} {_bracketed(ip)}:{PROXY_PORT} check"
        for number, ip in enumerate(proxies, 1)
    )
    return f"""\
# TLS in front of the proxies of martlet, for haproxy 2.4 or newer: /etc/haproxy/haproxy.cfg
global
    log /dev/log local0
    user haproxy
    group haproxy
    maxconn 20000
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets

defaults
    mode http
    log global
    option httplog
    timeout connect 2s
    # Above client_timeout of the proxies, whose answer is then the one that clients get.
    timeout client 65s
    # COPY of Swift's API is answered when it is done: 5 GiB at 9 MB/s.
    timeout server 600s
    timeout http-request 65s
    timeout http-keep-alive 60s

frontend https
    # The certificate chain and its key in one file.
    bind :::443 v4v6 ssl crt {CERTIFICATE} alpn http/1.1
    # Figures and lists of devices are for the operator's network.
    http-request deny deny_status 404 if {{ path -i /metrics }} || {{ path_beg -i /recon/ }}
    # The proxies believe them on connections from here: trusted_proxies of gatekeeper.
    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Proto https
    # The signature of an S3 request covers its path and headers: nothing else is changed.
    default_backend proxies

backend proxies
    balance leastconn
    option httpchk GET /healthcheck
    default-server inter 2s fall 2 rise 2
    # A request that no proxy has read yet goes to the next one.
    retries 2
    retry-on conn-failure
    option redispatch 1
{servers}
"""


def firewall(hosts: list[str], readers: tuple[str, ...]) -> str:
    """The rules of nftables for a host: storage ports for the hosts, 443 for all."""
    rules = []
    for addresses, ports in ((hosts, _OWN_PORTS), (readers, _READ_PORTS)):
        for family in ("ip", "ip6"):
            shown = ", ".join(one for one in addresses if (":" in one) == (family == "ip6"))
            if shown:
                rules.append(f"        {family} saddr {{ {shown} }} tcp dport {{ {ports} }} accept")
    return f"""\
# The ports of martlet are for the hosts of the cluster; 443 and all others stay as they are.
table inet martlet
delete table inet martlet
table inet martlet {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname "lo" accept
{chr(10).join(rules)}
        tcp dport {{ {_OWN_PORTS} }} drop
        udp dport {CACHE_PORT} drop
    }}
}}
"""
