"""A cluster of two workers on this machine, which all tests of a process share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.hosts import SILENT, WORKERS, Host, address, dask, network
from tests.requirements import requires

if TYPE_CHECKING:
    from distributed import Client


@pytest.fixture(scope="session")
def client(engine: None) -> Iterator[Client]:
    """A client of two workers."""
    requires("cluster")
    from quantkit.cluster.connect import connected

    with connected("local:2") as client:
        yield client


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """A scheduler's host and two with a worker each."""
    with network(("scheduler", *WORKERS), tmp_path, **SILENT) as hosts:
        dask(hosts[0], "scheduler", "--port", "8786")
        for host in hosts[1:]:
            dask(host, "worker", address(hosts), "--nthreads", "1")
        yield hosts


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial results of earlier tests are not found."""
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
