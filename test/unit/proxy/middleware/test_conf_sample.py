"""The sample confs have every option of every filter with its default, and no other."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import load_options, read_ini
from martlet.filters.healthcheck import HealthcheckOptions
from proxy.middleware.access_log.options import ProxyLoggingOptions
from proxy.middleware.auth.tempauth import TempauthOptions
from proxy.middleware.auth.tempauth_users import Resellers, read_users
from proxy.middleware.encryption.encryption import EncryptionOptions
from proxy.middleware.encryption.keymaster import KeymasterOptions
from proxy.middleware.frame.cache import CacheOptions
from proxy.middleware.frame.catch_errors import CatchErrorsOptions
from proxy.middleware.frame.gatekeeper import GatekeeperOptions
from proxy.middleware.frame.listing_formats import ListingFormatsOptions
from proxy.middleware.links.copy import CopyOptions

ETC = Path(__file__).parents[4] / "etc"
FILTERS = {
    "cache": CacheOptions,
    "catch_errors": CatchErrorsOptions,
    "copy": CopyOptions,
    "encryption": EncryptionOptions,
    "gatekeeper": GatekeeperOptions,
    "healthcheck": HealthcheckOptions,
    "keymaster": KeymasterOptions,
    "listing_formats": ListingFormatsOptions,
    "proxy-logging": ProxyLoggingOptions,
    "tempauth": TempauthOptions,
}


def commented_options(path: Path, section: str) -> dict[str, str]:
    """The ``# name = default`` lines of a section."""
    text = path.read_text()
    start = text.index(f"\n[{section}]\n") + 1
    end = text.find("\n[", start)
    body = text[start : end if end >= 0 else len(text)]
    return dict(re.findall(r"^# ?(\w+) = ?(.*)$", body, re.MULTILINE))


def check(options: type, sample: dict[str, str]) -> None:
    fields = {f.name for f in dataclasses.fields(options)}
    assert set(sample) == fields
    defaults: Any = options()
    assert load_options(options, sample) == defaults


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name: str) -> None:
    sample = commented_options(ETC / "proxy-server.conf-sample", f"filter:{name}")
    if name == "tempauth":
        assert sample.pop("require_group") == ""
        sample = {option: text for option, text in sample.items() if option[:5] != "user_"}
    check(FILTERS[name], sample)


def test_memcache_conf() -> None:
    check(CacheOptions, commented_options(ETC / "memcache.conf-sample", "memcache"))


def test_the_users_of_the_sample_are_no_users() -> None:
    """Their keys are public."""
    path = ETC / "proxy-server.conf-sample"
    assert not [name for name in read_ini(path)["filter:tempauth"] if name.startswith("user")]
    users = read_users(
        commented_options(path, "filter:tempauth"), Resellers.from_options("AUTH", {}), "sample"
    )
    assert set(users) == {"admin:admin", "test:tester", "test:tester3"}
