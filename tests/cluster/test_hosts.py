"""Work on hosts that each have a network of their own: what becomes of it when some fall silent."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from quantkit.cluster import tasks
from quantkit.cluster.executor import ClusterExecutor
from quantkit.data.batch_stream import BatchStream
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError
from quantkit.files.cache import KINDS
from quantkit.fusion.fused_model import FusedModel
from quantkit.progress import silent
from quantkit.quantization.calibrate import calibrate
from tests.cluster.hosts import WORKERS, Host, address, client_of, cut, dask, network
from tests.cluster.slow_counting import Counting

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.requires("cluster", "namespaces")

SUM = sum(range(24))


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))


def samples(data: Any) -> BatchStream:
    return BatchStream(load_data(data), None, (1,), 2)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.npz"
    np.savez(path, x=np.arange(24, dtype=np.float32)[:, None])
    return path


def test_two_hosts_find_what_one_process_does(hosts: list[Host], digits_fused: FusedModel) -> None:
    expected = calibrate(digits_fused, "digits:train", 60, "entropy")
    with client_of(hosts) as client, ClusterExecutor(client, 4) as executor:
        assert executor.description.startswith("2 workers on 2 hosts")
        assert calibrate(digits_fused, "digits:train", 60, "entropy", executor=executor) == expected
    assert {each.host for each in executor.work} == set(WORKERS)


@pytest.mark.long
def test_a_host_that_falls_silent_in_a_shard(hosts: list[Host], numbers: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    lost: list[str] = []

    def cut_who_hangs() -> None:
        deadline = time.monotonic() + 60
        while not (trap.exists() and trap.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        lost.append(trap.read_text())
        cut(hosts[0], next(host for host in hosts if host.name == lost[0]))

    with client_of(hosts) as client, ClusterExecutor(client, 2) as executor:
        event = Thread(target=cut_who_hangs)
        event.start()
        assert executor(Counting(0.1, str(trap)), samples(str(numbers)), silent, "counting") == SUM
        event.join()
    assert len(executor.work) == 12 and lost[0] not in [each.host for each in executor.work][-6:]


@pytest.mark.long
def test_samples_that_are_sent_to_a_silent_host(hosts: list[Host], numbers: Path) -> None:
    scheduler, left, right = hosts
    with client_of(hosts) as client:
        with ClusterExecutor(client, 2) as executor:
            # The scheduler deals out: the job goes to the left, the first samples to the right.
            cut(scheduler, right)
            assert executor(Counting(0), samples(np.load(numbers)["x"]), silent, "counting") == SUM
        assert {each.host for each in executor.work} == {"left"}
        cut(scheduler, left)
        with pytest.raises(ClusterError, match=r"the cluster has no workers; start some"):
            ClusterExecutor(client)


@pytest.mark.long
def test_all_hosts_silent_is_told(hosts: list[Host], numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_DESERTED", 1.0)

    def cutting(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        for number, result in enumerate(results):
            yield result
            if number == 1:
                cut(hosts[0], hosts[1])
                cut(hosts[0], hosts[2])

    with client_of(hosts) as client, ClusterExecutor(client, 2) as executor:
        told = r"the cluster has had no workers for 1 s; start some, and run the same command"
        with pytest.raises(ClusterError, match=told):
            executor(Counting(0.1), samples(str(numbers)), cutting, "counting")
    (entry,) = KINDS["shards"].entries()
    assert entry.size


def test_a_worker_without_space_on_disk_computes(tmp_path: Path, numbers: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    with network(("scheduler", *WORKERS), tmp_path) as hosts:
        scheduler, left, right = hosts
        right.run("mount", "-t", "tmpfs", "-o", "size=64k", "full", str(full))
        right.run("sh", "-c", f"! cat /dev/zero >{shlex.quote(str(full / 'zeros'))}")
        for variable in ("TMPDIR", "DASK_TEMPORARY_DIRECTORY"):
            right.run("export", f"{variable}={full}")
        dask(scheduler, "scheduler", "--port", "8786")
        for host in (left, right):
            dask(host, "worker", address(hosts), "--nthreads", "1")
        with client_of(hosts) as client:
            folders = client.run(lambda dask_worker: dask_worker.local_directory).values()
            assert any(Path(folder).is_relative_to(full) for folder in folders)
            for data in (str(numbers), np.load(numbers)["x"]):
                with ClusterExecutor(client, 2) as executor:
                    assert executor(Counting(0.1), samples(data), silent, "counting") == SUM
                assert {each.host for each in executor.work} == set(WORKERS)
