"""Work on a cluster of two real workers: the results are those of one process, whatever happens to the workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import quantkit
from quantkit.bundle.network import network_of
from quantkit.calibration.table import CalibrationTable
from quantkit.cluster import connect
from quantkit.cluster.connect import connected
from quantkit.cluster.executor import ClusterExecutor, nodes_of
from quantkit.cluster.job import Job, pack
from quantkit.cluster.node import Node, this_node
from quantkit.cluster.worker import Session, run_shard
from quantkit.data.aggregation import in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError, DataError
from quantkit.evaluation.evaluate import evaluate_networks
from quantkit.files.cache import KINDS
from quantkit.fusion.fused_model import FusedModel
from quantkit.progress import silent
from quantkit.quantization.calibrate import calibrate
from tests.cluster.slow_counting import Counting

if TYPE_CHECKING:
    from distributed import Client

SAMPLES = 60
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))


METHODS = ("minmax", "entropy", "mse")


@pytest.fixture(scope="module")
def tables(digits_fused: FusedModel) -> list[CalibrationTable]:
    """Those that one process makes."""
    return [calibrate(digits_fused, "digits:train", SAMPLES, method) for method in METHODS]


@pytest.mark.parametrize("size", [None, 4, 32])
def test_tables_are_those_of_one_process(
    client: Client, digits_fused: FusedModel, tables: list[CalibrationTable], size: int | None
) -> None:
    with ClusterExecutor(client, size) as executor:
        for method, table in zip(METHODS, tables):
            assert calibrate(digits_fused, "digits:train", SAMPLES, method, executor=executor) == table
    assert len(executor.work) == len(METHODS) * -(-SAMPLES // (size or 8))
    assert not KINDS["shards"].entries()


def test_an_evaluation_is_that_of_one_process(client: Client, digits_fused: FusedModel) -> None:
    whole = network_of(digits_fused.model)
    networks: Any = {"network": replace(whole, graph=digits_fused.graph), "reference": whole}
    data = load_data("digits:test")
    expected = evaluate_networks(networks, data, num_samples=SAMPLES)
    with ClusterExecutor(client, 16) as executor:
        found = evaluate_networks(networks, data, num_samples=SAMPLES, executor=executor)
    assert found.document == expected.document and found.accuracy["network"].top1 > 0.9


def test_samples_in_memory_are_sent(client: Client, digits_fused: FusedModel) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (SAMPLES, 8, 8, 3)).astype(np.uint8)
    whole = quantkit.calibrate(digits_fused, pixels, SAMPLES)
    assert quantkit.calibrate(digits_fused, pixels, SAMPLES, cluster=client) == whole
    assert not KINDS["shards"].entries()


def test_errors_come_back_as_they_are(client: Client, digits_fused: FusedModel) -> None:
    nothing = np.zeros((SAMPLES, *digits_fused.model.input_shape), np.float32)
    with pytest.raises(DataError, match="every sample of arrays is constant"):
        quantkit.calibrate(digits_fused, nothing, cluster=client)


def test_files_that_workers_cannot_read_are_named(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.zeros((8, 3), np.float32))
    stream = BatchStream(load_data(str(path)), None, (3,), 2)
    path.unlink()
    with ClusterExecutor(client) as executor, pytest.raises(DataError, match=r"there is no sample data .*samples\.npz"):
        executor(Counting(), stream, silent, "counting")


def counted(client: Client, path: Path, during: Callable[[], object] = lambda: None) -> tuple[int, ClusterExecutor]:
    """The sum of the numbers in a file as a cluster finds it, shard by shard, while something happens."""
    stream = BatchStream(load_data(str(path)), None, (1,), 2)
    with ClusterExecutor(client, 2) as executor:
        event = threading.Thread(target=during)
        event.start()
        try:
            return executor(Counting(), stream, silent, "counting"), executor
        finally:
            event.join()


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.npz"
    np.savez(path, x=np.arange(24, dtype=np.float32)[:, None])
    return path


def test_a_worker_that_is_killed_is_made_up_for(client: Client, numbers: Path) -> None:
    (victim, *_) = client.run(os.getpid).values()

    def kill() -> None:
        time.sleep(1.0)
        os.kill(victim, signal.SIGKILL)

    total, executor = counted(client, numbers, kill)
    assert total == sum(range(24))
    assert len(executor.work) == 12
    client.wait_for_workers(2)


def test_all_workers_killed_are_made_up_for(client: Client, numbers: Path) -> None:
    victims = client.run(os.getpid).values()

    def kill() -> None:
        time.sleep(1.0)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)

    total, _ = counted(client, numbers, kill)
    assert total == sum(range(24))
    client.wait_for_workers(2)


def test_a_shard_that_hangs_is_computed_elsewhere(client: Client, numbers: Path, tmp_path: Path) -> None:
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)
    with ClusterExecutor(client, 2) as executor:
        assert executor(Counting(0.1, str(tmp_path / "trap")), stream, silent, "counting") == sum(range(24))
        assert len(executor.work) == 12
    assert (tmp_path / "trap").exists()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler and a worker, each in a process of its own, as a user starts them; their file is ``cluster.json``."""
    path, environment = tmp_path / "cluster.json", {**os.environ, "PYTHONPATH": str(ROOT)}
    options = ["--scheduler-file", str(path), "--host", "127.0.0.1", "--no-dashboard"]
    started = []
    try:
        for program in (["scheduler", "--port", "0"], ["worker", "--nthreads", "1"]):
            command = [sys.executable, "-m", "dask", *program, *options]
            started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL))
            while not path.exists():
                time.sleep(0.1)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_scheduler_that_dies_is_told(
    hosts: list[subprocess.Popen[bytes]], numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask

    monkeypatch.setattr(connect, "_PATIENCE", 3)
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)

    def killing(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        for result in results:
            yield result
            hosts[0].kill()

    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}), connected(str(tmp_path / "cluster.json")) as it:
        it.wait_for_workers(1)
        told = "the scheduler at tcp://.* no longer answers .*; start it again, and run the same command"
        with ClusterExecutor(it, 2) as executor, pytest.raises(ClusterError, match=told):
            executor(Counting(), stream, killing, "counting")
    (entry,) = KINDS["shards"].entries()
    assert entry.size


def test_what_is_known_is_not_computed_again(client: Client, numbers: Path) -> None:
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)

    def interrupted(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        for number, result in enumerate(results):
            yield result
            if number == 4:
                raise KeyboardInterrupt

    with ClusterExecutor(client, 2) as executor, pytest.raises(KeyboardInterrupt):
        executor(Counting(), stream, interrupted, "counting")
    (entry,) = KINDS["shards"].entries()
    assert entry.size
    # The shards are those of the run before.
    with ClusterExecutor(client) as executor:
        assert executor(Counting(), stream, silent, "counting") == sum(range(24))
        assert len(executor.work) == 12 - 5
    assert not KINDS["shards"].entries()


def test_other_files_are_computed_anew(client: Client, numbers: Path) -> None:
    def after_one(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        yield next(iter(results))
        raise KeyboardInterrupt

    with ClusterExecutor(client, 2) as executor, pytest.raises(KeyboardInterrupt):
        executor(Counting(), BatchStream(load_data(str(numbers)), None, (1,), 2), after_one, "counting")
    np.savez(numbers, x=np.ones((24, 1), np.float32))
    total, executor = counted(client, numbers)
    assert total == 24 and len(executor.work) == 12


def test_a_worker_of_another_version_is_refused_before_the_work() -> None:
    own = this_node()
    other = replace(own, versions=replace(own.versions, quantkit="9.0"))

    class Client:
        def run(self, function: object) -> dict[str, Node]:
            return {"tcp://one": own, "tcp://two": other}

    told = rf"worker tcp://two has quantkit 9\.0, others have {re.escape(own.versions.quantkit)}; install quantkit"
    with pytest.raises(ClusterError, match=told):
        nodes_of(Client())  # type: ignore[arg-type]


def test_a_worker_of_another_version_that_comes_later_is_refused(client: Client, numbers: Path) -> None:
    job = Job.of(Counting(), BatchStream(load_data(str(numbers)), None, (1,), 2))
    versions = replace(this_node().versions, numpy="3.0")
    task = client.submit(run_shard, Session("later", versions, {}), *pack(job), range(2))
    with pytest.raises(ClusterError, match=r"worker tls://\S+ has numpy .*, others have 3\.0; install numpy 3\.0"):
        task.result()


def test_in_one_process_is_the_same(numbers: Path) -> None:
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)
    assert in_this_process(Counting(seconds=0), stream, silent, "counting") == sum(range(24))
