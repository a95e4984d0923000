"""Work on a cluster of two real workers, whatever happens to the workers, the samples and the scheduler."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import quantkit
from quantkit.bundle.network import network_of
from quantkit.cluster import connect
from quantkit.cluster.connect import connected
from quantkit.cluster.executor import ClusterExecutor, nodes_of
from quantkit.cluster.job import Job
from quantkit.cluster.node import Node, this_node
from quantkit.cluster.tasks import Tasks
from quantkit.cluster.worker import Session, run_shard
from quantkit.data.aggregation import in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.data.left_out import LeftOutWarning
from quantkit.data.samples import skipping
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError, DataError
from quantkit.evaluation.evaluate import evaluate_networks
from quantkit.files.cache import KINDS
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.children import descendants
from quantkit.models.dataset import dataset
from quantkit.models.model import Model, Source
from quantkit.progress import silent
from quantkit.quantization.calibrate import calibrate
from tests.bad_images import digits_folder
from tests.cluster.nodes import scheduler_and_worker
from tests.cluster.slow_counting import Counting
from tests.networks import DATA, Builder

if TYPE_CHECKING:
    from distributed import Client

pytestmark = pytest.mark.usefixtures("own_home")

SAMPLES = 60

# Shards of four samples, of which the second has bad ones alone.
BAD = (0, 4, 5, 6, 7, 18, 23)


def test_what_is_left_out_is_that_of_one_process(client: Client, digits_fused: FusedModel, tmp_path: Path) -> None:
    folder = str(digits_folder(tmp_path / "digits", 24, BAD))
    images = dataset(digits_fused.model, folder, skip_bad=7)
    table = calibrate(digits_fused, images, 24)
    networks: Any = {"network": network_of(digits_fused.model)}
    data = skipping(load_data(folder), 7)
    evaluated = evaluate_networks(networks, data, 4)
    assert table.samples == evaluated.images == 24 - len(BAD)
    for size in (4, 12):
        with ClusterExecutor(client, size) as executor:
            assert calibrate(digits_fused, images, 24, executor=executor) == table
            assert evaluate_networks(networks, data, 4, executor=executor).document == evaluated.document


def test_samples_that_are_left_out_here_are_not_sent(client: Client, digits_fused: FusedModel, tmp_path: Path) -> None:
    folder = str(digits_folder(tmp_path / "digits", 24, BAD))
    table = calibrate(digits_fused, dataset(digits_fused.model, folder, skip_bad=7), 24)
    # Without an address, they are opened here alone.
    samples = replace(load_data(folder), address=None)
    with pytest.warns(LeftOutWarning, match=r"7 samples .* left out: 000\.png, .* and 2 more") as told:
        assert quantkit.calibrate(digits_fused, samples, 24, cluster=client, skip_bad=7) == table
    (warning,) = (each.message for each in told if isinstance(each.message, LeftOutWarning))
    assert tuple(each.position for each in warning.left_out) == BAD


@pytest.mark.parametrize("size", [4, 24])
def test_no_more_are_left_out_than_by_one_process(
    client: Client, digits_fused: FusedModel, tmp_path: Path, size: int
) -> None:
    images = dataset(digits_fused.model, str(digits_folder(tmp_path / "digits", 24, BAD)), skip_bad=6)
    told = r"023\.png: .*; 6 samples before it were left out, and no more may be"
    with pytest.raises(DataError, match=told):
        calibrate(digits_fused, images, 24)
    with ClusterExecutor(client, size) as executor, pytest.raises(DataError, match=told):
        calibrate(digits_fused, images, 24, executor=executor)


def test_samples_in_memory_are_sent(client: Client, digits_fused: FusedModel) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (SAMPLES, 8, 8, 3)).astype(np.uint8)
    whole = quantkit.calibrate(digits_fused, pixels, SAMPLES)
    assert quantkit.calibrate(digits_fused, pixels, SAMPLES, cluster=client) == whole
    assert not KINDS["shards"].entries()


def test_an_engine_has_as_many_threads_as_asked_for(client: Client, tmp_path: Path) -> None:
    # The sums of such layers depend on their number.
    b = Builder()
    flat = b.op("Flatten", "flat", b.conv("conv", DATA, channels=3, filters=16))
    network = b.graph(b.dense("dense", flat, 16 * 28 * 28, 10))
    model = Model("wide", network, (3, 28, 28), None, Source("wide", "given"))
    fused = quantkit.fuse(model, np.random.default_rng(0).normal(size=(8, 3, 28, 28)).astype(np.float32))
    path = tmp_path / "images.npy"
    np.save(path, np.random.default_rng(1).normal(size=(32, 3, 28, 28)).astype(np.float32))
    whole = calibrate(fused, str(path), 32)
    for size in (4, 16):
        with ClusterExecutor(client, size, threads=int(os.environ["OMP_NUM_THREADS"])) as executor:
            assert calibrate(fused, str(path), 32, executor=executor) == whole


def test_files_that_workers_cannot_read_are_named(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.zeros((8, 3), np.float32))
    stream = BatchStream(load_data(str(path)), None, (3,), 2)
    path.unlink()
    with ClusterExecutor(client) as executor, pytest.raises(DataError, match=r"there is no sample data .*samples\.npz"):
        executor(Counting(), stream, silent, "counting")


def test_an_error_of_a_worker_comes_back_as_it_is(client: Client, numbers: Path) -> None:
    stream = BatchStream(load_data(str(numbers)), None, (2,), 2)
    with ClusterExecutor(client) as executor, pytest.raises(DataError, match=r"of numbers\.npz has shape \(1,\)"):
        executor(Counting(), stream, silent, "counting")


def test_what_reading_raises_is_no_error_of_the_cluster(client: Client) -> None:
    def samples() -> Iterator[np.ndarray]:
        yield np.zeros((2, 1), np.float32)
        yield np.load("missing.npy")

    with ClusterExecutor(client, 2) as executor, pytest.raises(FileNotFoundError, match=r"missing\.npy"):
        executor(Counting(), BatchStream(load_data(samples()), None, (1,), 2), silent, "counting")


def test_no_samples_are_what_they_are_in_one_process(client: Client) -> None:
    nothing = replace(load_data(np.zeros((0, 1), np.float32)), address="/shared/empty.npz")
    with ClusterExecutor(client) as executor, pytest.raises(DataError, match="gave no samples"):
        executor(Counting(), BatchStream(nothing, None, (1,), 2), silent, "counting")


def test_a_call_that_was_given_up_leaves_nothing_behind(client: Client, numbers: Path) -> None:
    whole = BatchStream(load_data(str(numbers)), None, (1,), 2)
    held: list[BaseException] = []

    def interrupted(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        yield next(iter(results))
        raise KeyboardInterrupt

    with ClusterExecutor(client, 2) as executor:
        try:
            executor(Counting(0.1), whole.part(0, 12), interrupted, "counting")
        except KeyboardInterrupt as error:
            held.append(error)
        assert executor(Counting(0.1), whole.part(12, 24), silent, "counting") == sum(range(12, 24))
    deadline = time.monotonic() + 20
    while children := [pid for pids in client.run(engines).values() for pid in pids]:
        assert time.monotonic() < deadline, children
        time.sleep(0.2)


def engines() -> list[int]:
    """The engines of a worker that live."""
    return [pid for pid in descendants(os.getpid()) if b"engine_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


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
        # Nothing computes any more that would disturb a measurement.
        assert (tmp_path / "trap").exists() and len(engines()) == 1


def test_a_scheduler_that_dies_is_told(numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    monkeypatch.setattr(connect, "_PATIENCE", 3)
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)

    def killing(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        for result in results:
            yield result
            nodes[0].kill()

    with scheduler_and_worker(tmp_path) as nodes:
        address = json.loads((tmp_path / "cluster.json").read_text())["address"]
        with connected(address) as it, dask.config.set({"distributed.comm.timeouts.connect": "3s"}):
            it.wait_for_workers(1)
            told = r"the scheduler no longer answers \(.*\); start it again, and run the same command"
            with ClusterExecutor(it, 2) as executor, pytest.raises(ClusterError, match=told):
                executor(Counting(), stream, killing, "counting")
    (entry,) = KINDS["shards"].entries()
    assert entry.size
    with scheduler_and_worker(tmp_path, port=urlsplit(address).port or 0), connected(address) as it:
        it.wait_for_workers(1)
        with ClusterExecutor(it) as executor:
            assert executor(Counting(0), stream, silent, "counting") == sum(range(24))
            assert 0 < len(executor.work) < 12


def test_work_goes_on_where_the_scheduler_is_started_again(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_PATIENCE", 60)
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)

    def killing(results: Iterable[Any], total: int, title: str) -> Iterator[Any]:
        yield next(iter(results))
        nodes[0].kill()
        # Dask's workers end with their scheduler.
        for node in nodes:
            node.wait(60)
        stack.enter_context(scheduler_and_worker(tmp_path, port=urlsplit(address).port or 0))
        client.wait_for_workers(1, timeout=60)
        yield from results

    with ExitStack() as stack:
        nodes = stack.enter_context(scheduler_and_worker(tmp_path))
        address = json.loads((tmp_path / "cluster.json").read_text())["address"]
        with connected(address) as client:
            client.wait_for_workers(1)
            with ClusterExecutor(client, 2) as executor:
                assert executor(Counting(), stream, killing, "counting") == sum(range(24))
    assert len({each.worker for each in executor.work}) == 2


def test_every_worker_gets_shards_at_once(client: Client, numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler would give them to the worker that has the job, and pass some on a second later."""
    sent: list[str | None] = []
    submit = Tasks.submit

    def noted(tasks: Tasks, number: int, shard: Any, worker: str | None = None) -> None:
        sent.append(worker)
        submit(tasks, number, shard, worker)

    monkeypatch.setattr(Tasks, "submit", noted)
    counted(client, numbers)
    assert sorted(filter(None, sent[:4])) == sorted(2 * list(client.nthreads()))
    assert len(sent) > 4 and not any(sent[4:])


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
    task = client.submit(run_shard, Session("later", versions, 1, {}), "job", "", job.serialized(), range(2))
    with pytest.raises(ClusterError, match=r"worker tls://\S+ has numpy .*, others have 3\.0; install numpy 3\.0"):
        task.result()


def test_in_one_process_is_the_same(numbers: Path) -> None:
    stream = BatchStream(load_data(str(numbers)), None, (1,), 2)
    assert in_this_process(Counting(seconds=0), stream, silent, "counting") == sum(range(24))
