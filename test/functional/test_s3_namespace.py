"""Buckets whose names are unique in the cluster, and requests without a signature."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import new_bucket, outcomes_of, s3_client, send
from swift_api import Account

from cluster.confs import PIPELINE
from cluster.ports import HOST

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def ports(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, int]]:
    """Two proxies with one namespace."""
    directory = tmp_path_factory.mktemp("proxies")
    options = {"use": "egg:martlet#s3api", "bucket_namespace": "cluster"}
    domains = {"storage_domain": "s3.example.com", "website_domain": "web.example.com"}
    sections = {"filter:s3api": {**options, **domains}}
    with (
        OtherProxy(cluster, directory, PIPELINE, sections) as first,
        OtherProxy(cluster, directory, PIPELINE, sections) as second,
    ):
        yield first.port, second.port


@pytest.fixture
def blue(ports: tuple[int, int]) -> Any:
    return s3_client(ports[0])


@pytest.fixture
def red(ports: tuple[int, int]) -> Any:
    """A user of another account, at the other proxy."""
    return s3_client(ports[1], "test2:tester2", "testing2")


@pytest.fixture
def anonymous(ports: tuple[int, int]) -> Any:
    config = Config(
        signature_version=UNSIGNED, s3={"addressing_style": "path"}, retries={"max_attempts": 0}
    )
    url = f"http://{HOST}:{ports[0]}"
    return boto3.session.Session().client("s3", endpoint_url=url, config=config, region_name="x")


@pytest.fixture
def name() -> str:
    return f"shared-{next(_numbers)}-{os.getpid()}"


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def test_the_first_account_gets_the_name(blue: Any, red: Any, name: str) -> None:
    assert refused(red.list_objects_v2, Bucket=name) == "NoSuchBucket"
    blue.create_bucket(Bucket=name)
    assert refused(blue.create_bucket, Bucket=name) == "BucketAlreadyOwnedByYou"
    assert refused(red.create_bucket, Bucket=name) == "BucketAlreadyExists"
    assert refused(red.list_objects_v2, Bucket=name) == "AccessDenied"
    assert refused(red.delete_bucket, Bucket=name) == "AccessDenied"
    blue.put_object(Bucket=name, Key="k", Body=b"x")
    assert refused(blue.delete_bucket, Bucket=name) == "BucketNotEmpty"
    blue.delete_object(Bucket=name, Key="k")
    blue.delete_bucket(Bucket=name)
    red.create_bucket(Bucket=name)
    assert name in [row["Name"] for row in red.list_buckets()["Buckets"]]
    red.delete_bucket(Bucket=name)


def test_of_two_that_come_at_once_one_gets_the_name(blue: Any, red: Any) -> None:
    for _ in range(5):
        bucket = f"raced-{next(_numbers)}-{os.getpid()}"
        calls = [functools.partial(s3.create_bucket, Bucket=bucket) for s3 in (blue, red) * 3]
        said = outcomes_of(calls)
        others = "BucketAlreadyExists"
        winners = {number % 2 for number, word in enumerate(said) if word != others}
        assert len(winners) == 1, said
        assert said.count(others) == 3, said
        winner, loser = (blue, red) if winners == {0} else (red, blue)
        winner.put_object(Bucket=bucket, Key="k", Body=b"x")
        assert refused(loser.get_object, Bucket=bucket, Key="k") == "AccessDenied"


def test_acls_are_for_users_of_other_accounts(
    blue: Any, red: Any, name: str, account: Account
) -> None:
    blue.create_bucket(Bucket=name)
    blue.put_object(Bucket=name, Key="k", Body=b"x")
    grant = {"X-Container-Read": "test2", "X-Container-Write": "test2"}
    assert account.call("POST", name, headers=grant).status == 204
    fresh = red  # the other proxy has not seen the container before
    assert fresh.get_object(Bucket=name, Key="k")["Body"].read() == b"x"
    fresh.put_object(Bucket=name, Key="from red", Body=b"y")
    own = f"{name}-red"
    red.create_bucket(Bucket=own)
    red.copy_object(Bucket=own, Key="copy", CopySource=f"{name}/k")
    assert red.get_object(Bucket=own, Key="copy")["Body"].read() == b"x"
    owner = {"ExpectedBucketOwner": account.path.rpartition("/")[2]}
    assert red.head_object(Bucket=name, Key="k", **owner)
    assert refused(red.get_object, Bucket=name, Key="k", ExpectedBucketOwner="x") == "AccessDenied"


def test_containers_are_entered_by_their_owner(
    blue: Any, red: Any, name: str, account: Account
) -> None:
    assert account.call("PUT", name).status == 201
    assert refused(blue.head_bucket, Bucket=name) == "404"
    assert refused(blue.create_bucket, Bucket=name) == "BucketAlreadyOwnedByYou"
    blue.head_bucket(Bucket=name)
    assert refused(red.create_bucket, Bucket=name) == "BucketAlreadyExists"


def test_a_user_who_may_not_create_claims_nothing(
    ports: tuple[int, int], red: Any, name: str
) -> None:
    unprivileged = s3_client(ports[0], "test:tester3", "testing3")
    assert refused(unprivileged.create_bucket, Bucket=name) == "AccessDenied"
    red.create_bucket(Bucket=name)


def test_requests_without_a_signature(
    blue: Any, anonymous: Any, ports: tuple[int, int], name: str
) -> None:
    blue.create_bucket(Bucket=name)
    blue.put_object(Bucket=name, Key="k", Body=b"public")
    assert refused(anonymous.get_object, Bucket=name, Key="k") == "AccessDenied"
    assert refused(anonymous.list_objects_v2, Bucket=name) == "AccessDenied"
    blue.put_bucket_acl(Bucket=name, ACL="public-read")
    assert anonymous.get_object(Bucket=name, Key="k")["Body"].read() == b"public"
    assert anonymous.head_object(Bucket=name, Key="k")["ContentLength"] == 6
    assert [row["Key"] for row in anonymous.list_objects_v2(Bucket=name)["Contents"]] == ["k"]
    assert refused(anonymous.get_object, Bucket=name, Key="absent") == "NoSuchKey"
    assert refused(anonymous.put_object, Bucket=name, Key="k", Body=b"") == "AccessDenied"
    assert refused(anonymous.delete_object, Bucket=name, Key="k") == "AccessDenied"
    assert refused(anonymous.delete_bucket, Bucket=name) == "AccessDenied"
    assert refused(anonymous.create_bucket, Bucket=name) == "AccessDenied"
    url = f"http://{name}.s3.example.com/k"
    assert send(ports[0], "GET", url, {"Host": f"{name}.s3.example.com"}).body == b"public"


def test_what_names_no_bucket_is_for_swifts_api(ports: tuple[int, int]) -> None:
    for path, status in (("/info", 200), ("/v1/AUTH_test", 401), ("/no-such-bucket/k", 400)):
        answer = send(ports[0], "GET", f"http://{HOST}:{ports[0]}{path}", {})
        assert (answer.status, answer.code) == (status, "")


def test_a_website(blue: Any, ports: tuple[int, int]) -> None:
    bucket = new_bucket(blue)
    rules = [
        {"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "new/"}}
    ]
    site = {
        "IndexDocument": {"Suffix": "index.html"},
        "ErrorDocument": {"Key": "sorry.html"},
        "RoutingRules": rules,
    }
    blue.put_bucket_website(Bucket=bucket, WebsiteConfiguration=site)
    found = blue.get_bucket_website(Bucket=bucket)
    assert {name: found[name] for name in site} == site
    blue.put_bucket_acl(Bucket=bucket, ACL="public-read")
    for key, more in (("a/index.html", {}), ("sorry.html", {}), ("moved", {"to": "/a/"})):
        location = {"WebsiteRedirectLocation": more["to"]} if more else {}
        blue.put_object(Bucket=bucket, Key=key, Body=key.encode(), **location)
    assert blue.head_object(Bucket=bucket, Key="moved")["WebsiteRedirectLocation"] == "/a/"
    base = f"http://{bucket}.web.example.com"
    for path, status, expected in (
        ("/a/", 200, b"a/index.html"),
        ("/no", 404, b"sorry.html"),
        ("/a", 302, f"{base}/a/"),
        ("/old/x", 301, f"{base}/new/x"),
        ("/moved", 301, "/a/"),
    ):
        url = f"{base}{path}"
        answer = send(ports[1], "GET", url, {"Host": f"{bucket}.web.example.com"})
        assert (answer.status, answer.headers.get("location", answer.body)) == (status, expected)
    blue.delete_bucket_website(Bucket=bucket)
    with pytest.raises(ClientError, match="NoSuchWebsiteConfiguration"):
        blue.get_bucket_website(Bucket=bucket)
