"""A conf with only a few filters does not bypass the required ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from swift_api import Account


def test_a_tenant_cannot_give_orders_to_storage_servers(
    cluster: RunningCluster, tmp_path: Path, container: str
) -> None:
    future = {"X-Timestamp": "9999999999.00000", "X-Object-Sysmeta-Order": "obey"}
    with OtherProxy(cluster, tmp_path, "cache tempauth proxy-server", {}) as proxy:
        user = Account(proxy.port)
        first = user.call("PUT", container, "o", headers=future, body=b"first")
        assert first.status == 201
        assert "x-trans-id" in first.headers
        assert user.call("PUT", container, "o", body=b"second").status == 201
        assert user.call("GET", container, "o").body == b"second"
        user.close()
        assert "event=filter_inserted filter=gatekeeper right_of=-" in proxy.log


def test_keystoneauth_alone_does_not_start(cluster: RunningCluster, tmp_path: Path) -> None:
    pipeline = "catch_errors gatekeeper cache keystoneauth proxy-server"
    sections = {"filter:keystoneauth": {"use": "egg:martlet#keystoneauth"}}
    with (
        pytest.raises(AssertionError, match="keystoneauth needs authtoken"),
        OtherProxy(cluster, tmp_path, pipeline, sections),
    ):
        pass
