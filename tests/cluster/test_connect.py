"""Names of clusters that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.cluster import connect
from quantkit.cluster.connect import TlsFiles, connected
from quantkit.errors import ClusterError, UserError

pytestmark = pytest.mark.requires("cluster")


@pytest.mark.parametrize(
    "name", ["local:0", "local:", "local:two", "local:99999", "somewhere", "tcp://host", "host:port"]
)
def test_what_names_no_cluster_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="local:N for N workers on this machine"), connected(name):
        pass


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no scheduler file .*none\.json"), connected(str(tmp_path / "none.json")):
        pass
    tls = TlsFiles(tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem")
    with pytest.raises(UserError, match=r"no file .*ca\.pem"), connected("tls://127.0.0.1:1", tls):
        pass


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_PATIENCE", 1)
    told = r"no scheduler answers at tcp://127\.0\.0\.1:1 .*start one"
    with pytest.raises(ClusterError, match=told), connected("tcp://127.0.0.1:1"):
        pass
