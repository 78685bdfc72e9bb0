"""A real Keystone for a test: SQLite, Fernet tokens, its WSGI application in its own process."""

from __future__ import annotations

import getpass
import grp
import http.client
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from running_cluster import await_true, free_port

HOST = "127.0.0.1"
PASSWORD = "for this test only"
_CONF = """\
[database]
connection = sqlite:///{directory}/keystone.db
[fernet_tokens]
key_repository = {directory}/fernet-keys
[cache]
enabled = true
backend = dogpile.cache.memory
[token]
provider = fernet
[identity]
# The least that Keystone takes: who logs in a thousand times should not wait for hashes.
password_hash_rounds = 4
[cors]
allowed_origin = {origins}
"""
DEFAULT_DOMAIN = "default"


class Keystone:
    """A Keystone whose projects, users, roles and domains are created through its API.

    A user is created in the domain of the first project in which it gets a role.
    """

    def __init__(self, programs: Path, directory: Path, *origins: str, host: str = HOST) -> None:
        """Create it; ``programs`` has keystone-manage and its Python.

        :param origins: those of web pages that may ask it, such as ``http://127.0.0.1:8080``.
        :param host: the address to listen on.
        """
        self.host, self.port = host, free_port()
        self.url = f"http://{host}:{self.port}"
        self._programs = programs
        self._directory = directory
        self._origins = ",".join(origins)
        self._ids: dict[tuple[str, str], str] = {}
        self._admin_token = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Create the database and the keys, start the server, log in as its first admin."""
        conf = self._directory / "keystone.conf"
        conf.write_text(_CONF.format(directory=self._directory, origins=self._origins))
        # Its middleware for other origins looks for a conf in the usual places alone.
        (self._directory / ".keystone").symlink_to(self._directory)
        (self._directory / "fernet-keys").mkdir(mode=0o700)
        group = grp.getgrgid(os.getgid()).gr_name
        self._manage("db_sync")
        self._manage(
            "fernet_setup", "--keystone-user", getpass.getuser(), "--keystone-group", group
        )
        urls = [f"--bootstrap-{kind}-url={self.url}/v3" for kind in ("public", "admin", "internal")]
        # auth_token finds Keystone's own address in its catalogue.
        region = "--bootstrap-region-id=RegionOne"
        self._manage("bootstrap", f"--bootstrap-password={PASSWORD}", region, *urls)
        script = Path(__file__).with_name("serve_keystone.py")
        with (self._directory / "keystone.log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._programs / "python", script, self._directory, self.host, str(self.port)],
                env={**os.environ, "HOME": str(self._directory)},
                stdout=log,
                stderr=log,
            )
        await_true(self._answers, "Keystone's first answer")
        self._admin_token = self.token("admin", "admin")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(120)

    def make(self, kind: str, name: str, **values: str) -> str:
        """Create a project, user, role or domain unless it exists, and return its id."""
        found = self._call("GET", f"/v3/{kind}s?name={name}")[1][f"{kind}s"]
        if not found:
            wanted = {kind: {"name": name, **values}}
            found = [self._call("POST", f"/v3/{kind}s", wanted)[1][kind]]
        self._ids[kind, name] = found[0]["id"]
        return self.id_of(kind, name)

    def id_of(self, kind: str, name: str) -> str:
        """Return the id of an existing project, user, role or domain."""
        return self._ids[kind, name]

    def grant(
        self,
        user: str,
        project: str,
        role: str,
        password: str = PASSWORD,
        domain: str = DEFAULT_DOMAIN,
    ) -> None:
        """Grant a user a role in a project of a domain's id; create user and project if missing."""
        if ("user", user) not in self._ids:
            self.make("user", user, password=password, domain_id=domain)
        if ("project", project) not in self._ids:
            self.make("project", project, domain_id=domain)
        self.make("role", role)
        path = f"/v3/projects/{self.id_of('project', project)}/users/{self.id_of('user', user)}"
        self._call("PUT", f"{path}/roles/{self.id_of('role', role)}")

    def ec2_credentials(self, user: str, project: str) -> tuple[str, str]:
        """Create an access key of a user for a project; return it with its secret."""
        wanted = {"tenant_id": self.id_of("project", project)}
        path = f"/v3/users/{self.id_of('user', user)}/credentials/OS-EC2"
        made = self._call("POST", path, wanted)[1]["credential"]
        return made["access"], made["secret"]

    def revoke_ec2_credentials(self, user: str, access_key: str) -> None:
        """Delete an access key."""
        path = f"/v3/users/{self.id_of('user', user)}/credentials/OS-EC2/{access_key}"
        self._call("DELETE", path)

    def publish(self, kind: str, url: str) -> None:
        """Add a service with this address to the catalogue."""
        wanted = {"service": {"type": kind, "name": kind}}
        service = self._call("POST", "/v3/services", wanted)[1]["service"]["id"]
        endpoint = {"interface": "public", "region_id": "RegionOne", "service_id": service}
        self._call("POST", "/v3/endpoints", {"endpoint": {**endpoint, "url": url}})

    def revoke(self, token: str) -> None:
        """Revoke a token before it expires."""
        self._call("DELETE", "/v3/auth/tokens", headers={"X-Subject-Token": token})

    def token(self, user: str, project: str, password: str = PASSWORD) -> str:
        """Return a token of a user for a project, both of the default domain."""
        default = {"domain": {"id": DEFAULT_DOMAIN}}
        identity = {
            "methods": ["password"],
            "password": {"user": {"name": user, "password": password, **default}},
        }
        scope = {"project": {"name": project, **default}}
        body = {"auth": {"identity": identity, "scope": scope}}
        headers, _ = self._call("POST", "/v3/auth/tokens", body)
        return headers["x-subject-token"]

    def _call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[dict[str, str], Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        sent = {"X-Auth-Token": self._admin_token, "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {**sent, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert 200 <= answer.status < 300, (method, path, answer.status, text)
        found = {name.lower(): value for name, value in answer.getheaders()}
        return found, json.loads(text) if text else None

    def _manage(self, *arguments: str) -> None:
        conf = self._directory / "keystone.conf"
        command: list[str | Path] = [
            self._programs / "keystone-manage",
            "--config-file",
            conf,
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "keystone.log").read_text()
        try:
            self._call("GET", "/v3")
        except OSError:
            return False
        return True
