"""Every option stands in its conf sample with its default, and the samples hold no other.

An option class is a dataclass whose fields are made with ``martlet.conf.options.option``;
SAMPLES says where each is described. A class that is missing there fails the first test.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT, PythonFile

from martlet.conf.options import load_options
from martlet.conf.swift_options import REFUSED, WITHOUT_EFFECT

OBJECT_SERVER = Path(
    os.environ.get("MARTLET_OBJECT_SERVER") or ROOT / "build/bin/martlet-object-server"
)

# Sample -> section -> the classes that read it.
SAMPLES: dict[str, dict[str, list[str]]] = {
    "martlet.conf-sample": {
        "swift-hash": ["martlet.conf.cluster:HashOptions"],
        "grid": ["martlet.conf.grid:GridOptions"],
        "swift-constraints": ["martlet.conf.constraints:Constraints"],
    },
    "account-server.conf-sample": {
        "DEFAULT": ["martlet.service.server:StorageServerOptions"],
        "filter:healthcheck": ["martlet.filters.healthcheck:HealthcheckOptions"],
        "filter:recon": ["martlet.recon.filter:ReconOptions"],
        "app:account-server": ["account.config:AccountOptions"],
        "account-replicator": ["replicator.options:ReplicatorOptions"],
        "account-auditor": ["replicator.options:AccountAuditorOptions"],
        "account-reaper": ["replicator.options:ReaperOptions"],
        "filter:backend_ratelimit": ["martlet.filters.backend_ratelimit:BackendRatelimitOptions"],
        "filter:backend_tracing": ["martlet.filters.backend_tracing:BackendTracingOptions"],
    },
    "container-server.conf-sample": {
        "DEFAULT": ["martlet.service.server:StorageServerOptions"],
        "filter:healthcheck": ["martlet.filters.healthcheck:HealthcheckOptions"],
        "filter:recon": ["martlet.recon.filter:ReconOptions"],
        "app:container-server": ["container.config:ContainerOptions"],
        "container-replicator": ["replicator.options:ReplicatorOptions"],
        "container-auditor": ["replicator.options:ContainerAuditorOptions"],
        "container-sharder": ["replicator.sharder.options:SharderOptions"],
        "container-sync": ["container.config:SyncOptions"],
        "filter:backend_ratelimit": ["martlet.filters.backend_ratelimit:BackendRatelimitOptions"],
        "filter:backend_tracing": ["martlet.filters.backend_tracing:BackendTracingOptions"],
    },
    "container-reconciler.conf-sample": {
        "DEFAULT": ["container.config:ReconcilerDefaults"],
        "container-reconciler": ["container.config:ReconcilerOptions"],
    },
    "object-expirer.conf-sample": {
        "DEFAULT": ["replicator.expirer.options:ExpirerDefaults"],
        "object-expirer": ["replicator.expirer.options:ExpirerOptions"],
    },
    "proxy-server.conf-sample": {
        "DEFAULT": ["martlet.service.server:ServerOptions"],
        "app:proxy-server": ["proxy.config:ProxyOptions"],
        "filter:bulk": ["proxy.middleware.bulk.options:BulkOptions"],
        "filter:catch_errors": ["proxy.middleware.frame.catch_errors:CatchErrorsOptions"],
        "filter:gatekeeper": ["proxy.middleware.frame.gatekeeper:GatekeeperOptions"],
        "filter:healthcheck": ["martlet.filters.healthcheck:HealthcheckOptions"],
        "filter:recon": ["martlet.recon.filter:ReconOptions"],
        "filter:tracing": ["proxy.middleware.frame.tracing:TracingOptions"],
        "filter:proxy-logging": ["proxy.middleware.access_log.options:ProxyLoggingOptions"],
        "filter:cache": ["proxy.middleware.frame.cache:CacheOptions"],
        "filter:etag-quoter": ["proxy.middleware.links.etag_quoter:EtagQuoterOptions"],
        "filter:list-endpoints": ["proxy.middleware.web.list_endpoints:ListEndpointsOptions"],
        "filter:cname_lookup": ["proxy.middleware.web.cname_lookup:CnameLookupOptions"],
        "filter:domain_remap": ["proxy.middleware.web.domain_remap:DomainRemapOptions"],
        "filter:crossdomain": ["proxy.middleware.web.crossdomain:CrossDomainOptions"],
        "filter:name_check": ["proxy.middleware.limits.name_check:NameCheckOptions"],
        "filter:read_only": ["proxy.middleware.limits.read_only:ReadOnlyOptions"],
        "filter:container_sync": ["proxy.middleware.auth.container_sync:ContainerSyncOptions"],
        "filter:console": ["proxy.console.console:ConsoleOptions"],
        "filter:tempurl": ["proxy.middleware.signed_urls.tempurl:TempURLOptions"],
        "filter:s3api": ["proxy.s3.options:S3Options"],
        "filter:notifications": ["proxy.s3.events.options:NotificationOptions"],
        "filter:formpost": ["proxy.middleware.signed_urls.formpost:FormPostOptions"],
        "filter:keymaster": ["proxy.middleware.encryption.keymaster:KeymasterOptions"],
        "filter:encryption": ["proxy.middleware.encryption.encryption:EncryptionOptions"],
        "filter:keystoneauth": ["proxy.middleware.auth.keystoneauth:KeystoneauthOptions"],
        "filter:ratelimit": ["proxy.middleware.limits.ratelimit:RatelimitOptions"],
        "filter:s3token": ["proxy.s3.s3token:S3TokenOptions"],
        "filter:tempauth": ["proxy.middleware.auth.tempauth:TempauthOptions"],
        "filter:staticweb": ["proxy.middleware.web.staticweb:StaticWebOptions"],
        "filter:slo": ["proxy.middleware.large_objects.slo_options:SloOptions"],
        "filter:dlo": ["proxy.middleware.large_objects.dlo:DloOptions"],
        "filter:symlink": ["proxy.middleware.links.symlink:SymlinkOptions"],
        "filter:versioned_writes": [
            "proxy.middleware.versions.versioned_writes:VersionedWritesOptions"
        ],
    },
}
# Read by their service without an option class, or of no use to that service.
NOT_OPTIONS = re.compile(
    r"use|pipeline|user_.*|require_group|encryption_root_secret_.*"
    r"|(operator|service|project_reader)_roles|container_(listing_)?ratelimit_\d+"
    r"|delay_reaping_.*"
)
# Set in a sample, since it would not work with the default (or there is none).
SET_IN_SAMPLE = {"bind_port", "account_autocreate"}
NOT_FOR_THE_PROXY = {"devices", "mount_check"}
# Classes that others extend: their options are found in those.
BASES = {
    "replicator.options:AuditorOptions",
    "martlet.tracing.options:ExportOptions",
    "replicator.options:PriorityOptions",
    "storage.storage_server:StorageOptions",
}

_SECTION = re.compile(r"(?:# )?\[([\w:-]+)\]$")
_OPTION = re.compile(r"(?:# )?([A-Za-z_0-9]+) =(?: (.*))?$")


def read_sample(name: str) -> dict[str, dict[str, str]]:
    """Section -> option -> value, set or in a comment."""
    sections: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in (ROOT / "etc" / name).read_text(encoding="utf-8").splitlines():
        if match := _SECTION.match(line):
            current = sections.setdefault(match.group(1), {})
        elif (match := _OPTION.match(line)) and not NOT_OPTIONS.fullmatch(match.group(1)):
            assert match.group(1) not in current, f"{name} names {match.group(1)} twice"
            current[match.group(1)] = match.group(2) or ""
    return sections


def load_class(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def sample_cases() -> list[tuple[str, str, list[str]]]:
    return [(s, section, names) for s, found in SAMPLES.items() for section, names in found.items()]


def test_every_option_class_is_listed(modules: list[PythonFile]) -> None:
    found = set()
    for file in modules:
        module = file.name.removesuffix(".py").replace("/", ".")
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef) and is_option_class(node):
                found.add(f"{module}:{node.name}")
    listed = {path for _, _, paths in sample_cases() for path in paths}
    assert found - BASES == listed


def is_option_class(node: ast.ClassDef) -> bool:
    """It has options of its own, or those of a class in BASES."""
    inherited = {path.partition(":")[2] for path in BASES}
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return bool(bases & inherited) or any(is_option(item) for item in node.body)


def is_option(item: ast.stmt) -> bool:
    """An annotated field with ``option(...)`` as its value."""
    return (
        isinstance(item, ast.AnnAssign)
        and isinstance(item.value, ast.Call)
        and isinstance(item.value.func, ast.Name)
        and item.value.func.id == "option"
    )


@pytest.mark.parametrize(("sample", "section", "classes"), sample_cases())
def test_names_and_defaults(sample: str, section: str, classes: list[str]) -> None:
    stated = read_sample(sample)[section]
    options = {
        field.name: (path, field)
        for path in classes
        for field in dataclasses.fields(load_class(path))
    }
    unused = (
        NOT_FOR_THE_PROXY if (sample, section) == ("proxy-server.conf-sample", "DEFAULT") else set()
    )
    assert stated.keys() == options.keys() - unused
    for name, text in stated.items():
        if name in SET_IN_SAMPLE:
            continue
        path, field = options[name]
        value = getattr(load_options(load_class(path), {name: text}), name)
        assert value == default_of(field), f"[{section}] {name} in {sample}"


def default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@pytest.mark.parametrize(("sample", "section", "classes"), sample_cases())
def test_every_option_is_explained(sample: str, section: str, classes: list[str]) -> None:
    for path in classes:
        for field in dataclasses.fields(load_class(path)):
            assert field.metadata["help"], f"{path}.{field.name}"


def explanations(sample: str, section: str) -> dict[str, str]:
    """Option -> the comment above it."""
    text = (ROOT / "etc" / sample).read_text(encoding="utf-8")
    start = text.index(f"[{section}]\n")
    lines = text[start : text.index("\n[", start)].splitlines()[1:]
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in lines:
        if match := _OPTION.match(line):
            found[match.group(1)] = " ".join(comment)
        comment = [*comment, line.removeprefix("# ")] if line.startswith("# ") else []
    return found


def test_the_proxy_explains_each_option_as_its_sample_does() -> None:
    stated = explanations("proxy-server.conf-sample", "app:proxy-server")
    options = dataclasses.fields(load_class("proxy.config:ProxyOptions"))
    assert {f.name: f.metadata["help"] for f in options} == {
        f.name: stated.get(f.name) for f in options
    }


def test_the_proxy_explains_each_option_in_sentences_with_its_unit() -> None:
    sentences = re.compile(r"[A-Z].*\.")
    units = {"s": "in seconds", "bytes": "bytes", "": ""}
    for field in dataclasses.fields(load_class("proxy.config:ProxyOptions")):
        text = field.metadata["help"]
        assert sentences.fullmatch(text), field.name
        assert units[field.metadata["unit"]] in text, field.name


def test_options_of_swift_without_effect_are_shown_and_are_not_ours() -> None:
    page = (ROOT / "doc" / "swift-options.md").read_text(encoding="utf-8")
    shown = {line for line in page.splitlines() if line.startswith("| `")}
    known = {f"| `{n}` | {why} |" for table in WITHOUT_EFFECT.values() for n, why in table.items()}
    known |= {f"| `[{s}]` | `{n}` | {why} |" for s, t in REFUSED.items() for n, why in t.items()}
    assert shown == known
    for _, section, paths in sample_cases():
        ours = {f.name for path in paths for f in dataclasses.fields(load_class(path))}
        assert not ours & {*WITHOUT_EFFECT.get(section, ()), *REFUSED.get(section, ())}, section


def test_the_object_server_has_the_options_of_its_sample() -> None:
    command = [str(OBJECT_SERVER), "--print-options"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    printed: dict[str, dict[str, str]] = {}
    for line in output.splitlines():
        match = re.fullmatch(r"\[(\S+)\] (\w+) =(?: (.*))?", line)
        assert match, line
        printed.setdefault(match.group(1), {})[match.group(2)] = match.group(3) or ""
    assert printed == read_sample("object-server.conf-sample")


def test_the_page_of_ports_has_each_port_of_a_sample() -> None:
    page = (ROOT / "doc" / "ports.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    shown = {row[2].strip(): row[1].strip() for row in rows}
    for kind in ("proxy", "account", "container", "object"):
        name = kind if kind == "proxy" else f"{kind} server"
        stated = read_sample(f"{kind}-server.conf-sample")["DEFAULT"]["bind_port"]
        assert shown[name] == stated
