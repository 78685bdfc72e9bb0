# SPDX-License-Identifier: Apache-2.0
"""The confs of a cluster on one machine, written again at each start from its layout."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster.layout import KINDS, Home, Layout, StorageNode, write_atomically
from cluster.policies import ClusterPolicies
from cluster.ports import HOST
from martlet.conf.cluster import CONF_NAME

#: ``account:user`` -> key and groups. Every martlet has the same ones: for trials only.
TRIAL_USERS = {
    "admin:admin": "admin .admin .reseller_admin",
    "test:tester": "testing .admin",
    "test:tester2": "testing2 .admin",
    "test:tester3": "testing3",
    "test2:tester2": "testing2 .admin",
    "test5:tester5": "testing5 service",
    "test:tester6": "testing6 .reseller_admin",
}
PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache domain_remap etag-quoter "
    "listing_formats container_sync console bulk tempurl formpost s3api tempauth staticweb copy "
    "container-quotas account-quotas slo dlo versioned_writes symlink proxy-logging proxy-server"
)
#: Where the filter console of the pipeline answers.
CONSOLE_PATH = "/console/"
#: Kind of server -> background jobs in its conf -> seconds from one pass to the next. They are
#: short, since such a cluster is small.
JOBS: Mapping[str, Mapping[str, int]] = {
    "account": {"account-replicator": 10, "account-auditor": 600, "account-reaper": 30},
    "container": {
        "container-replicator": 10,
        "container-auditor": 600,
        "container-sharder": 10,
    },
    "object": {
        "object-replicator": 10,
        "object-auditor": 60,
        "object-lifecycle": 600,
        "object-expirer": 10,
    },
}
_CLUSTER_HEADER = (
    "# Written by `martlet up` at every start. Changes in [grid], [storage-policy:N] and\n"
    "# [swift-constraints] are kept; other changes are lost at the next start.\n"
)
_HEADER = "# Written by `martlet up` at every start: changes are lost at the next start.\n"

Sections = Mapping[str, Mapping[str, object]]


def write_confs(
    home: Home, layout: Layout, policies: ClusterPolicies, proxy_workers: int | None = None
) -> None:
    """Write every conf of the cluster; ``proxy_workers`` None means one for each processor.

    :raises ClusterError: a conf cannot be written.
    """
    workers = usable_processors() if proxy_workers is None else proxy_workers
    cluster = {
        "swift-hash": {"swift_hash_path_suffix": layout.hash_suffix},
        **policies.sections,
        "grid": {"grid_secret": layout.grid_secret, **policies.sections.get("grid", {})},
    }
    write_atomically(home.etc / CONF_NAME, _CLUSTER_HEADER + render(cluster))
    for path, sections in _all_confs(home, layout, workers):
        write_atomically(path, _HEADER + render(sections))


def usable_processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _all_confs(home: Home, layout: Layout, workers: int) -> Iterator[tuple[Path, Sections]]:
    yield home.etc / "proxy-server.conf", _proxy_conf(home, layout, workers)
    yield home.etc / "container-reconciler.conf", _reconciler_conf(home, layout)
    yield home.etc / "internal-client.conf", _internal_client_conf(home)
    for node in layout.nodes:
        etc = home.node_etc(layout, node)
        for kind in KINDS:
            yield etc / f"{kind}-server.conf", _storage_conf(home, layout, node, kind)


def _proxy_conf(home: Home, layout: Layout, workers: int) -> Sections:
    users = {f"user_{name.replace(':', '_')}": value for name, value in TRIAL_USERS.items()}
    return {
        "DEFAULT": {
            "bind_ip": HOST,
            "bind_port": layout.proxy_port,
            "workers": workers,
            "swift_dir": home.etc,
            "metrics_from": HOST,
        },
        "pipeline:main": {"pipeline": PIPELINE},
        "app:proxy-server": {
            "use": "egg:martlet#proxy",
            "account_autocreate": "true",
            "allow_open_expired": "true",
        },
        "filter:catch_errors": {"use": "egg:martlet#catch_errors"},
        "filter:gatekeeper": {"use": "egg:martlet#gatekeeper"},
        "filter:healthcheck": {"use": "egg:martlet#healthcheck"},
        "filter:proxy-logging": {"use": "egg:martlet#proxy_logging"},
        "filter:listing_formats": {"use": "egg:martlet#listing_formats"},
        "filter:cache": {"use": "egg:martlet#cache"},
        "filter:etag-quoter": {"use": "egg:martlet#etag_quoter"},
        # Browsers resolve container.AUTH-account.localhost to this machine.
        "filter:domain_remap": {
            "use": "egg:martlet#domain_remap",
            "storage_domain": "localhost, example.net",
        },
        "filter:container_sync": {"use": "egg:martlet#container_sync"},
        "filter:console": {"use": "egg:martlet#console"},
        "filter:tempurl": {"use": "egg:martlet#tempurl"},
        "filter:formpost": {"use": "egg:martlet#formpost"},
        "filter:s3api": {"use": "egg:martlet#s3api", "storage_domain": "localhost"},
        "filter:tempauth": {
            "use": "egg:martlet#tempauth",
            "reseller_prefix": "AUTH, SERVICE",
            "SERVICE_require_group": "service",
            **users,
        },
        "filter:staticweb": {"use": "egg:martlet#staticweb"},
        "filter:copy": {"use": "egg:martlet#copy"},
        "filter:bulk": {"use": "egg:martlet#bulk"},
        "filter:container-quotas": {"use": "egg:martlet#container_quotas"},
        "filter:account-quotas": {"use": "egg:martlet#account_quotas"},
        "filter:slo": {"use": "egg:martlet#slo"},
        "filter:dlo": {"use": "egg:martlet#dlo"},
        "filter:symlink": {"use": "egg:martlet#symlink"},
        "filter:versioned_writes": {
            "use": "egg:martlet#versioned_writes",
            "allow_versioned_writes": "true",
            "allow_object_versioning": "true",
        },
    }


def _reconciler_conf(home: Home, layout: Layout) -> Sections:
    """The conf of the reconciler, which `martlet up` does not run: it is for split networks."""
    return {
        "DEFAULT": {"swift_dir": home.etc},
        "container-reconciler": {"recon_cache_path": _figures_of(home, layout.nodes[0])},
        "pipeline:main": {"pipeline": "catch_errors proxy-server"},
        "filter:catch_errors": {"use": "egg:martlet#catch_errors"},
        "app:proxy-server": {"use": "egg:martlet#proxy"},
    }


def _internal_client_conf(home: Home) -> Sections:
    """The conf of the internal proxy of the object expirer and of `martlet-container-sync`."""
    return {
        "DEFAULT": {"swift_dir": home.etc},
        "pipeline:main": {"pipeline": "catch_errors cache symlink proxy-server"},
        "filter:catch_errors": {"use": "egg:martlet#catch_errors"},
        "filter:cache": {"use": "egg:martlet#cache"},
        "filter:symlink": {"use": "egg:martlet#symlink"},
        "app:proxy-server": {"use": "egg:martlet#proxy"},
    }


def _figures_of(home: Home, node: StorageNode) -> Path:
    return home.run / f"recon-{node.name}"


def _storage_conf(home: Home, layout: Layout, node: StorageNode, kind: str) -> Sections:
    own_proxy = {"internal_client_conf_path": home.etc / "internal-client.conf"}
    figures = {"recon_cache_path": _figures_of(home, node)}
    more: Sections = {
        "object-expirer": {
            "processes": len(layout.nodes),  # each node does a part of the work
            "process": layout.nodes.index(node),
            **figures,
            **own_proxy,
        },
    }
    daemons: Sections = {"container-sync": own_proxy} if kind == "container" else {}
    jobs: Sections = {
        job: {"interval": interval, **more.get(job, {})} for job, interval in JOBS[kind].items()
    }
    return {
        "DEFAULT": {
            "bind_ip": HOST,
            "bind_port": node.ports[kind],
            "devices": home.node_devices(layout, node),
            "mount_check": "false",
            "swift_dir": home.etc,
        },
        "pipeline:main": {"pipeline": f"healthcheck recon {kind}-server"},
        "filter:healthcheck": {"use": "egg:martlet#healthcheck"},
        "filter:recon": {"use": "egg:martlet#recon", **figures},
        f"app:{kind}-server": {
            "use": f"egg:martlet#{kind}",
            **(figures if kind == "container" else {}),
        },
        **daemons,
        **jobs,
    }


def render(sections: Sections) -> str:
    """Render the sections as ini text, in order."""
    lines = []
    for section, options in sections.items():
        lines.append(f"\n[{section}]")
        lines.extend(f"{name} = {value}" for name, value in options.items())
    return "\n".join(lines) + "\n"
