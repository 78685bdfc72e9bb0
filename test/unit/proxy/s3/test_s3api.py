"""The filter before tempauth: which requests it serves, who is let in, and what it asks for."""

from __future__ import annotations

import json

import pytest
from s3_pipeline import HOST, INFO, Pipeline, code_of, stored

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import SPARES_LARGE, Environ
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.info_registry import clear_info, collect_info
from proxy.s3.s3api import filter_factory


def test_the_account_of_the_user_takes_the_place_of_the_access_key() -> None:
    pipeline = Pipeline(stored)
    status, headers, _ = pipeline.ask("PUT", "/bucket/test%3Atester/k", body=b"x")
    assert (status, headers["etag"]) == (200, '"abc"')
    assert pipeline.storage.calls == ["PUT /v1/AUTH_test/bucket/test:tester/k"]
    assert pipeline.storage.bodies == [b"x"]
    assert "test:tester" in pipeline.storage.environ["REMOTE_USER"].split(",")
    assert headers["x-amz-request-id"] == "tx1"


@pytest.mark.parametrize(
    ("user", "key", "code"),
    [
        ("test:tester", "wrong", "SignatureDoesNotMatch"),
        ("test:nobody", "testing", "InvalidAccessKeyId"),
        ("AUTH_test", "testing", "InvalidAccessKeyId"),
        ("test:tester/../AUTH_test2", "testing", "InvalidAccessKeyId"),
    ],
)
def test_strangers_reach_nothing(user: str, key: str, code: str) -> None:
    pipeline = Pipeline(stored)
    status, _, body = pipeline.ask("GET", "/bucket/k", user=user, key=key)
    assert (status, code_of(body)) == (403, code)
    assert pipeline.storage.calls == []


def test_a_user_without_rights_is_denied() -> None:
    pipeline = Pipeline(stored)
    status, _, body = pipeline.ask("GET", "/bucket/k", user="test:other", key="otherkey")
    assert (status, code_of(body)) == (403, "AccessDenied")


@pytest.mark.parametrize("header", ["X-Auth-Token", "X-Storage-Token", "X-Service-Token"])
def test_a_token_adds_no_rights_to_a_signature(header: str) -> None:
    pipeline = Pipeline(stored)
    pipeline.ask("GET", "/bucket/k", sent={header: "AUTH_tk"})
    assert f"HTTP_{header.upper().replace('-', '_')}" not in pipeline.storage.environ


def test_a_header_that_came_by_another_way_is_not_taken_for_a_decision() -> None:
    pipeline = Pipeline(stored)
    environ = Request.blank("/bucket/k", headers={"Authorization": "AWS test:tester:x"}).environ
    environ |= {"swift.authorize_override": True, "REMOTE_USER": ".admin", "swift_owner": True}
    environ["HTTP_DATE"] = "Thu, 01 Jan 1970 00:00:00 GMT"
    status, _, _ = call_app(pipeline.app, environ)
    assert status[:3] == "403"
    assert pipeline.storage.calls == []


@pytest.mark.parametrize("path", ["/v1/AUTH_test/c/o", "/info", "/auth/v1.0", "/bucket/k", "/"])
def test_requests_without_a_signature_pass(path: str) -> None:
    pipeline = Pipeline(stored)
    seen = []
    pipeline.app._app = lambda environ, start: (
        seen.append(environ["PATH_INFO"]) or Response(200)(environ, start)
    )
    pipeline.send("GET", path, {"Host": HOST})
    assert seen == [path]


def test_a_bucket_in_the_host_belongs_to_s3() -> None:
    pipeline = Pipeline(stored, storage_domain=["s3.test"])
    status, _, body = pipeline.send("GET", "/k", {"Host": "bucket.s3.test"})
    assert (status, code_of(body)) == (403, "AccessDenied")
    assert pipeline.storage.calls == []


def test_a_head_has_no_body() -> None:
    pipeline = Pipeline(lambda environ: Response(404))
    status, headers, body = pipeline.ask("HEAD", "/bucket/k")
    assert (status, body) == (404, b"")
    assert headers["content-type"] == "application/xml"


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (400, "Metadata value longer than 256", (400, "MetadataTooLarge")),
        (400, "Non-integer X-Delete-At", (400, "InvalidArgument")),
        (413, "Upload exceeds quota.", (400, "EntityTooLarge")),
        (422, "", (400, "BadDigest")),
        (429, "", (503, "SlowDown")),
        (498, "", (503, "SlowDown")),
        (503, "", (503, "ServiceUnavailable")),
        (500, "", (500, "InternalError")),
        (507, "", (503, "ServiceUnavailable")),
        (412, "", (412, "PreconditionFailed")),
        (404, "", (404, "NoSuchKey")),
        (405, "", (405, "MethodNotAllowed")),
    ],
)
def test_statuses_of_the_pipeline(status: int, text: str, expected: tuple[int, str]) -> None:
    pipeline = Pipeline(lambda environ: Response(status, {}, text))
    found, _, body = pipeline.ask("PUT", "/bucket/k", body=b"x")
    assert (found, code_of(body)) == expected


def _overtaken(environ: Environ) -> Response:
    """A storage that has a newer object than the one that is written."""
    is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
    return Response(200, {"Etag": "e", "Content-Length": "0"}) if is_read else Response(202)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/bucket/k", {}),
        ("/bucket/k", {"x-amz-copy-source": "/bucket/other"}),
        ("/bucket/k?uploadId=up&partNumber=1", {}),
        ("/bucket/k?uploadId=up&partNumber=1", {"x-amz-copy-source": "/bucket/other"}),
    ],
)
def test_a_write_that_a_newer_object_has_overtaken_is_to_be_tried_again(
    path: str, headers: dict[str, str]
) -> None:
    pipeline = Pipeline(_overtaken)
    status, _, body = pipeline.ask("PUT", path, headers, b"" if headers else b"x")
    assert (status, code_of(body)) == (503, "ServiceUnavailable")
    assert b"A newer object was written meanwhile. Try again." in body


def test_an_upload_whose_object_a_newer_one_has_overtaken_is_kept() -> None:
    pipeline = Pipeline(_overtaken)
    part = "<Part><PartNumber>1</PartNumber><ETag>0cc175b9c0f1b6a831c399e269772661</ETag></Part>"
    document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    status, _, body = pipeline.ask("POST", "/bucket/k?uploadId=up", body=document)
    assert (status, code_of(body)) == (503, "ServiceUnavailable")
    assert not [call for call in pipeline.storage.calls if call.startswith("DELETE")]


def test_an_unknown_error_has_a_document_and_no_details() -> None:
    def fail(environ: Environ) -> Response:
        raise RuntimeError("a secret")

    status, _, body = Pipeline(fail).ask("GET", "/bucket/k")
    assert (status, code_of(body)) == (500, "InternalError")
    assert b"secret" not in body


def test_deletes_delete_parts_too() -> None:
    def answer(environ: Environ) -> Response:
        if environ["REQUEST_METHOD"] == "HEAD":
            return Response(200, {"X-Static-Large-Object": "True", "Etag": "e"})
        if SPARES_LARGE in environ:
            return Response(409, {"X-Static-Large-Object": "true"})
        report = {"Response Status": "200 OK", "Errors": []}
        return Response(200, {"Content-Type": "application/json"}, json.dumps(report))

    pipeline = Pipeline(answer)
    assert pipeline.ask("DELETE", "/bucket/k")[0] == 204
    assert pipeline.storage.environ["QUERY_STRING"] == "multipart-manifest=delete"


def test_deletes_without_parts_are_one_request() -> None:
    pipeline = Pipeline(lambda environ: Response(204))
    assert pipeline.ask("DELETE", "/bucket/k")[0] == 204
    assert pipeline.storage.calls == ["DELETE /v1/AUTH_test/bucket/k"]


def test_headers_of_metadata_in_both_directions() -> None:
    pipeline = Pipeline(stored)
    pipeline.ask("PUT", "/bucket/k", {"x-amz-meta-color": "blue"}, b"x")
    assert pipeline.storage.environ["HTTP_X_OBJECT_META_COLOR"] == "blue"
    pipeline = Pipeline(
        lambda environ: Response(
            200, {"Etag": "e", "X-Object-Meta-Under%5Fscore": "1", "X-Trans-Id": "tx"}, b""
        )
    )
    _, headers, _ = pipeline.ask("GET", "/bucket/k")
    assert headers["x-amz-meta-under_score"] == "1"


@pytest.mark.parametrize(
    "conf",
    [
        {"max_bucket_listing": "0"},
        {"bucket_namespace": "both"},
        {"s3_acl": "true"},
        {"min_segment_size": "-1"},
        {"location": ""},
        {"unknown": "1"},
    ],
)
def test_wrong_options_are_refused(conf: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        filter_factory({}, **conf)


LIFECYCLE = (
    b"<LifecycleConfiguration><Rule><ID>old logs</ID><Filter><Prefix>logs/</Prefix></Filter>"
    b"<Status>Enabled</Status><Expiration><Days>2</Days></Expiration></Rule>"
    b"</LifecycleConfiguration>"
)


def test_lifecycle_rules_are_stored_and_tell_when_an_object_expires() -> None:
    pipeline = Pipeline(lambda environ: Response(204))
    assert pipeline.ask("GET", "/bucket?lifecycle")[0] == 404
    status, _, body = pipeline.ask("PUT", "/bucket?lifecycle", body=LIFECYCLE)
    assert (status, body) == (200, b"")
    environ = pipeline.storage.environ
    assert environ["REQUEST_METHOD"] == "POST"
    header = environ["HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_LIFECYCLE"]
    info = {**INFO, "sysmeta": {"s3api-setting-lifecycle": header}}
    written = {
        "X-Backend-Data-Timestamp": "1700000000.00000",
        "X-Container-Sysmeta-S3Api-Setting-Lifecycle": header,
        "Etag": "abc",
    }
    pipeline = Pipeline(lambda environ: Response(200, written))
    pipeline.storage.infos["/v1/AUTH_test/bucket"] = info
    status, _, body = pipeline.ask("GET", "/bucket?lifecycle")
    assert status == 200
    assert LIFECYCLE.partition(b"<Rule>")[2] in body.replace(b"\n", b"")
    for method in ("GET", "HEAD"):
        headers = pipeline.ask(method, "/bucket/logs/a")[1]
        expected = 'expiry-date="Fri, 17 Nov 2023 00:00:00 GMT", rule-id="old%20logs"'
        assert headers["x-amz-expiration"] == expected
        assert "x-amz-expiration" not in pipeline.ask(method, "/bucket/other")[1]
        by_id = pipeline.ask(method, "/bucket/logs/a?versionId=1700000000.00000")[1]
        assert "x-amz-expiration" not in by_id
    assert 'rule-id="old%20logs"' in pipeline.ask("PUT", "/bucket/logs/a")[1]["x-amz-expiration"]


def test_damaged_lifecycle_rules_do_not_keep_objects_from_being_read() -> None:
    info = {**INFO, "sysmeta": {"s3api-setting-lifecycle": "1:damaged"}}
    pipeline = Pipeline(lambda environ: Response(200, {"X-Timestamp": "1700000000.00000"}, b"x"))
    pipeline.storage.infos["/v1/AUTH_test/bucket"] = info
    assert pipeline.ask("GET", "/bucket/key")[0] == 200


def test_the_limits_are_in_info() -> None:
    clear_info()
    filter_factory({}, max_bucket_listing="7", s3_acl="false", check_bucket_owner="true")
    assert collect_info()["s3api"]["max_bucket_listing"] == 7
    clear_info()
