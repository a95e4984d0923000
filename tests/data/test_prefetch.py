"""Working ahead: the same results in the same order, bounded, and no thread left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.batches import Batch, batches
from quantkit.data.prefetch import prefetched
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Samples, repeated, take
from quantkit.data.sources import load_data
from quantkit.errors import DataError

PREPROCESS = Preprocess(40, 32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert own_threads() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 photographs of different sizes in two classes."""
    from PIL import Image

    path = tmp_path_factory.mktemp("photographs")
    random = np.random.default_rng(0)
    for index in range(25):
        file = path / f"{index % 2}" / f"{index:02}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 256, (40 + index, 60, 3), np.uint8)).save(file)
    return path


def by_chance(item: int) -> int:
    """Takes longer for some than for others, so that threads overtake each other."""
    time.sleep((item * 7919 % 5) / 1000)
    return item * item


@pytest.mark.parametrize("workers", [0, 1, 3, 50])
@pytest.mark.parametrize("depth", [1, 2, 7, 100])
def test_results_come_in_order(workers: int, depth: int) -> None:
    assert list(prefetched(by_chance, range(20), workers, depth)) == [item * item for item in range(20)]


def test_nothing_to_do() -> None:
    assert list(prefetched(by_chance, [], 2, 4)) == []


@pytest.mark.parametrize("taken", [0, 1])
def test_work_goes_on_while_the_consumer_is_busy(taken: int) -> None:
    done: list[int] = []
    with closing(prefetched(done.append, range(100), 2, 5)) as stream:
        for _ in range(taken):
            next(stream)
        deadline = time.monotonic() + 10
        while len(done) < 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert sorted(done) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("depth", [1, 3, 10])
def test_no_more_than_depth_results_wait(depth: int) -> None:
    drawn = 0

    def items() -> Iterator[int]:
        nonlocal drawn
        for item in range(50):
            drawn += 1
            yield item

    for taken, _ in enumerate(prefetched(by_chance, items(), 4, depth)):
        assert drawn <= taken + depth


def test_an_error_comes_in_its_place() -> None:
    def failing(item: int) -> int:
        if item >= 5:
            raise DataError(f"bad {item}")
        return by_chance(item)

    found = []
    with pytest.raises(DataError, match="bad 5"):
        for result in prefetched(failing, range(20), 4, 8):
            found.append(result)
    assert found == [0, 1, 4, 9, 16]


def test_an_error_of_the_source_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise DataError("no more")

    found = []
    with pytest.raises(DataError, match="no more"):
        for result in prefetched(by_chance, items(), 4, 20):
            found.append(result)
    assert found == [0, 1, 4, 9, 16]


@pytest.mark.timing
@pytest.mark.parametrize("end", ["close", "drop", "throw"])
def test_an_early_end_ends_the_threads_and_cancels_what_waits(end: str) -> None:
    begun: list[int] = []

    def slow(item: int) -> None:
        begun.append(item)
        time.sleep(0.02)

    stream = prefetched(slow, range(1000), 2, 500)
    next(stream)
    assert len(own_threads()) == 2
    started = time.monotonic()
    if end == "close":
        stream.close()
    elif end == "throw":
        with pytest.raises(KeyboardInterrupt):
            stream.throw(KeyboardInterrupt)
    else:
        del stream
    assert time.monotonic() - started < 1
    assert own_threads() == []
    assert len(begun) < 20


def test_workers_give_way_to_the_engine() -> None:
    def niceness(_: int) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    own = niceness(0)
    assert set(prefetched(niceness, range(4), 2, 4)) == {min(own + 10, 19)}
    assert niceness(0) == own


def contents(stream: Iterator[Batch]) -> list[Any]:
    return [(b.data.tobytes(), b.labels.tolist() if b.labels is not None else None, b.names) for b in stream]


@pytest.mark.parametrize("batch_size", [1, 4, 25])
def test_batches_are_the_same_with_and_without(folder: Path, batch_size: int) -> None:
    def read(workers: int, limit: int | None = None) -> list[Any]:
        return contents(batches(load_data(folder), PREPROCESS, (3, 32, 32), batch_size, limit, 2, workers))

    assert read(3) == read(0)
    assert read(3, 7) == read(0, 7)


def record(folder: Path) -> Path:
    """The folder's first images in a RecordIO file, as in its documentation."""
    import struct

    path = folder.parent / "photographs.rec"
    with path.open("wb") as file:
        for index, image in enumerate(sorted(folder.rglob("*.png"))[:9]):
            content = struct.pack("<IfQQ", 0, index, 0, 0) + image.read_bytes()
            file.write(struct.pack("<II", 0xCED7230A, len(content)) + content + bytes(-len(content) % 4))
    return path


def npz(folder: Path) -> Path:
    path = folder.parent / "photographs.npz"
    np.savez(path, x=np.random.default_rng(0).integers(0, 256, (9, 50, 40, 3), np.uint8), y=np.arange(9))
    return path


@pytest.mark.parametrize("made", [record, npz, lambda _: "builtin"])
def test_every_kind_of_samples_is_the_same_with_and_without(folder: Path, made: Callable[[Path], Any]) -> None:
    def read(workers: int) -> list[Any]:
        return contents(batches(take(load_data(made(folder)), 9), PREPROCESS, (3, 32, 32), 4, workers=workers))

    assert read(3) == read(0)


def test_a_damaged_image_is_named_after_those_before_it(folder: Path, tmp_path: Path) -> None:
    for index, image in enumerate(sorted(folder.rglob("*.png"))[:9]):
        (tmp_path / f"{index}.png").write_bytes(image.read_bytes() if index != 6 else b"no image")
    found = []
    with pytest.raises(DataError, match=r"image 6\.png"):
        for batch in batches(load_data(tmp_path), PREPROCESS, (3, 32, 32), 2, workers=3):
            found.append(batch.names)
    assert found == [("0.png", "1.png"), ("2.png", "3.png"), ("4.png", "5.png")]


@pytest.mark.parametrize("source", ["folder", "npz"])
def test_repeated_samples_begin_again(folder: Path, source: str) -> None:
    samples = load_data(folder if source == "folder" else npz(folder))
    names = [sample.name for sample in samples]
    for number in (1, 4, 100):
        some = names[:number]
        endless: Samples = repeated(samples, number)
        with closing(batches(endless, PREPROCESS, (3, 32, 32), 3, workers=2)) as stream:
            found = [name for _ in range(20) for name in next(stream).names]
        assert found == (some * 60)[:60]


def test_repeated_samples_of_a_choice(folder: Path) -> None:
    chosen = take(load_data(folder), 5, seed=3)
    names = [sample.name for sample in chosen]
    assert [read().name for read, _ in zip(repeated(chosen, 3).deferred(), range(7))] == (names[:3] * 3)[:7]


INTERRUPTED = """
import sys, threading, time
from quantkit.data.prefetch import prefetched
print("ready", flush=True)
try:
    for _ in prefetched(lambda _: time.sleep(0.05), range(10**6), 2, 1000):
        pass
except KeyboardInterrupt:
    print(threading.active_count(), flush=True)
"""


@pytest.mark.timing
def test_ctrl_c_ends_it_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "1\n"
        assert process.wait(5) == 0
        assert time.monotonic() - begun < 2
