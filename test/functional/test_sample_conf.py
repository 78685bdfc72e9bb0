"""etc/proxy-server.conf-sample unchanged, except that one of its users is enabled."""

from __future__ import annotations

from pathlib import Path

from other_proxy import OtherProxy
from running_cluster import RunningCluster
from source_tree import ROOT
from swift_api import Account

from martlet.conf.options import read_ini


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_the_first_upload_of_a_new_account(cluster: RunningCluster, tmp_path: Path) -> None:
    """Only the listening address and the path of the rings are changed as well."""
    text = (ROOT / "etc" / "proxy-server.conf-sample").read_text()
    text = replaced(text, "# bind_ip = 0.0.0.0", "bind_ip = 127.0.0.1")
    text = replaced(text, "# swift_dir = /etc/martlet", f"swift_dir = {cluster.home / 'etc'}")
    user = "# user_test_tester = testing .admin"
    text = replaced(text, user, "user_sample_user = chosen .admin")
    conf = tmp_path / "sample.conf"
    conf.write_text(text)
    pipeline = read_ini(conf)["pipeline:main"]["pipeline"]
    with OtherProxy(cluster, tmp_path, pipeline, {}, base=conf) as proxy:
        account = Account(proxy.port, "sample:user", "chosen")
        assert account.call("PUT", "photos").status == 201
        assert account.call("PUT", "photos", "cat.jpg", body=b"meow").status == 201
        assert account.call("GET", "photos", "cat.jpg").body == b"meow"
        account.close()
        assert "filter_inserted" not in proxy.log
