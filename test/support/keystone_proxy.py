"""A proxy that accepts Keystone's tokens, in front of a cluster whose own proxy has tempauth."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from real_keystone import PASSWORD, Keystone
from running_cluster import await_true, free_port
from swift_api import RawConnection

from cluster.confs import render


def authtoken(keystone: Keystone) -> dict[str, str]:
    """Return the section of keystonemiddleware's filter."""
    return {
        "paste.filter_factory": "keystonemiddleware.auth_token:filter_factory",
        "www_authenticate_uri": keystone.url,
        "auth_url": keystone.url,
        "auth_type": "password",
        "project_domain_id": "default",
        "user_domain_id": "default",
        "project_name": "admin",
        "username": "admin",
        "password": PASSWORD,
        "delay_auth_decision": "True",
        "include_service_catalog": "False",
        "cache": "swift.cache",
        "token_cache_time": "3600",
        # Swift's tests send users' tokens as service tokens and expect keystoneauth to decide.
        "service_token_roles_required": "False",
    }


def s3token(keystone: Keystone) -> dict[str, str]:
    """Return the section of the filter that asks Keystone about S3 signatures."""
    return {
        "use": "egg:martlet#s3token",
        "auth_uri": f"{keystone.url}/v3",
        "auth_url": keystone.url,
        "project_domain_id": "default",
        "user_domain_id": "default",
        "project_name": "admin",
        "username": "admin",
        "password": PASSWORD,
        "secret_cache_duration": "2",
    }


@contextmanager
def keystone_proxy(
    programs: Path,
    keystone: Keystone,
    home: Path,
    options: Mapping[str, str],
    *,
    port: int = 0,
    console: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[int]:
    """Run a second proxy of the cluster in ``home`` and yield its port.

    It has the filters of the first one, with Keystone's in place of tempauth.

    :param programs: the directory with a martlet-proxy-server that has keystonemiddleware.
    :param options: the options of keystoneauth.
    :param port: 0 chooses one.
    :param console: more options of the console.
    """
    parser = ConfigParser(default_section="", interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(home / "etc" / "proxy-server.conf")
    sections = {name: dict(parser[name]) for name in parser.sections()}
    port = port or free_port()
    filters = "authtoken s3api s3token keystoneauth"
    pipeline = sections["pipeline:main"]["pipeline"].replace("s3api tempauth", filters)
    assert filters in pipeline
    sections["pipeline:main"]["pipeline"] = pipeline
    sections["DEFAULT"] |= {"bind_port": str(port), "workers": "2"}
    sections["filter:authtoken"] = authtoken(keystone)
    sections["filter:s3token"] = s3token(keystone)
    sections["filter:keystoneauth"] = {"use": "egg:martlet#keystoneauth", **options}
    sections["filter:console"] |= console
    del sections["filter:tempauth"]
    conf, output = home / "keystone-proxy.conf", home / "keystone-proxy.log"
    conf.write_text(render(sections))
    with output.open("wb") as log:
        process = subprocess.Popen(
            [programs / "martlet-proxy-server", conf], stdout=log, stderr=log
        )

    def is_up() -> bool:
        assert process.poll() is None, output.read_text()
        try:
            with RawConnection(port) as connection:
                connection.send(b"GET /healthcheck HTTP/1.1\r\nHost: martlet\r\n\r\n")
                return connection.answer().status == 200
        except OSError:
            return False

    try:
        await_true(is_up, "the proxy's first answer")
        yield port
    finally:
        process.terminate()
        process.wait(120)
