"""Names of clusters that are none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from quantkit.cluster import connect
from quantkit.cluster.connect import TlsFiles, connected
from quantkit.errors import ClusterError, UserError

if TYPE_CHECKING:
    from distributed import Client

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


def served(port: int, page: str) -> int:
    """The status of a page on this machine."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{page}") as reply:
            return int(reply.status)
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize("dashboard", [True, False])
def test_workers_watch_themselves_for_dasks_page_alone(dashboard: bool) -> None:
    import dask

    names = ["distributed.worker.profile.enabled", "distributed.admin.tick.interval"]
    with connected("local:1", dashboard=dashboard) as own:
        (found,) = own.run(lambda: [dask.config.get(name) for name in names]).values()
    assert found == ([dask.config.get(name) for name in names] if dashboard else [False, "500ms"])


@pytest.mark.parametrize("dashboard", [True, False])
def test_the_dashboard_is_served_where_it_is_asked_for(client: Client, dashboard: bool) -> None:
    """Whatever is served of another cluster of this process."""
    import psutil

    with connected("local:1", dashboard=dashboard) as own:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/status", own.dashboard_link)
        of_scheduler = urlsplit(own.dashboard_link).port
        (of_worker,) = own.run(lambda dask_worker: dask_worker.http_server.port).values()
        pages = [(of_scheduler, "/status"), (of_scheduler, "/info/main/workers.html"), (of_worker, "/metrics")]
        assert [served(port, page) for port, page in pages] == [200 if dashboard else 404] * 3
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = [each.laddr.ip for process in processes for each in process.net_connections() if not each.raddr]
    assert set(listening) == {"127.0.0.1"}
