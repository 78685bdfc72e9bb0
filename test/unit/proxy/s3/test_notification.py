"""Notification rules: which documents are accepted, and which events a rule wants."""

from __future__ import annotations

import pytest
from s3_pipeline import INFO, Pipeline, code_of

from martlet.http.environ import NOTIFICATION_TARGETS, Environ
from martlet.http.response import Response
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.notification import Rule, rules_of_xml, xml_of_rules

ARN = "arn:martlet:sqs::orders:webhook"


def document(*configurations: str) -> bytes:
    inner = "".join(f"<QueueConfiguration>{c}</QueueConfiguration>" for c in configurations)
    return f"<NotificationConfiguration>{inner}</NotificationConfiguration>".encode()


def configuration(
    event: str = "s3:ObjectCreated:*", queue: str = ARN, id: str = "one", **sides: str
) -> str:
    rules = "".join(
        f"<FilterRule><Name>{name}</Name><Value>{value}</Value></FilterRule>"
        for name, value in sides.items()
    )
    wanted = f"<Filter><S3Key>{rules}</S3Key></Filter>" if rules else ""
    return f"<Id>{id}</Id><Queue>{queue}</Queue><Event>{event}</Event>{wanted}"


def test_a_rule_and_its_document() -> None:
    text = configuration("s3:ObjectCreated:Put", prefix="in/", Suffix=" .jpg")
    (rule,) = rules_of_xml(document(text), {"orders"})
    assert rule == Rule("one", ARN, "orders", ("s3:ObjectCreated:Put",), "in/", " .jpg")
    assert rules_of_xml(xml_of_rules([rule]), None) == (rule,)
    assert rule.wants("s3:ObjectCreated:Put", "in/a .jpg")
    assert not rule.wants("s3:ObjectCreated:Copy", "in/a .jpg")
    assert not rule.wants("s3:ObjectCreated:Put", "out/a .jpg")
    assert not rule.wants("s3:ObjectCreated:Put", "in/a.jpg")


def test_a_star_stands_for_all_events_of_its_kind() -> None:
    (rule,) = rules_of_xml(document(configuration()), {"orders"})
    assert rule.wants("s3:ObjectCreated:CompleteMultipartUpload", "k")
    assert not rule.wants("s3:ObjectRemoved:Delete", "k")


@pytest.mark.parametrize("queue", ["arn:minio:sqs:us-east-1:orders:webhook", ARN])
def test_arns_of_minio_work(queue: str) -> None:
    (rule,) = rules_of_xml(document(configuration(queue=queue)), {"orders"})
    assert (rule.target, rule.arn) == ("orders", queue)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<NotificationConfiguration>", "MalformedXML"),
        (b"<Other/>", "MalformedXML"),
        (b"<NotificationConfiguration><Any/></NotificationConfiguration>", "MalformedXML"),
        (document(f"<Queue>{ARN}</Queue>"), "MalformedXML"),
        (document(configuration(queue="arn:aws:sqs:us-east-1:1:orders")), "InvalidArgument"),
        (document(configuration(queue="http://127.0.0.1/")), "InvalidArgument"),
        (document(configuration(queue=ARN.replace("orders", "other"))), "InvalidArgument"),
        (document(configuration("s3:ObjectAccessed:Get")), "InvalidArgument"),
        (document(configuration(middle="x")), "InvalidArgument"),
        (document(configuration(prefix="x", Prefix="y")), "InvalidArgument"),
        (document(configuration(prefix="x" * 1025)), "InvalidArgument"),
        (document(configuration(id="x" * 256)), "InvalidArgument"),
        (document(configuration(), configuration(id="two")), "InvalidArgument"),
        (
            document(configuration(), configuration("s3:ObjectCreated:Put", id="two")),
            "InvalidArgument",
        ),
        (document(configuration(prefix="a"), configuration(prefix="b")), "InvalidArgument"),
        (
            b"<NotificationConfiguration><TopicConfiguration/></NotificationConfiguration>",
            "InvalidArgument",
        ),
    ],
)
def test_what_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        rules_of_xml(body, {"orders"})
    assert refused.value.code == code


def test_rules_that_never_want_the_same_event() -> None:
    other = configuration(queue=ARN.replace("orders", "audit"), id="two")
    assert len(rules_of_xml(document(configuration(), other), {"orders", "audit"})) == 2
    apart = [configuration(prefix="a/"), configuration(prefix="b/", id="two")]
    assert len(rules_of_xml(document(*apart), {"orders"})) == 2
    ends = [configuration(suffix=".a"), configuration(suffix=".b", id="two")]
    assert len(rules_of_xml(document(*ends), {"orders"})) == 2
    kinds = [configuration(), configuration("s3:ObjectRemoved:*", id="two")]
    assert len(rules_of_xml(document(*kinds), {"orders"})) == 2


def test_the_configuration_of_a_bucket() -> None:
    def answer(environ: Environ) -> Response:
        environ.get(NOTIFICATION_TARGETS, set()).add("orders")
        return Response(204)

    pipeline = Pipeline(answer)
    status, _, body = pipeline.ask("GET", "/bucket?notification")
    assert (status, b"QueueConfiguration" in body) == (200, False)
    body = document(configuration())
    assert pipeline.ask("PUT", "/bucket?notification", body=body)[0] == 200
    header = pipeline.storage.environ["HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_NOTIFICATION"]
    assert header.startswith("1:")
    name = "X-Container-Sysmeta-S3Api-Setting-Notification"
    told = Pipeline(lambda environ: Response(204, {name: header}))
    status, _, body = told.ask("GET", "/bucket?notification")
    assert status == 200
    assert rules_of_xml(body, None)[0].arn == ARN
    none = b"<NotificationConfiguration/>"
    assert pipeline.ask("PUT", "/bucket?notification", body=none)[0] == 200
    assert pipeline.storage.environ["HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_NOTIFICATION"] == ""


def test_without_the_filter_there_are_no_targets() -> None:
    pipeline = Pipeline(lambda environ: Response(204))
    pipeline.storage.infos["/v1/AUTH_test/bucket"] = INFO
    status, _, body = pipeline.ask("PUT", "/bucket?notification", body=document(configuration()))
    assert (status, code_of(body)) == (400, "InvalidArgument")
    assert [call for call in pipeline.storage.calls if call.startswith("POST")] == []
