"""A locked version, which the release before object lock does not know."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from api_clients import FAILURES, Clients
from cluster_databases import ring_of
from mixed_cluster import MixedCluster

_BUCKET = "locked"
_BODY = b"kept by a legal hold"
_SENTENCE = "format not supported by this version"


class Locked:
    """Writes the version once, in a partition without another object that is asked for."""

    def __init__(
        self, cluster: MixedCluster, clients: Clients, others: Iterable[tuple[str, str]]
    ) -> None:
        self._cluster = cluster
        ring = ring_of(cluster, "object")
        account = clients.own.path.rpartition("/")[2]
        taken = {ring.get_part(account, *names) for names in others}
        keys = (f"key-{number}" for number in itertools.count())
        self._key = next(key for key in keys if ring.get_part(account, _BUCKET, key) not in taken)
        clients.s3.create_bucket(Bucket=_BUCKET, ObjectLockEnabledForBucket=True)
        put = clients.s3.put_object(
            Bucket=_BUCKET, Key=self._key, Body=_BODY, ObjectLockLegalHoldStatus="ON"
        )
        self._version = put["VersionId"]

    def findings_in_old_release(self, clients: Clients) -> list[str]:
        """The old release serves no byte of the partition, and its log says why."""
        findings = []
        try:
            clients.s3.get_object(Bucket=_BUCKET, Key=self._key)
            findings.append("the old release serves a version whose lock it does not know")
        except FAILURES as error:
            if "503" not in str(error) and "ServiceUnavailable" not in str(error):
                findings.append(f"the old release answers {error!r}")
        logs = [
            self._cluster.log_of(f"object-server-node{number}") for number in self._cluster.nodes
        ]
        said = [log for log in logs if _SENTENCE in log]
        if len(said) < 3:
            findings.append(f"{len(said)} object servers say that they do not know the lock")
        return findings

    def findings_in_new_release(self, clients: Clients) -> list[str]:
        """The version is there, and its lock counts."""
        asked = {"Bucket": _BUCKET, "Key": self._key, "VersionId": self._version}
        findings = []
        try:
            if clients.s3.get_object(**asked)["Body"].read() != _BODY:
                findings.append("the locked version has other bytes after the way back")
            hold = clients.s3.get_object_legal_hold(**asked)["LegalHold"]["Status"]
            if hold != "ON":
                findings.append(f"the legal hold is {hold} after the way back")
        except FAILURES as error:
            return [f"the locked version after the way back: {error!r}"]
        try:
            clients.s3.delete_object(**asked)
            findings.append("the locked version could be removed after the way back")
        except FAILURES as error:
            if "AccessDenied" not in str(error):
                findings.append(f"the removal of the locked version: {error!r}")
        return findings
