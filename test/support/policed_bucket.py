"""A bucket behind s3api and tempauth, with a policy and other settings, without servers."""

from __future__ import annotations

import json
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from storage_app import StorageApp

from martlet.http.call import call_app
from martlet.http.environ import MADE_OF, Environ
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.middleware.auth.tempauth import Tempauth, TempauthOptions
from proxy.middleware.auth.tempauth_users import Resellers, read_users
from proxy.s3.options import S3Options
from proxy.s3.s3api import S3Api
from proxy.s3.settings import headers_of

USERS = {
    "user_blue_ann": "annskey .admin",
    "user_blue_bob": "bobskey",
    "user_red_rob": "robskey .admin",
}
KEYS = {"blue:ann": "annskey", "blue:bob": "bobskey", "red:rob": "robskey"}
HOST = "127.0.0.1:8080"
MAP = "/v1/.martlet_s3/buckets/"


def sysmeta_of(name: str, document: bytes) -> dict[str, str]:
    """A setting as the information about a container has it."""
    prefix = len("X-Container-Sysmeta-")
    found = headers_of(name, document).items()
    return {key.lower()[prefix:]: value for key, value in found if value}


class Cluster:
    """s3api and tempauth before a storage with the bucket ``box`` of the account AUTH_blue."""

    def __init__(self, *statements: dict[str, Any], namespace: str = "cluster") -> None:
        resellers = Resellers.from_options("AUTH", {})
        users = read_users(USERS, resellers, "conf")
        self.sysmeta: dict[str, str] = {}
        #: The container's X-Container-Read, as it is shown.
        self.read_header = ""
        self.head: dict[str, str] = {}
        #: The parts of each object, if it is large.
        self.manifest: list[dict[str, str]] = []
        #: Paths that are answered 404.
        self.missing: set[str] = set()
        self.storage = StorageApp({}, self._answer)
        self.show()
        if statements:
            self.set_policy(*statements)
        auth = Tempauth(self.storage, TempauthOptions(), users, resellers, b"secret")
        self.auth = auth
        self.app = S3Api(auth, S3Options(bucket_namespace=namespace))

    def show(self) -> None:
        info = {"status": 200, "meta": {}, "sysmeta": self.sysmeta, "storage_policy": 0}
        for name in ("box", "box+segments"):
            sysmeta = self.sysmeta if name == "box" else {}
            self.storage.infos[f"/v1/AUTH_blue/{name}"] = {**info, "sysmeta": sysmeta}

    def set_policy(self, *statements: dict[str, Any]) -> None:
        document = {"Version": "2012-10-17", "Statement": [for_box(s) for s in statements]}
        self.sysmeta |= sysmeta_of("Policy", json.dumps(document).encode())

    def _answer(self, environ: Environ) -> Response:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path in self.missing or MADE_OF in environ:
            return Response(404)
        if path.startswith(MAP):
            return Response(200, {"X-Object-Sysmeta-S3Api-Account": "AUTH_blue"})
        if path in ("/v1/AUTH_blue/box", "/v1/AUTH_blue/box+segments"):
            if method == "GET":
                return Response(200, {}, "[]")
            shown = {f"X-Container-Sysmeta-{k}": v for k, v in self.sysmeta.items()}
            return Response(204, {**shown, "X-Container-Read": self.read_header})
        if method == "HEAD" and path.count("/") == 3:
            return Response(404)
        if environ["QUERY_STRING"] == "multipart-manifest=get":
            return Response(200, self.head, json.dumps(self.manifest))
        status = {"PUT": 201, "DELETE": 204, "POST": 202}.get(method, 200)
        return Response(status, {"Etag": "abc", **self.head})

    def ask(
        self,
        user: str | None,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> tuple[int, str]:
        """Make an S3 request; return the status and the code of the error."""
        sent = dict(headers or {})
        if user is not None:
            request = AWSRequest(method=method, url=f"http://{HOST}{path}", headers=sent, data=body)
            S3SigV4Auth(Credentials(user, KEYS[user]), "s3", "us-east-1").add_auth(request)
            sent = dict(request.headers.items())
        return self.send(self.app, method, path, {"Host": HOST, **sent}, body)

    def swift(self, user: str | None, method: str, path: str, **headers: str) -> int:
        """Make a request of Swift's API and return the status."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if user is not None:
            login = {"X-Auth-User": user, "X-Auth-Key": KEYS[user]}
            environ = Request.blank("/auth/v1.0", "GET", login).environ
            _, answered, _ = call_app(self.auth, environ)
            sent["X-Auth-Token"] = dict(answered)["X-Auth-Token"]
        return self.send(self.auth, method, f"/v1/AUTH_blue/{path}", sent, b"")[0]

    def send(
        self, app: Any, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, str]:
        environ = Request.blank(path, method, headers, body).environ
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["REMOTE_ADDR"] = "192.0.2.7"
        environ["swift.trans_id"] = "tx1"
        status, _, chunks = call_app(app, environ)
        text = b"".join(chunks)
        return int(status[:3]), text.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


def for_box(statement: dict[str, Any]) -> dict[str, Any]:
    resource = ["arn:aws:s3:::box", "arn:aws:s3:::box/*"]
    return {"Effect": "Allow", "Principal": "*", "Resource": resource, **statement}


def allow(*actions: str, **changes: Any) -> dict[str, Any]:
    return {"Action": [f"s3:{action}" for action in actions], **changes}


def deny(*actions: str, **changes: Any) -> dict[str, Any]:
    return allow(*actions, Effect="Deny", **changes)


REFUSED = (403, "AccessDenied")
