"""Suites on several hosts at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from quantkit.benchmark.measuring.measurement import Conditions
from quantkit.benchmark.results.cell_figures import figures
from quantkit.benchmark.results.result_files import read_results
from quantkit.benchmark.suites.suite import Suite, read_suite
from quantkit.cluster import hosts as on_hosts
from quantkit.cluster.connect import connected
from quantkit.cluster.hosts import Clock, FleetRow, HostRun, fleet, run_on_hosts, together
from quantkit.errors import UserError
from quantkit.host.children import descendants
from tests.cluster.hosts import Host, client_of
from tests.cluster.nodes import scheduler_and_worker

if TYPE_CHECKING:
    from distributed import Client

pytestmark = pytest.mark.requires("cluster")

SUITE = """
title = "A toy"
scenario = "throughput"
batches = [1]
baseline = "FP32"
[[network]]
model = "digits_resnet20_v2"
[[contestant]]
name = "FP32"
build = "here"
variant = "fp32"
policy = "{policy}"
"""


def suite(folder: Path, policy: str = "1x1") -> Suite:
    path = folder / "toy.toml"
    path.write_text(SUITE.format(policy=policy))
    return read_suite(path)


def made(host: str, began: float, ended: float, **throughputs: float) -> HostRun:
    """A run whose contestants have these throughputs; none: it failed."""
    given = {"network": "net", "batch": 1}
    rows = [{**given, "contestant": name, "throughput": each} for name, each in throughputs.items()]
    results: Any = SimpleNamespace(rows=rows) if rows else None
    return HostRun(host, Path(host), Clock(0.0, 0.0), began, ended, results, None if rows else "it failed")


@pytest.fixture
def _rows_as_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_hosts, "figures", lambda results: results.rows)


@pytest.mark.usefixtures("_rows_as_made")
def test_a_fleet_does_what_all_hosts_do() -> None:
    runs = [made("a", 10, 20, fp32=100.0, int8=300.0), made("b", 12, 20, fp32=50.0), made("c", 0, 0)]
    # What one host alone has measured is no figure of the fleet.
    assert fleet(runs) == (FleetRow("net", 1, "fp32", 150.0, 2),)
    assert together(runs) == pytest.approx(0.8)
    assert together([made("a", 10, 20, fp32=1.0), made("b", 21, 30, fp32=1.0)]) == 0.0
    assert (fleet(runs[2:]), together(runs[2:])) == ((), 0.0)


@pytest.mark.long
@pytest.mark.requires("namespaces")
def test_two_hosts_measure_at_once(
    engine: None,
    hosts: list[Host],
    tmp_path: Path,
) -> None:
    told: list[str] = []
    with client_of(hosts) as client:
        # Without a budget, which a busy machine would exceed before anything is measured.
        runs = run_on_hosts(client, suite(tmp_path), tmp_path / "fleet", Conditions(), told.append)
        with pytest.raises(UserError, match="left holds the results of a benchmark already"):
            run_on_hosts(client, suite(tmp_path), tmp_path / "fleet", Conditions(), told.append)
    assert [run.host for run in runs] == ["left", "right"] and not any(run.failure for run in runs)
    assert sorted(message.partition(": measured in ")[0] for message in told) == ["left", "right"]
    own = [figures(read_results(run.folder))[0]["throughput"] for run in runs]
    assert fleet(runs) == (FleetRow("digits_resnet20_v2", 1, "FP32", pytest.approx(sum(own)), 2),)  # type: ignore[arg-type]
    assert together(runs) > 0.5
    # All are on this machine, and have its clock.
    assert all(abs(run.clock.ahead) <= run.clock.uncertainty + 0.05 for run in runs)


def test_a_host_that_cannot_measure_says_why(client: Client, tmp_path: Path) -> None:
    too_large = suite(tmp_path, policy="4096x1")
    (run,) = run_on_hosts(client, too_large, tmp_path / "fleet", Conditions(), lambda message: None)
    assert run.results is None and run.failure is not None and "4096" in run.failure
    assert not (tmp_path / "fleet").exists()


@pytest.mark.long
def test_a_host_that_is_lost_is_told(tmp_path: Path) -> None:
    def killed() -> None:
        wait_for(measuring)
        nodes[1].kill()

    with (
        scheduler_and_worker(tmp_path, of_worker=["--no-nanny"]) as nodes,
        connected(str(tmp_path / "cluster.json")) as client,
    ):
        client.wait_for_workers(1, timeout=60)
        killer = Thread(target=killed)
        killer.start()
        (run,) = run_on_hosts(client, suite(tmp_path), tmp_path / "fleet", Conditions(), lambda message: None)
        killer.join()
    assert run.results is None and run.failure is not None and "lost" in run.failure


def test_folders_have_the_names_of_their_hosts() -> None:
    hosts = {
        "tcp://3": "node 3",
        "tcp://1": "node-2 1",
        "tcp://2": "node 2",
        "tcp://4": "../odd 4",
        "tcp://5": "node 5",
    }
    names = {"tcp://2": "node", "tcp://1": "node-2", "tcp://3": "node-3", "tcp://4": "_odd", "tcp://5": "node-4"}
    assert on_hosts._folder_names(hosts) == names
    assert on_hosts._folder_names(dict(reversed(hosts.items()))) == names


def test_what_measures_ends_with_the_command(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(client: Client, futures: Any) -> Iterator[Any]:
        wait_for(measuring)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(on_hosts, "_as_completed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_on_hosts(client, suite(tmp_path), tmp_path / "fleet", Conditions(), lambda message: None)
    wait_for(lambda: not measuring())


def measuring() -> list[int]:
    """The processes below this one that measure."""
    found = []
    for pid in descendants(os.getpid()):
        try:
            if b"benchmark_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
