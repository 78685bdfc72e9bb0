"""The filter s3api and tempauth before a storage that answers as a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from storage_app import StorageApp

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import HTTPException, Response
from proxy.middleware.auth.tempauth import Tempauth, TempauthOptions
from proxy.middleware.auth.tempauth_users import Resellers, read_users
from proxy.s3.options import S3Options
from proxy.s3.s3api import S3Api

USERS = {"user_test_tester": "testing .admin", "user_test_other": "otherkey"}
HOST = "127.0.0.1:8080"
INFO = {"status": 200, "meta": {}, "sysmeta": {}, "storage_policy": 0, "read_acl": None}


class _Storage(StorageApp):
    """A storage that stops a write whose body is refused, as the proxy's application does."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return super().__call__(environ, start_response)
        except HTTPException as refused:
            return refused(environ, start_response)


class Pipeline:
    """s3api and tempauth before a storage that answers as ``answer`` does."""

    def __init__(self, answer: Callable[[Environ], Response] | None = None, **options: Any) -> None:
        resellers = Resellers.from_options("AUTH", {})
        users = read_users(USERS, resellers, "conf")
        self.storage = _Storage({"/v1/AUTH_test/bucket": INFO}, answer)
        auth = Tempauth(self.storage, TempauthOptions(), users, resellers, b"secret")
        self.app = S3Api(auth, S3Options(**options))

    def ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        user: str = "test:tester",
        key: str = "testing",
        sent: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Sign a request and send it; ``sent`` are headers beside the signed ones."""
        request = AWSRequest(
            method=method, url=f"http://{HOST}{path}", headers=headers or {}, data=body
        )
        S3SigV4Auth(Credentials(user, key), "s3", "us-east-1").add_auth(request)
        signed = {"Host": HOST, **dict(request.headers.items()), **(sent or {})}
        return self.send(method, path, signed, body)

    def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        environ = Request.blank(path, method, headers, body).environ
        environ["CONTENT_LENGTH"] = str(len(body))
        environ["wsgi.input"] = BytesIO(body)
        environ["swift.trans_id"] = "tx1"
        status, header_list, chunks = call_app(self.app, environ)
        lowered = {name.lower(): value for name, value in header_list}
        return int(status[:3]), lowered, b"".join(chunks)


def stored(environ: Environ) -> Response:
    return Response(201 if environ["REQUEST_METHOD"] == "PUT" else 200, {"Etag": "abc"})


def code_of(body: bytes) -> str:
    return body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()
