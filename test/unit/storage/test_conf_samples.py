"""etc/*.conf-sample shows every option of the account and the container server with its default."""

import configparser
import dataclasses
import re
from pathlib import Path

import pytest

from account.config import AccountOptions
from container.config import ContainerOptions
from martlet.conf.options import ConfigError, load_options
from martlet.service.server import StorageServerOptions
from storage.storage_server import StorageOptions

ETC = Path(__file__).parents[3] / "etc"


def sample(name: str) -> dict[str, dict[str, str]]:
    """The sections of a sample, its commented options included."""
    text = (ETC / f"{name}-server.conf-sample").read_text()
    text = re.sub(r"^# ([a-z_]+ = )", r"\1", text, flags=re.MULTILINE)
    parser = configparser.ConfigParser(interpolation=None, default_section="none")
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


@pytest.mark.parametrize(
    ("name", "options"), [("account", AccountOptions), ("container", ContainerOptions)]
)
def test_the_sample_shows_every_option(name: str, options: type[StorageOptions]) -> None:
    sections = sample(name)
    assert sections["pipeline:main"] == {"pipeline": f"healthcheck recon {name}-server"}
    shown = sections[f"app:{name}-server"]
    assert shown.pop("use") == f"egg:martlet#{name}"
    assert set(shown) == {field.name for field in dataclasses.fields(options)}
    assert load_options(options, shown) == options()
    default = sections["DEFAULT"]
    port = int(default.pop("bind_port"))
    assert set(default) | {"bind_port"} == {
        f.name for f in dataclasses.fields(StorageServerOptions)
    }
    expected = dataclasses.replace(StorageServerOptions(), bind_port=port)
    assert load_options(StorageServerOptions, {**default, "bind_port": str(port)}) == expected


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("fallocate_reserve", "lots"),
        ("fallocate_reserve", "101%"),
        ("fallocate_reserve", "-1"),
        ("database_pool_size", "0"),
        ("report_concurrency", "0"),
        ("node_timeout", "0"),
        ("containers_per_secnd", "5"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=option):
        load_options(ContainerOptions, {option: value})
