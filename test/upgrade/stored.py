"""Things that the first release stores, and questions whose answers must stay the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator

from api_clients import OTHER, Check, Clients
from swift_api import Answer

_SIZES = (0, 1, 100, 4096, 4096, 70_000, 300_000)
_SMALL_COUNT = 42
_PART_BYTES = 5 * 2**20
_LARGE_BYTES = 3 * 2**20
_META = "x-object-meta-kept"


def content(name: str, size: int) -> bytes:
    """The bytes of an object, unique to its name."""
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


class Stored:
    """Writes everything once. ``checks`` asks for it, ``finish`` ends the unfinished upload."""

    def __init__(self, clients: Clients) -> None:
        self.checks: list[Check] = []
        self._clients = clients
        self._upload = ""
        for write in (
            self._small,
            self._large,
            self._shared,
            self._swift_versions,
            self._s3_versions,
            self._multipart,
        ):
            self.checks += list(write())

    def names(self) -> Iterator[tuple[str, str]]:
        """The containers and names of all objects that are asked for by themselves."""
        for check in self.checks:
            container, slash, name = check.what.partition("/")
            if slash:
                yield container, name.partition(" ")[0]

    def finish(self) -> None:
        """Upload the last part of the upload that the first release began, and complete it."""
        bucket, key = "kept-parts", "unfinished"
        first, last = content("part 1", _PART_BYTES), content("part 2", 1000)
        asked = {"Bucket": bucket, "Key": key, "UploadId": self._upload}
        etag = self._clients.s3.upload_part(**asked, PartNumber=2, Body=last)["ETag"]
        listed = self._clients.s3.list_parts(**asked)["Parts"]
        assert [part["PartNumber"] for part in listed] == [1, 2], listed
        assert listed[1]["ETag"] == etag
        parts = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in listed]
        self._clients.s3.complete_multipart_upload(**asked, MultipartUpload={"Parts": parts})
        self.checks.append(_s3_body(bucket, key, first + last))

    def _must(self, answer: Answer) -> Answer:
        assert answer.status in (200, 201, 202, 204), answer
        return answer

    def _put(self, container: str, name: str, body: bytes, **headers: str) -> Answer:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self._must(self._clients.own.call("PUT", container, name, headers=named, body=body))

    def _container(self, name: str, **headers: str) -> str:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        self._must(self._clients.own.call("PUT", name, headers=named))
        return name

    def _small(self) -> Iterator[Check]:
        """Objects of all sizes: some with later metadata, some deleted, and their listing."""
        container = self._container("kept-small", x_container_meta_kept="yes")
        rows = []
        for number in range(_SMALL_COUNT):
            name = f"object {number:02}/ü"
            body = content(name, _SIZES[number % len(_SIZES)])
            self._put(container, name, body, x_object_meta_kept="1")
            if number % 5 == 0:
                self._must(self._clients.own.call("POST", container, name, headers={_META: "2"}))
            if number % 7 == 3:
                self._must(self._clients.own.call("DELETE", container, name))
                yield Check(f"{container}/{name}", _status(container, name), 404)
                continue
            wanted = (200, hashlib.md5(body).hexdigest(), "2" if number % 5 == 0 else "1")
            yield Check(f"{container}/{name}", _body_and_meta(container, name), wanted)
            rows.append((name, len(body), hashlib.md5(body).hexdigest()))
        self._await_rows(container, len(rows))
        yield Check(f"listing of {container}", _rows(container), rows)
        wanted_head = (204, str(len(rows)), str(sum(size for _, size, _ in rows)), "yes")
        yield Check(f"HEAD of {container}", _totals(container), wanted_head)

    def _large(self) -> Iterator[Check]:
        """An object in a file of its own, large objects of both kinds, a symlink."""
        container = self._container("kept-large")
        segments = self._container("kept-segments")
        body = content("large", _LARGE_BYTES)
        self._put(container, "large", body)
        yield _swift_body(container, "large", body)
        yield _swift_body(container, "large", body[65_000:200_000], "bytes=65000-199999")
        pieces = [content(f"segment {number}", 300_000) for number in range(3)]
        for number, piece in enumerate(pieces):
            self._put(segments, f"s/{number}", piece)
        paths = [{"path": f"/{segments}/s/{number}"} for number in range(3)]
        manifest = json.dumps(paths).encode()
        as_manifest = {"multipart-manifest": "put"}
        own = self._clients.own
        self._must(own.call("PUT", container, "static", headers=None, body=manifest, **as_manifest))
        self._put(container, "dynamic", b"", x_object_manifest=f"{segments}/s/")
        whole = b"".join(pieces)
        self._await_rows(segments, len(pieces))
        for name in ("static", "dynamic"):
            yield _swift_body(container, name, whole)
            yield _swift_body(container, name, whole[299_000:301_000], "bytes=299000-300999")
        self._put(container, "link", b"", x_symlink_target=f"{container}/large")
        yield _swift_body(container, "link", body)

    def _shared(self) -> Iterator[Check]:
        """An object that another account may read, one that it may not, and a quota."""
        shared = self._container("kept-shared", x_container_read=OTHER[0])
        private = self._container("kept-private", x_container_meta_quota_bytes="10")
        for container in (shared, private):
            self._put(container, "object", b"12345")

        def as_other(container: str) -> Callable[[Clients], object]:
            return lambda clients: clients.status_for_other(container, "object")

        yield Check(f"{shared}/object of another account", as_other(shared), 200)
        yield Check(f"{private}/object of another account", as_other(private), 403)
        yield Check(
            f"quota of {private}",
            lambda clients: clients.own.call("PUT", private, "more", body=b"x" * 20).status,
            413,
        )

    def _swift_versions(self) -> Iterator[Check]:
        """Versions of Swift's API below a deleted name."""
        container = self._container("kept-history", x_versions_enabled="true")
        bodies = [content(f"history {number}", 4096) for number in range(4)]
        answers = [self._put(container, "object", body) for body in bodies]
        self._must(self._clients.own.call("DELETE", container, "object"))
        ids = [answer.headers["x-object-version-id"] for answer in answers]
        for version, body in zip(ids, bodies, strict=True):
            yield _swift_body(container, "object", body, version=version)
        yield Check(f"{container}/object deleted", _status(container, "object"), 404)

        def listed(clients: Clients) -> object:
            rows = clients.own.call("GET", container, versions="true", format="json").json
            return [row["version_id"] for row in rows][1:]  # the first one is the delete marker

        yield Check(f"versions of {container}", listed, ids[::-1])

    def _s3_versions(self) -> Iterator[Check]:
        """Versions and a delete marker of S3, and tags."""
        bucket = "kept-versions"
        self._clients.s3.create_bucket(Bucket=bucket)
        self._clients.s3.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
        )
        ids = []
        for number in range(5):
            body = content(f"version {number}", 5000)
            put = self._clients.s3.put_object(
                Bucket=bucket, Key="key", Body=body, Tagging=f"number={number}"
            )
            ids.append(put["VersionId"])
            yield _s3_body(bucket, "key", body, put["VersionId"])
        marker = self._clients.s3.delete_object(Bucket=bucket, Key="key")["VersionId"]
        ids.append(marker)

        def listed(clients: Clients) -> object:
            found = clients.s3.list_object_versions(Bucket=bucket)
            latest = [one["VersionId"] for one in found["DeleteMarkers"] if one["IsLatest"]]
            return latest + [one["VersionId"] for one in found["Versions"]]

        yield Check(f"versions of {bucket}", listed, ids[::-1])

        def tags(clients: Clients) -> object:
            return clients.s3.get_object_tagging(Bucket=bucket, Key="key", VersionId=ids[2])[
                "TagSet"
            ]

        yield Check(f"tags of {bucket}", tags, [{"Key": "number", "Value": "2"}])

    def _multipart(self) -> Iterator[Check]:
        """An upload in parts, and another one that stays unfinished."""
        bucket = "kept-parts"
        self._clients.s3.create_bucket(Bucket=bucket)
        pieces = [content("one", _PART_BYTES), content("two", 1000)]
        upload_in_parts(self._clients, bucket, "whole", pieces)
        body = b"".join(pieces)
        yield _s3_body(bucket, "whole", body)
        edge = slice(_PART_BYTES - 10, _PART_BYTES + 10)
        yield _s3_body(
            bucket, "whole", body[edge], bytes_range=f"bytes={edge.start}-{edge.stop - 1}"
        )
        asked = {"Bucket": bucket, "Key": "unfinished"}
        self._upload = self._clients.s3.create_multipart_upload(**asked)["UploadId"]
        self._clients.s3.upload_part(
            **asked, UploadId=self._upload, PartNumber=1, Body=content("part 1", _PART_BYTES)
        )

    def _await_rows(self, container: str, count: int) -> None:
        self._clients.own.await_names(
            sorted(self._clients.own.call("GET", container).lines), container
        )
        names = self._clients.own.call("GET", container).lines
        assert len(names) == count, names


def upload_in_parts(clients: Clients, bucket: str, key: str, pieces: list[bytes]) -> None:
    """Upload the pieces as the parts of an object."""
    asked = {"Bucket": bucket, "Key": key}
    upload = clients.s3.create_multipart_upload(**asked)["UploadId"]
    parts = []
    for number, piece in enumerate(pieces, 1):
        answer = clients.s3.upload_part(**asked, UploadId=upload, PartNumber=number, Body=piece)
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    clients.s3.complete_multipart_upload(**asked, UploadId=upload, MultipartUpload={"Parts": parts})


def _status(container: str, name: str) -> Callable[[Clients], object]:
    return lambda clients: clients.own.call("GET", container, name).status


def _body_and_meta(container: str, name: str) -> Callable[[Clients], object]:
    def ask(clients: Clients) -> object:
        answer = clients.own.call("GET", container, name)
        return answer.status, hashlib.md5(answer.body).hexdigest(), answer.headers.get(_META)

    return ask


def _rows(container: str) -> Callable[[Clients], object]:
    def ask(clients: Clients) -> object:
        rows = clients.own.call("GET", container, format="json").json
        return [(row["name"], row["bytes"], row["hash"]) for row in rows]

    return ask


def _totals(container: str) -> Callable[[Clients], object]:
    def ask(clients: Clients) -> object:
        answer = clients.own.call("HEAD", container)
        names = ("object-count", "bytes-used", "meta-kept")
        return answer.status, *(answer.headers.get(f"x-container-{name}") for name in names)

    return ask


def _swift_body(
    container: str, name: str, body: bytes, bytes_range: str = "", version: str = ""
) -> Check:
    headers = {"Range": bytes_range} if bytes_range else {}
    query = {"version-id": version} if version else {}

    def ask(clients: Clients) -> object:
        answer = clients.own.call("GET", container, name, headers=headers, body=None, **query)
        return answer.status, answer.body == body, len(answer.body)

    what = f"{container}/{name} {bytes_range}{version}"
    return Check(what, ask, (206 if bytes_range else 200, True, len(body)))


def _s3_body(bucket: str, key: str, body: bytes, version: str = "", bytes_range: str = "") -> Check:
    asked = {"Bucket": bucket, "Key": key}
    if version:
        asked["VersionId"] = version
    if bytes_range:
        asked["Range"] = bytes_range

    def ask(clients: Clients) -> object:
        found = clients.s3.get_object(**asked)["Body"].read()
        return found == body, len(found)

    return Check(f"{bucket}/{key} {version}{bytes_range}", ask, (True, len(body)))
