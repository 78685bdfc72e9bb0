"""A cluster in memory for the expirer: objects, the queue of tasks, requests that fail."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from martlet.http.backend_client import BackendError
from martlet.http.environ import MADE_OF, Environ, StartResponse
from martlet.http.internal_client import InternalClient
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.expiring import task_container, task_name
from martlet.words.part_numbers import PARTS
from martlet.words.timestamp import Timestamp
from replicator.expirer.options import Delays, ExpirerOptions
from replicator.expirer.passes import Expirer, Figures
from replicator.expirer.queue import Queue

START = 1700000000
ACCOUNT = ".expiring_objects"


class Killed(BaseException):
    """The process ends at this moment."""


@dataclass
class Stored:
    """An object; without a body, its tombstone."""

    time: Timestamp
    delete_at: int | None = None
    is_there: bool = True
    upload: str = ""  # the id of the multipart upload that it was
    manifest: bytes = b""
    old: str = ""  # the same of a version that is not current
    missed: str = ""  # the same of an object that a replica still has, which missed this one
    version: str = ""
    listed: str = ""  # the numbers of its parts


@dataclass
class Cluster:
    """Objects with the rules of an object server, the queue, and requests that fail."""

    objects: dict[str, Stored] = field(default_factory=dict)
    queue: dict[str, dict[str, tuple[Timestamp, str]]] = field(default_factory=dict)
    fails: list[int] = field(default_factory=list)  # statuses; 0 kills the process
    requests: list[tuple[str, str]] = field(default_factory=list)
    updates: list[tuple[int, str, list[str]]] = field(default_factory=list)
    silent: set[int] = field(default_factory=set)  # container servers
    removed: list[str] = field(default_factory=list)
    versions_status: int = 200  # else all questions about versions are answered with it
    now: float = 100  # seconds after START

    def put(self, name: str, at: float, delete_at: int | None = None) -> None:
        """Write an object, and its task as an object server does."""
        path, time = f"/a/c/{name}", Timestamp(START + at)
        known = self.objects.get(path)
        if known is not None and known.time >= time:
            return
        self.objects[path] = Stored(time, delete_at)
        if delete_at is not None:
            self.add_task(delete_at, name, time)

    def add_task(
        self, delete_at: int, name: str, time: Timestamp, kind: str = "text/plain"
    ) -> None:
        container = task_container(name.encode(), delete_at)
        row = task_name(delete_at, "a", "c", name)
        self.queue.setdefault(container, {})[row] = time, kind

    @property
    def tasks(self) -> list[str]:
        return sorted(name for rows in self.queue.values() for name in rows)

    @property
    def there(self) -> set[str]:
        return {path[5:] for path, stored in self.objects.items() if stored.is_there}

    # What the expirer asks of its proxy.

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        req = Request(environ)
        path = req.path.removeprefix("/v1")
        self.requests.append((req.method, path))
        status = self.fails.pop() if self.fails else None
        if status == 0:
            raise Killed
        if status is not None:
            return Response(status)(environ, start_response)
        if path.startswith(f"/{ACCOUNT}"):
            return self._of_queue(req, path)(environ, start_response)
        known = self.objects.get(path)
        headers = {"X-Timestamp": known.time.normal} if known is not None else {}
        if MADE_OF in environ:
            return self._made(known, *environ[MADE_OF])(environ, start_response)
        if known is not None and known.upload:
            headers["X-Object-Sysmeta-S3api-Upload-Id"] = known.upload
        if req.method == "GET":
            assert known is not None
            headers["X-Backend-Data-Timestamp"] = known.time.normal
            if known.version:
                headers["X-Backend-Version-Id"] = known.version
            if known.listed:
                headers[PARTS] = known.listed
            assert req.params["multipart-manifest"] == "get"
            return Response(200, headers, known.manifest)(environ, start_response)
        return Response(self._delete(req, path), headers)(environ, start_response)

    def _made(
        self, known: Stored | None, upload_id: str, removed: str, needs_all: bool
    ) -> Response:
        assert (removed, needs_all) == ("", True)
        if self.versions_status != 200:
            return Response(self.versions_status)
        named = {"X-Object-Sysmeta-S3api-Upload-Id": upload_id}
        if known is not None and known.old == upload_id:
            return Response(200, {**named, "X-Backend-Version-Id": "1600000000.00000"})
        if known is not None and known.missed == upload_id:
            earlier = {**named, "X-Backend-Data-Timestamp": Timestamp(START).normal}
            return Response(200, earlier)
        is_made = known is not None and known.is_there and known.upload == upload_id
        return Response(200, named) if is_made else Response(404)

    def _delete(self, req: Request, path: str) -> int:
        known = self.objects.get(path)
        if req.method == "HEAD":
            assert req.headers["X-Newest"] == "true"
            if known is None or not known.is_there:
                return 404
            is_over = known.delete_at is not None and known.delete_at <= START + self.now
            return 404 if is_over else 200
        assert req.method == "DELETE"
        time = Timestamp(req.headers["X-Timestamp"])
        condition = req.headers.get("X-If-Delete-At")
        if condition is not None:
            if known is None:
                return 404
            if known.time >= time:
                return 409
            if not known.is_there or known.delete_at != int(Timestamp(condition)):
                return 412
        if known is not None and known.time >= time:
            return 409
        self.objects[path] = Stored(time, None, False)
        return 204 if known is not None and known.is_there else 404

    def _of_queue(self, req: Request, path: str) -> Response:
        container = path.removeprefix(f"/{ACCOUNT}").strip("/")
        if req.method == "DELETE":
            if self.queue.get(container):
                return Response(409)
            self.queue.pop(container, None)
            self.removed.append(container)
            return Response(204)
        after, before = req.params["marker"], req.params["end_marker"]
        if container and container not in self.queue:
            return Response(404)
        if container:
            rows = [{"name": n, "content_type": k} for n, (_, k) in self.queue[container].items()]
        else:
            rows = [{"name": name} for name in self.queue]
        shown = sorted((r for r in rows if after < r["name"] < before), key=lambda r: r["name"])
        body = json.dumps(shown[: int(req.params["limit"])])
        return Response(200, {}, body.encode())

    # What it asks of container servers: three of them share the rows here.

    def get_nodes(self, account: str, container: str) -> tuple[int, list[dict[str, Any]]]:
        assert account == ACCOUNT
        return 7, [{"ip": "::1", "port": port, "device": f"d{port}"} for port in range(3)]

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: Any, body: bytes
    ) -> Cluster:
        port = address[1]
        assert method == "UPDATE"
        assert path.startswith(f"/d{port}/7/{ACCOUNT}/")
        if port in self.silent:
            raise BackendError(address, "refused")
        container = path.rpartition("/")[2]
        rows = json.loads(body)
        assert all(row["deleted"] == 1 for row in rows)
        self.updates.append((port, container, [row["name"] for row in rows]))
        for row in rows:
            known = self.queue.get(container, {}).get(row["name"])
            if known and known[0] < Timestamp(row["created_at"]):
                del self.queue[container][row["name"]]
        return self

    status = 202

    def response(self) -> Cluster:
        return self

    def close(self) -> None:
        pass


def expirer(
    cluster: Cluster,
    now: float = 100,
    delays: Delays | None = None,
    page_rows: int = 3,
    **options: Any,
) -> Expirer:
    cluster.now = now
    client = InternalClient(cluster, "test", 1, lambda seconds: None)
    queue = Queue(ACCOUNT, client, cluster, cluster, page_rows)  # type: ignore[arg-type]
    options = {"tasks_per_second": 0.0, "recon_cache_path": "/nowhere/at/all", **options}
    return Expirer(
        ExpirerOptions(**options),
        delays or Delays(),
        client,
        queue,
        lambda: Timestamp(START + now),
    )


def figures(found: Figures) -> dict[str, int | float]:
    return {name: value for name, value in found.as_dict().items() if value and name != "seconds"}
