"""A predictor whose network runs in instances."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.bundle import Bundle, write_float_bundle
from quantkit.deployment import instance, pool
from quantkit.deployment.instance import Instance
from quantkit.deployment.instances import Instances
from quantkit.deployment.kept_instance import InstanceWarning, KeptInstance
from quantkit.deployment.loading import load
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.request import Piece
from quantkit.errors import BundleError, DataError, DeadlineExceeded, InstanceError, UserError
from quantkit.fusion.fused_model import FusedModel
from tests.deployment.test_fork import in_a_fork

LIMIT = 60.0


def same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(initial=1))


@pytest.fixture
def predictor(directory: Path) -> Iterator[Predictor]:
    with load(directory, instances=Instances(1, batch=4)) as loaded:
        yield loaded


def test_what_cannot_be_handed_over_is_answered(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object) -> None:
        raise ValueError("broken")

    images = np.zeros((1, *predictor.input_shape), np.float32)
    with monkeypatch.context() as broken:
        broken.setattr(Instance, "put", failing)
        with pytest.raises(ValueError, match="broken"):
            predictor.predict(images, timeout=LIMIT)
    # It is no reason to give the instance up.
    before = pids(predictor)
    assert predictor.predict(images, timeout=LIMIT).shape[0] == 1
    assert pids(predictor) == before and predictor.status().lost == 0


def test_batches_that_are_no_input_are_refused(predictor: Predictor) -> None:
    for wrong in (np.zeros((1, 3, 8, 8), np.float32), np.zeros((1, *predictor.input_shape), np.float64)):
        with pytest.raises(DataError, match=r"give what batches\(\) returns"):
            asyncio.run(predictor.outputs_async([wrong]))


def pids(predictor: Predictor) -> list[int]:
    assert isinstance(predictor._runner, pool.Pool)
    return predictor._runner.pids()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def replaced(predictor: Predictor, pid: int) -> int:
    """The process in the place of one that was lost."""
    deadline = time.monotonic() + LIMIT
    while (found := pids(predictor)[0]) in (0, pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("spread", ["core", 1, Instances("machine", batch=16, window=0.005)])
def test_it_predicts_like_one_in_this_process(
    directory: Path, spread: Instances | str | int, inputs: np.ndarray, expected: np.ndarray
) -> None:
    with load(directory, instances=spread) as predictor:
        same(predictor.predict(inputs), expected)
        same(predictor.predict(inputs[0]), expected[:1])
        same(np.stack(list(predictor.stream(iter(inputs)))), expected)
        assert predictor.predict([]).shape == (0, 10)
        with ThreadPoolExecutor(8) as threads:
            for found, wanted in zip(threads.map(predictor.predict, inputs), expected):
                same(found, wanted[None])


def test_each_is_in_a_place_of_its_own(directory: Path) -> None:
    with load(directory, instances="core") as predictor:
        places = [frozenset(os.sched_getaffinity(pid)) for pid in pids(predictor)]
        assert len(set(places)) == len(places) and set(map(len, places)) == {1}


def test_one_that_is_elsewhere_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "problem", lambda proof, placement, openmp: f"it has {placement.threads} threads")
    with pytest.warns(InstanceWarning, match="not in its place: it has 1 threads"):
        load(directory, instances=Instances(1, threads=1)).close()


def test_instances_that_died_while_they_were_idle_cost_no_request(
    directory: Path, inputs: np.ndarray, expected: np.ndarray
) -> None:
    with load(directory, instances=Instances("core", batch=1)) as predictor:
        # The second time, nobody asks them for anything.
        for images in (inputs, inputs[:0]):
            before = pids(predictor)
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            same(predictor.predict(images), expected[: len(images)])
            while any(each in (0, *before) for each in pids(predictor)):
                time.sleep(0.01)


def test_another_current_folder_does_not_matter(
    directory: Path, inputs: np.ndarray, expected: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    with load(directory.name, instances=1) as predictor:
        monkeypatch.chdir(tmp_path)
        (pid,) = pids(predictor)
        os.kill(pid, signal.SIGKILL)
        same(predictor.predict(inputs), expected)


def test_the_event_loop_goes_on(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    async def all_at_once() -> list[np.ndarray]:
        return await asyncio.gather(*(predictor.predict_async(image) for image in inputs))

    same(np.concatenate(asyncio.run(all_at_once())), expected)


def test_what_is_late_is_told_and_what_is_cancelled_is_not_computed(
    predictor: Predictor, inputs: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    begin = KeptInstance._begin

    def recorded(kept: KeptInstance, instance: Instance, slot: int, pieces: list[Piece]) -> bool:
        begun.extend(piece.size for piece in pieces)
        return begin(kept, instance, slot, pieces)

    monkeypatch.setattr(KeptInstance, "_begin", recorded)
    with pytest.raises(DeadlineExceeded, match="allow it more"):
        predictor.predict(inputs, timeout=0.0)
    (pid,) = pids(predictor)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DeadlineExceeded):
            predictor.predict(inputs, timeout=0.05)
        with pytest.raises(DeadlineExceeded):
            asyncio.run(predictor.predict_async(inputs, timeout=0.05))

        async def cancelled() -> None:
            waiting = asyncio.create_task(predictor.predict_async(inputs[0]))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await waiting

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancelled())
        # At most what the instance has room for; what else there was is given up.
        already = sum(begun)
        assert already <= 32
    finally:
        os.kill(pid, signal.SIGCONT)
    assert predictor.predict(inputs).shape == (37, 10)
    assert sum(begun) == already + 37
    assert pids(predictor) == [pid]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_instance_that_is_killed_is_replaced(
    predictor: Predictor,
    inputs: np.ndarray,
    expected: np.ndarray,
    number: signal.Signals,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (pid,) = pids(predictor)
    os.kill(pid, number)
    same(predictor.predict(inputs), expected)
    assert replaced(predictor, pid) != pid
    assert predictor.status().lost == 1
    assert [record.message.startswith("an instance is replaced: ") for record in caplog.records] == [True]


def test_what_it_computes_at_that_moment_is_computed_again(
    predictor: Predictor, inputs: np.ndarray, expected: np.ndarray
) -> None:
    (pid,) = pids(predictor)
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(predictor.predict, part) for part in (inputs[:20], inputs[20:])]
        time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        same(np.concatenate([each.result(LIMIT) for each in waiting]), expected)


def test_one_that_hangs_is_replaced(
    directory: Path, inputs: np.ndarray, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "_LEAST_PATIENCE", 2.0)
    with load(directory, instances=Instances(1)) as predictor:
        (pid,) = pids(predictor)
        os.kill(pid, signal.SIGSTOP)
        same(predictor.predict(inputs), expected)
        assert replaced(predictor, pid) != pid and not lives(pid)


def test_requests_fail_where_no_instance_can_be_started_again(
    predictor: Predictor, inputs: np.ndarray, recwarn: pytest.WarningsRecorder
) -> None:
    os.kill(pids(predictor)[0], signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        failing = threads.submit(predictor.predict, inputs[0])
        time.sleep(0.1)
        while not failing.done():
            for pid in filter(None, pids(predictor)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        with pytest.raises(InstanceError, match="an instance was killed by SIGKILL"):
            failing.result()
    assert any("an instance is given up" in str(warning.message) for warning in recwarn)
    with pytest.raises(InstanceError, match="an instance was killed by SIGKILL"):
        predictor.predict(inputs)


def test_it_ends_when_it_is_closed(directory: Path, inputs: np.ndarray) -> None:
    predictor = load(directory, instances=1)
    (pid,) = pids(predictor)
    assert repr(predictor).endswith(", engine 'mxnet', 1 instance)")
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(predictor.predict, inputs)
        time.sleep(0.1)
        predictor.close()
        with pytest.raises(UserError, match="the predictor is closed"):
            waiting.result(LIMIT)
    assert not lives(pid)
    predictor.close()
    with pytest.raises(UserError, match="the predictor is closed; load the bundle again"):
        predictor.predict(inputs)


def test_nobody_who_has_no_reference_keeps_it_alive(directory: Path) -> None:
    predictor = load(directory, instances=1)
    (pid,) = pids(predictor)
    del predictor
    assert not lives(pid)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_may_neither_use_nor_end_it(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    def work() -> str:
        predictor.close()
        return str(predictor.predict(inputs))

    assert in_a_fork(work).startswith("ForkError: the Predictor of 'digits_resnet20_v1' was loaded in process")
    same(predictor.predict(inputs), expected)


def test_a_bundle_that_was_replaced_is_not_mixed_with_the_one_before(
    bundle: Bundle, digits_fused: FusedModel, tmp_path: Path, inputs: np.ndarray
) -> None:
    own = Path(shutil.copytree(bundle.directory, tmp_path / "own"))
    with load(own, instances=1) as predictor:
        (pid,) = pids(predictor)
        shutil.rmtree(own)
        write_float_bundle(replace(digits_fused, model=replace(digits_fused.model, notes=("another",))), own)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(BundleError, match="own was replaced since it was loaded; load it again"):
            predictor.predict(inputs)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "1", True], ids=str)
def test_a_timeout_is_some_seconds(predictor: Predictor, inputs: np.ndarray, timeout: float) -> None:
    with pytest.raises(UserError, match=r"timeout is .*; give seconds"):
        predictor.predict(inputs, timeout=timeout)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_stream_does_not_go_on_in_a_fork(predictor: Predictor, inputs: np.ndarray, expected: np.ndarray) -> None:
    rows = predictor.stream(inputs)
    found = [next(rows) for _ in range(16)]
    assert in_a_fork(lambda: str(next(rows))).startswith("ForkError: the Predictor of")
    same(np.stack([*found, *rows]), expected)


def test_threads_are_of_a_number_of_instances(directory: Path) -> None:
    with load(directory, instances=1, threads=1) as predictor:
        assert isinstance(predictor._runner, pool.Pool)
        assert [placement.threads for placement in predictor._runner.placements] == [1]
    for spread in (None, Instances(1)):
        with pytest.raises(UserError, match="threads are of a number of instances; give instances=N, or Instances"):
            load(directory, instances=spread, threads=1)
    with pytest.raises(UserError, match="instances are 'core'; leave threads out"):
        load(directory, instances="core", threads=1)


@pytest.mark.parametrize(
    ("spread", "told"),
    [
        (Instances("nowhere"), "there is no placement 'nowhere'"),
        (Instances(1000), "there is no room for 1000 instances"),
        (Instances(1000, threads=2), "there is no room for 1000 instances of 2 cores"),
    ],
    ids=repr,
)
def test_instances_need_room(directory: Path, spread: Instances, told: str) -> None:
    with pytest.raises(UserError, match=told):
        load(directory, instances=spread)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"batch": 0}, "batch"),
        ({"batch": True}, "batch"),
        ({"window": -1}, "window is -1; give seconds, from 0 to 1000000"),
        ({"window": 1e7}, "window is 10000000.0; give seconds"),
        ({"window": float("nan")}, "window is nan"),
        ({"window": "1"}, "window is '1'"),
        ({"placement": 2, "threads": 0}, "threads"),
        ({"placement": "core", "threads": 2}, "instances are 'core'; leave threads out"),
    ],
    ids=repr,
)
def test_values_that_cannot_be_used_are_told(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Instances(**wrong)  # type: ignore[arg-type]
